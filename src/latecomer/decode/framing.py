"""Records in Confluent's framing, as the driver sees them: it learns the schemas of their writers, id by id."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.models import Pipeline
from latecomer.decode.base import RecordDecoder
from latecomer.decode.columns import CORRUPT, HEAD, INVALID, RECORD
from latecomer.decode.frames import HEAD_SIZE, End, FramedDecoder, framing_mistake, number_of
from latecomer.fast import Declined
from latecomer.model.unknown_fields import Known
from latecomer.store.schemas import KnownSchemas, not_known


def head_of(number: int) -> str:
    """What the messages of an id begin with, in SQL.

    >>> head_of(7)
    "X'0000000007'"
    """
    return f"X'{number:010X}'"


def is_framed(record: Column) -> Column:
    """Whether a record begins with a zero byte and an id that a registry may have given."""
    lowest, beyond = F.expr(head_of(1)), F.expr("X'0080'")
    return (F.length(record) >= HEAD_SIZE) & (record >= lowest) & (record < beyond)


@dataclass
class FramedRecords(RecordDecoder):
    """Records whose schemas are learned, id by id, as they come."""

    pipeline: Pipeline
    _missing: set[int] = field(default_factory=set)
    """Ids that could not be had when they were asked for."""

    @property
    @abstractmethod
    def schemas(self) -> KnownSchemas[Any]:
        """The schemas of writers."""

    @abstractmethod
    def mistake(self, raw: bytes) -> str | None:
        """What is wrong with a record that could not be decoded, as far as its schema says so."""

    @abstractmethod
    def unknown_names(self, raw: bytes, known: Known) -> list[str]:
        """The fields of a record that are no columns."""

    @abstractmethod
    def in_tasks(self) -> FramedDecoder:
        """What decodes records in a task, with the schemas that are known now."""

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        return self.in_tasks().decode(records, columns)

    def load(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        self.require_fast(columns)
        self.know(self.in_tasks().unknown_ids(records))
        found = self.decode(records, columns)
        if found.column(CORRUPT).null_count < found.num_rows:
            raise Declined("records that cannot be decoded")
        return found.drop_columns([name for name in (CORRUPT, INVALID) if name in found.column_names])

    def ends(self, number: int) -> End:
        """What finds the end of payloads of this id. `SchemaOutage` while that is not known."""
        if self.in_tasks().asks:
            self.know([number])
        return self.in_tasks().ends(number)

    @property
    def knows_nothing(self) -> bool:
        return not self.schemas.known

    def prepare(self) -> bool:
        return self._have(sorted(self._missing), wait=True)

    def learn(self, records: DataFrame, wait: bool = True) -> bool:
        head = F.substring(RECORD, 1, HEAD_SIZE)
        unknown = records.where(self.unknown(F.col(RECORD))).select(head.alias(HEAD)).distinct()
        return self._have(sorted(number_of(row[HEAD]) for row in unknown.toArrow().to_pylist()), wait)

    def know(self, numbers: Sequence[int], wait: bool = True) -> None:
        """Learn the schemas of these ids, as far as they are not known; `SchemaOutage` while one cannot be had. Unless
        they are to `wait`, records of which nothing is known anywhere are corrupt."""
        self._have([number for number in numbers if number not in self.schemas.known], wait)

    def _have(self, numbers: Sequence[int], wait: bool) -> bool:
        self._missing = set(numbers) if wait else set()
        self.schemas.learn(numbers, wait and self.schemas.registered.unknown_id == "wait")
        self._missing = set()
        return bool(numbers)

    def unknown(self, record: Column) -> Column:
        """Whether a record has an id that is not known yet."""
        head = F.substring(record, 1, HEAD_SIZE)
        known = [F.expr(head_of(number)) for number in self.schemas.known]
        return is_framed(record) & (~head.isin(*known) if known else F.lit(True))

    def head_mistake(self, raw: bytes) -> str | None:
        """What is wrong with the framing of a record, or with the schema that it names."""
        if (wrong := framing_mistake(raw)) is not None:
            return wrong
        writer = self.schemas.known.get(number_of(raw))
        return not_known(number_of(raw)) if writer is None else writer if isinstance(writer, str) else None
