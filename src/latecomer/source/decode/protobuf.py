"""Messages of Protobuf in Confluent's framing, as the driver knows them. Tasks decode them: `protobuf_messages.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from latecomer.model.unknown_fields import Known
from latecomer.schemas.packages import protobuf_model
from latecomer.source.decode.frames import HEAD_SIZE, number_of
from latecomer.source.decode.framing import FramedRecords
from latecomer.store.schemas import WriterProtobufSchemas, reading_of

if TYPE_CHECKING:
    from latecomer.schemas.protobuf import Reading
    from latecomer.source.decode.protobuf_messages import ProtobufMessages
    from latecomer.source.decode.protobuf_plan import Plan


@dataclass
class ProtobufRecords(FramedRecords):
    """Messages in Confluent's framing."""

    @cached_property
    def reading(self) -> Reading:
        found: Reading = reading_of(self.pipeline)
        return found

    @cached_property
    def schemas(self) -> WriterProtobufSchemas:
        return WriterProtobufSchemas.of(self.pipeline)

    def in_tasks(self) -> ProtobufMessages:
        protobuf_model()
        from latecomer.source.decode.protobuf_messages import ProtobufMessages

        unknown, found = self.pipeline.source.unknown_fields, self.reading
        return ProtobufMessages(dict(self.schemas.known), unknown, reader=found.schema, message=found.message)

    def unknown_names(self, raw: bytes, known: Known) -> list[str]:
        """The fields that a message had and that are no columns."""
        plan = self._plan(raw)
        return [] if isinstance(plan, str) else plan.unknown_names(plan.payload(raw))

    def mistake(self, raw: bytes) -> str:
        """What is wrong with a message that could not be decoded."""
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        number, plan = number_of(raw), self._plan(raw)
        if isinstance(plan, str):
            return f"schema {number} {plan}"
        return f"{plan.mistake(plan.payload(raw))} (schema {number})"

    def _plan(self, raw: bytes) -> Plan | str:
        """How a message is read, or why it cannot be."""
        from latecomer.source.decode.protobuf_plan import Unusable, places_of

        decoder, found = self.in_tasks(), places_of(raw)
        if number_of(raw) not in decoder.writers or isinstance(decoder.writers[number_of(raw)], str):
            return "is of no use"
        if found is None:
            return f"has no message where byte {HEAD_SIZE} and those behind it lead"
        try:
            return decoder.plan(number_of(raw), found[0], self.reading.columns)
        except Unusable as error:
            return str(error)
