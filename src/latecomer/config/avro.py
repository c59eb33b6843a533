"""`format: avro`: which schema the columns follow from, and the registry that knows the schemas of the writers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from latecomer.config.own import Decoder
from latecomer.config.secrets import resolved
from latecomer.errors import SourceError
from latecomer.errors.redacting import conceal

NAME = "avro"


class Avro(Decoder):
    """Avro: messages in Confluent's framing, each with the id of its schema, or object files."""

    kind: ClassVar[str] = NAME
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
    schema_file: str | None = Field(
        None, min_length=1, description="or a file with that schema, relative to the pipeline file"
    )
    unknown_id: Literal["wait", "dead_letter"] = Field(
        "wait", description="what becomes of a message whose id the registry does not know"
    )

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        if self.subject is not None and self.schema_file is not None:
            raise ValueError("names two schemas, subject and schema_file; leave one out")
        if self.registry is None and self.subject is not None:
            raise ValueError("has a subject and no registry; write registry: http://127.0.0.1:8081")
        if self.registry is None and self.token is not None:
            raise ValueError("has a token and no registry; write registry: http://127.0.0.1:8081")
        if self.subject is None and "version" in self.model_fields_set:
            raise ValueError("has a version and no subject; write subject: payments-value")
        return self

    def require_for_records(self, whose: str) -> None:
        """Refuse a format of records that lacks what their ids are looked up with."""
        if self.registry is None:
            raise ValueError(
                f"avro records of {whose} name their schemas by ids; write format: {{avro: {{registry: "
                "http://127.0.0.1:8081, subject: payments-value}}"
            )
        if self.subject is None and self.schema_file is None:
            raise ValueError(
                "avro does not say which schema the columns follow from; add subject: payments-value, or schema_file: "
                "payments.avsc"
            )

    @property
    def pinned_as(self) -> str:
        """What a store calls the schema that it was made with. A URL may have a password in it, so it is not told."""
        return json.dumps([self.registry_folder, self.subject, self.version, self.schema_file])

    @property
    def registry_folder(self) -> str:
        """What a store calls the schemas of this registry: the ids of another are others."""
        return hashlib.sha256((self.registry or "").encode()).hexdigest()[:12]

    def secrets(self) -> dict[str, str]:
        """What may refer to a secret, by the name of its field."""
        written = {"registry": self.registry, "token": self.token}
        return {f"avro.{name}": text for name, text in written.items() if text is not None}

    def asked_with(self, base: Path) -> dict[str, Any]:
        """The URL of the registry and the token, with their secrets."""
        token = None if self.token is None else conceal(resolved(self.token, base))
        return {"url": resolved(self.registry or "", base), "token": token}


def schema_text(avro: Avro, base: Path) -> str:
    """What the file says that the pipeline file names."""
    file = base / Path(avro.schema_file or "").expanduser()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SourceError(
            f"schema_file {file} cannot be read ({reason}); correct source.format.avro.schema_file"
        ) from None
