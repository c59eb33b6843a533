"""`format: avro`, `protobuf`, and `json` with a registry: their records name the schema that they were written with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from latecomer.config.secrets import resolved
from latecomer.config.user_classes import Decoder
from latecomer.errors import SourceError
from latecomer.errors.redacting import conceal
from latecomer.objects.small_files import named_file, small_text

Layout = Literal["joined", "sized"]
"""How files hold messages: one after the other, or each after its length."""
GUID_HEADER = "__value_schema_id"
"""Where Confluent's newer serializers write a GUID."""


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


class RegisteredJson(Registered):
    """JSON in Confluent's framing, or with the id of its schema in a header."""

    model_config = ConfigDict(populate_by_name=True)

    kind: ClassVar[str] = "json"
    id_header: str | None = Field(
        None,
        min_length=1,
        description="the header of a Kafka record that has the id; else the framing has it",
    )
    validates: bool = Field(
        True,
        alias="validate",
        description="check each record against the schema that it was written with; false takes the id alone",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.registry is None and self.validates:
            raise ValueError(
                "has no registry that knows the schemas; write registry: http://127.0.0.1:8081, or validate: false"
            )
        if self.id_header == GUID_HEADER:
            raise ValueError(
                f"has id_header: {GUID_HEADER}, where Confluent's serializers write a GUID, which is not supported; "
                "let producers write the id: into the framing, or as a number into a header of another name"
            )
        return self


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


class Avro(SchemaFormat):
    """Avro: messages in Confluent's framing, each with the id of its schema, or object files."""

    kind: ClassVar[str] = "avro"
    SCHEMA: ClassVar[str] = "Avro schema"
    schema_file: str | None = Field(
        None, min_length=1, description="or a file with that schema, relative to the pipeline file"
    )

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        if self.subject is not None and self.schema_file is not None:
            raise ValueError("names two schemas, subject and schema_file; leave one out")
        return self

    @property
    def named_by(self) -> str:
        return f"{super().named_by}, or schema_file: payments.avsc"

    @property
    def names_schema(self) -> bool:
        return self.subject is not None or self.schema_file is not None

    @property
    def pinned_as(self) -> str:
        return json.dumps([self.registry_folder, self.subject, self.version, self.schema_file])


class Protobuf(SchemaFormat):
    """Protobuf: messages in Confluent's framing, each with the id of its schema and its place there."""

    kind: ClassVar[str] = "protobuf"
    SCHEMA: ClassVar[str] = "Protobuf schema"
    message: str | None = Field(
        None, min_length=1, description="protobuf: the message of the schema that is read; else its first one"
    )

    @model_validator(mode="after")
    def _ends_are_known(self) -> Self:
        if self.messages == "joined":
            raise ValueError(
                "has messages: joined, and a message of Protobuf does not say where it ends; write messages: sized"
            )
        return self

    @property
    def pinned_as(self) -> str:
        return json.dumps([self.registry_folder, self.subject, self.version, {"message": self.message}])


def schema_text(avro: Avro, base: Path) -> str:
    """The text of the schema file that the pipeline file names."""
    try:
        return small_text(named_file(avro.schema_file or "", base))
    except OSError as error:
        file = error.filename or avro.schema_file
        raise SourceError(
            f"schema_file {file} cannot be read ({error.strerror}); correct source.format.avro.schema_file"
        ) from None
