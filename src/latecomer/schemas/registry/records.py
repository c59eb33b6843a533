"""The values that a registry stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

DEEPEST_REFERENCES = 50
"""Schemas that references may lead through, one after the other."""


class Body(BaseModel):
    """The shape of a body."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True)
class Reference:
    """A name that a schema uses, with the version of a subject that defines it."""

    name: str
    subject: str
    version: int

    def body(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Definition:
    """A schema as it is sent and returned."""

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    """Metadata of its owners: tags, properties, and which of these are sensitive."""
    rules: Mapping[str, Any] | None = field(default=None, hash=False)
    """Rules of a data contract. They are stored and returned, and never run."""

    def body(self) -> dict[str, Any]:
        """As Confluent's registry writes it: without the type AVRO, and without an empty list of references."""
        kind = {} if self.type == "AVRO" else {"schemaType": self.type}
        references = {"references": [each.body() for each in self.references]} if self.references else {}
        contract = {"metadata": self.metadata, "ruleSet": self.rules}
        return {
            "schema": self.text,
            **kind,
            **references,
            **{key: each for key, each in contract.items() if each},
        }


@dataclass(frozen=True)
class Version:
    """A schema under a subject."""

    subject: str
    version: int
    id: int
    definition: Definition
    deleted: bool = False
    registered_at: str | None = None
    guid: str | None = None

    def body(self) -> dict[str, Any]:
        head = {"subject": self.subject, "version": self.version, "id": self.id, "guid": self.guid}
        return {**head, **self.definition.body(), **({"deleted": True} if self.deleted else {})}


class Deleted(StrEnum):
    """Whether to include versions that are deleted but can still be read."""

    LEFT_OUT = "left out"
    INCLUDED = "included"
    ONLY = "only"

    def takes(self, deleted: bool) -> bool:
        """
        >>> Deleted.LEFT_OUT.takes(True), Deleted.INCLUDED.takes(True), Deleted.ONLY.takes(False)
        (False, True, False)
        """
        return self is Deleted.INCLUDED or deleted == (self is Deleted.ONLY)


class Mode(StrEnum):
    """Which changes are allowed."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


NOBODY = "anonymous"
"""The name of every client where there are no tokens."""


@dataclass(frozen=True)
class Actor:
    """Who makes a request, and from which address."""

    name: str
    address: str


@dataclass(frozen=True)
class AuditEntry:
    """A change in the audit."""

    number: int
    at: str
    who: str
    address: str
    action: str
    subject: str | None
    version: int | None
    before: Any
    after: Any

    def body(self) -> dict[str, Any]:
        return {"from" if name == "address" else name: value for name, value in vars(self).items()}
