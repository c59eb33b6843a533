"""Records in Confluent's framing on the driver's side: it fetches the schemas of their writers, id by id."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.model.unknown_fields import KnownFields
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.frames import End, FramedDecoder, framing_mistake, number_of
from latecomer.store.schemas import KnownSchemas, not_known, writer_schemas


@dataclass
class FramedRecords(RecordDecoder):
    """Records whose schemas are fetched as their ids come."""

    pipeline: Pipeline
    _missing: set[int] = field(default_factory=set)
    """Ids whose schemas could not be fetched last time."""

    @cached_property
    def schemas(self) -> KnownSchemas[Any]:
        """The schemas of writers."""
        return writer_schemas(self.pipeline)

    @abstractmethod
    def mistake(self, raw: bytes) -> str | None:
        """What is wrong with a record that could not be decoded, as far as its schema shows it."""

    @abstractmethod
    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        """The fields of a record that are no columns."""

    @abstractmethod
    def in_tasks(self) -> FramedDecoder:
        """The decoder in tasks, with the schemas that are known now."""

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        return self.in_tasks().decode(records, columns)

    def ends(self, number: int) -> End:
        """What finds the end of payloads of this id; `SchemaOutage` if its schema is needed and cannot be fetched."""
        if self.in_tasks().asks:
            self.know([number])
        return self.in_tasks().ends(number)

    def prepare(self) -> None:
        """Ask again for schemas that could not be fetched; `SchemaOutage` if one still cannot."""
        self.know(sorted(self._missing))

    def know(self, numbers: Sequence[int], wait: bool = True) -> None:
        """Fetch the schemas of these ids that are not known; `SchemaOutage` if one cannot be fetched. Without `wait`,
        records whose schema is not known anywhere are corrupt."""
        missing = [number for number in numbers if number not in self.schemas.known]
        self._missing = set(missing) if wait else set()
        self.schemas.learn(missing, wait and self.schemas.registered.unknown_id == "wait")
        self._missing = set()

    def head_mistake(self, raw: bytes) -> str | None:
        """What is wrong with the framing of a record, or with the schema that it names."""
        if (wrong := framing_mistake(raw)) is not None:
            return wrong
        writer = self.schemas.known.get(number_of(raw))
        return not_known(number_of(raw)) if writer is None else writer if isinstance(writer, str) else None
