"""What a registry keeps, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Reference:
    """A name that a schema uses, and the version of a subject that defines it."""

    name: str
    subject: str
    version: int

    def body(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Definition:
    """A schema as it is sent and answered."""

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    """What its owners say of it: tags, properties, and which of these are sensitive."""
    rules: Mapping[str, Any] | None = field(default=None, hash=False)
    """Rules of a data contract. They are kept and handed out; nothing here runs them."""

    def body(self) -> dict[str, Any]:
        """As Confluent's registry writes it: AVRO goes without saying, and so does that there are no references."""
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
    """Whether versions that were deleted, and can still be read, are meant too."""

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
    """What may be changed."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


NOBODY = "anonymous"
"""Who asks, where there are no tokens."""


@dataclass(frozen=True)
class Actor:
    """Who changes something, and from where."""

    name: str
    address: str


@dataclass(frozen=True)
class Entry:
    """A change, as the audit has it."""

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
        return {
            "number": self.number,
            "at": self.at,
            "who": self.who,
            "from": self.address,
            "action": self.action,
            "subject": self.subject,
            "version": self.version,
            "before": self.before,
            "after": self.after,
        }
