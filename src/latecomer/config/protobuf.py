"""`format: protobuf`: the message that gives the columns, and the registry with the schemas of the writers."""

from __future__ import annotations

import json
from typing import ClassVar, Self

from pydantic import Field, model_validator

from latecomer.config.registered import SchemaFormat

NAME = "protobuf"


class Protobuf(SchemaFormat):
    """Protobuf: messages in Confluent's framing, each with the id of its schema and its place there."""

    kind: ClassVar[str] = NAME
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
