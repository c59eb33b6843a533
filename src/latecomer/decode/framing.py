"""Records in Confluent's framing: a zero byte, the id of the writer's schema in four bytes, and the payload."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.models import Pipeline
from latecomer.decode.base import RecordDecoder
from latecomer.decode.columns import HEAD, RECORD
from latecomer.model.unknown_fields import Known
from latecomer.store.schemas import KnownSchemas, not_known

HEAD_SIZE = 5
"""Bytes before the payload."""
LARGEST_ID = 2**31 - 1
End = Callable[[bytes, int, bool], int | None]
"""Finds the end of a payload that begins at a place in some bytes, which may be the last of their file; None where it
has no end in them."""


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


def framing_mistake(raw: bytes) -> str | None:
    """What is wrong with the framing of a record, if anything.

    >>> framing_mistake(bytes(4)), framing_mistake(b"{}")
    ('it has 4 bytes, and the framing alone has 5', "its first byte is 0x7B, and Confluent's framing begins with 0x00")
    """
    if raw[:1] != b"\0":
        begins = f"its first byte is 0x{raw[0]:02X}" if raw else "it has no bytes"
        return f"{begins}, and Confluent's framing begins with 0x00"
    if len(raw) < HEAD_SIZE:
        return f"it has {len(raw)} bytes, and the framing alone has {HEAD_SIZE}"
    if not 1 <= number_of(raw) <= LARGEST_ID:
        return f"{number_of(raw)} is no id that a registry gives a schema"
    return None


def number_of(raw: bytes) -> int:
    """The id that a record has in its framing.

    >>> number_of(bytes([0, 0, 0, 1, 2]) + b"{}")
    258
    """
    return int.from_bytes(raw[1:HEAD_SIZE], "big")


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
    def ends(self, number: int) -> End:
        """What finds the end of payloads of this id. `SchemaOutage` while that is not known."""

    @property
    def knows_nothing(self) -> bool:
        return not self.schemas.known

    def prepare(self) -> bool:
        return self._have(sorted(self._missing), wait=True)

    def learn(self, records: DataFrame, wait: bool = True) -> bool:
        head = F.substring(RECORD, 1, HEAD_SIZE)
        unknown = records.where(self.unknown(F.col(RECORD))).select(head.alias(HEAD)).distinct()
        return self._have(sorted(number_of(row[HEAD]) for row in unknown.toArrow().to_pylist()), wait)

    def know(self, numbers: Sequence[int]) -> None:
        """Learn the schemas of these ids, as far as they are not known."""
        self._have([number for number in numbers if number not in self.schemas.known], wait=True)

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
