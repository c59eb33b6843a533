"""`format: avro`: the schema that gives the columns, and the registry with the schemas of the writers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from latecomer.config.registered import SchemaFormat
from latecomer.errors import SourceError

NAME = "avro"


class Avro(SchemaFormat):
    """Avro: messages in Confluent's framing, each with the id of its schema, or object files."""

    kind: ClassVar[str] = NAME
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
        """The name in the store of the schema that it was made with. The URL is left out: it may hold a password."""
        return json.dumps([self.registry_folder, self.subject, self.version, self.schema_file])


def schema_text(avro: Avro, base: Path) -> str:
    """The text of the schema file that the pipeline file names."""
    file = base / Path(avro.schema_file or "").expanduser()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SourceError(
            f"schema_file {file} cannot be read ({reason}); correct source.format.avro.schema_file"
        ) from None
