"""Protobuf messages in Confluent's framing on the driver's side. Tasks decode them in `protobuf_messages.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from latecomer.model.unknown_fields import KnownFields
from latecomer.schemas.packages import protobuf_model
from latecomer.source.decode.frames import HEAD_SIZE, number_of
from latecomer.source.decode.framing import FramedRecords
from latecomer.store.schemas import reading_of

if TYPE_CHECKING:
    from latecomer.schemas.protobuf import Reading
    from latecomer.source.decode.protobuf_messages import ProtobufMessages
    from latecomer.source.decode.protobuf_plan import Plan


@dataclass
class ProtobufRecords(FramedRecords):
    """Messages in Confluent's framing."""

    @cached_property
    def reading(self) -> Reading:
        read: Reading = reading_of(self.pipeline)
        return read

    def in_tasks(self) -> ProtobufMessages:
        protobuf_model()
        from latecomer.source.decode.protobuf_messages import ProtobufMessages

        unknown, read = self.pipeline.source.unknown_fields, self.reading
        return ProtobufMessages(dict(self.schemas.known), unknown, reader=read.schema, message=read.message)

    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        plan = self._plan(raw)
        return [] if isinstance(plan, str) else plan.unknown_names(plan.payload(raw))

    def mistake(self, raw: bytes) -> str:
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        number, plan = number_of(raw), self._plan(raw)
        if isinstance(plan, str):
            return f"schema {number} {plan}"
        return f"{plan.mistake(plan.payload(raw))} (schema {number})"

    def _plan(self, raw: bytes) -> Plan | str:
        """How a message is read, or why it cannot be."""
        from latecomer.source.decode.protobuf_plan import Unusable, places_of

        decoder, places = self.in_tasks(), places_of(raw)
        if isinstance(decoder.writers.get(number_of(raw), ""), str):
            return "cannot be used"
        if places is None:
            return f"has no message where byte {HEAD_SIZE} and those behind it lead"
        try:
            return decoder.plan(number_of(raw), places[0], self.reading.columns)
        except Unusable as error:
            return str(error)
