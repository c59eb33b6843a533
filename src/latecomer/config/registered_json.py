"""`format: {json: {registry: …}}`: JSON whose records name the JSON Schema that they were written with."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from latecomer.config.registered import Registered

NAME = "json"
GUID_HEADER = "__value_schema_id"
"""Where Confluent's newer serializers write a GUID."""


class RegisteredJson(Registered):
    """JSON in Confluent's framing, or with the id of its schema in a header."""

    model_config = ConfigDict(populate_by_name=True)

    kind: ClassVar[str] = NAME
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
