"""Formats whose records name their schema by an id in a registry: their common settings."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from latecomer.config.own import Decoder
from latecomer.config.secrets import resolved
from latecomer.errors.redacting import conceal

Layout = Literal["joined", "sized"]
"""How files hold messages: one after the other, or each after its length."""


class Registered(Decoder):
    """Records that give the id of the schema that they were written with."""

    kind: ClassVar[str] = ""
    registry: str | None = Field(
        None, min_length=1, description="URL of the schema registry; may have ${env:NAME}"
    )
    token: str | None = Field(
        None, min_length=1, description="what the registry lets us in with: ${env:NAME} or ${file:PATH}"
    )
    subject: str | None = Field(
        None, min_length=1, description="the subject whose schema the columns follow from, as payments-value"
    )
    version: Literal["latest"] | Annotated[int, Field(ge=1)] = Field(
        "latest", description="of the subject; latest is what it is when the store is made"
    )
    messages: Layout | None = Field(
        None,
        description="files: they are of messages as a topic has them, one behind another, or each behind its length in "
        "four bytes",
    )
    unknown_id: Literal["wait", "dead_letter"] = Field(
        "wait", description="what becomes of a message whose id the registry does not know"
    )

    @model_validator(mode="after")
    def _subject_in_registry(self) -> Self:
        if self.registry is None and self.subject is not None:
            raise ValueError("has a subject and no registry; write registry: http://127.0.0.1:8081")
        if self.registry is None and self.token is not None:
            raise ValueError("has a token and no registry; write registry: http://127.0.0.1:8081")
        if self.subject is None and "version" in self.model_fields_set:
            raise ValueError("has a version and no subject; write subject: payments-value")
        return self

    @property
    def names_schema(self) -> bool:
        """Whether the format names the schema that gives the columns."""
        return self.subject is not None

    @property
    def registry_folder(self) -> str:
        """The folder in the store for schemas of this registry. Another registry has its own ids."""
        return hashlib.sha256((self.registry or "").encode()).hexdigest()[:12]

    def secrets(self) -> dict[str, str]:
        """The settings that may refer to a secret, by field."""
        written = {"registry": self.registry, "token": self.token}
        return {f"{self.kind}.{name}": text for name, text in written.items() if text is not None}

    def registry_settings(self, base: Path) -> dict[str, Any]:
        """The URL of the registry and the token, with their secrets inserted."""
        token = None if self.token is None else conceal(resolved(self.token, base))
        return {"url": resolved(self.registry or "", base), "token": token}


class SchemaFormat(Registered):
    """Records whose columns a schema gives."""

    SCHEMA: ClassVar[str] = ""
    """The name of this kind of schema in messages."""

    def require_for_records(self, whose: str) -> None:
        """Refuse a format of records that has no registry to look up their ids, or no schema for the columns."""
        if self.registry is None:
            raise ValueError(
                f"{self.kind} records of {whose} name their schemas by ids; write format: {{{self.kind}: {{registry: "
                "http://127.0.0.1:8081, subject: payments-value}}"
            )
        if not self.names_schema:
            raise ValueError(
                f"{self.kind} does not say which schema the columns follow from; add {self.named_by}"
            )

    @property
    def named_by(self) -> str:
        """The setting that names the schema of the columns, as an example for messages."""
        return "subject: payments-value"

    @property
    def pinned_as(self) -> str:
        """The name in the store of the schema that it was made with. The URL is left out: it may hold a password."""
        return json.dumps([self.registry_folder, self.subject, self.version])
