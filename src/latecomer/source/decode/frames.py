"""Decodes records in Confluent's framing in a task: all records of one writer's schema at once.

A task has the schemas that the driver knows (`framing.py`), and does not ask a registry. If it meets other ids it
reports them, and the batch is read again once the driver knows them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from latecomer.config.sources import UnknownFields
from latecomer.errors import LatecomerError
from latecomer.model.array_types import Flags, Integers, Unsigned
from latecomer.schemas.registry.names import LARGEST
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.null_rows import null_columns
from latecomer.source.decode.private_columns import CORRUPT, INVALID, KEPT, SCHEMA_ID

HEAD_SIZE = 5
"""Bytes before the payload: a zero, and the id of the schema."""
End = Callable[[bytes, int, bool], int | None]
"""Finds the end of a payload in some bytes, from where it begins; the flag says whether they are the last of the file.
None if the payload does not end in them."""
MOST_BYTES = 256 << 20
"""Bytes of records that are decoded at once."""
_WORD = 8
_PADDING = bytes(2 * _WORD)


class UnknownSchemas(LatecomerError):
    """Records name schemas that the driver must fetch before they can be decoded."""

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__([*ids])
        self.ids = tuple(ids)

    def joined(self, others: Sequence[Exception]) -> UnknownSchemas:
        every = [each.ids for each in (self, *others) if isinstance(each, UnknownSchemas)]
        return UnknownSchemas(sorted({number for ids in every for number in ids}))

    def __str__(self) -> str:
        return f"the schemas {', '.join(map(str, self.ids))} are not known yet"


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
    if not 1 <= number_of(raw) <= LARGEST:
        return f"{number_of(raw)} is no id that a registry gives a schema"
    return None


def number_of(raw: bytes) -> int:
    """The id of the schema in a record's framing.

    >>> number_of(bytes([0, 0, 0, 1, 2]) + b"{}")
    258
    """
    return int.from_bytes(raw[1:HEAD_SIZE], "big")


@dataclass(frozen=True)
class Frames:
    """Some records, side by side in one buffer."""

    records: Sequence[bytes]
    data: bytes
    """All of them; behind the last there are more bytes than the longest number has."""
    starts: Integers
    ends: Integers

    @classmethod
    def of(cls, records: Sequence[bytes]) -> Frames:
        sizes = np.fromiter(map(len, records), np.int64, len(records))
        ends = np.cumsum(sizes)
        return cls(records, b"".join([*records, _PADDING]), ends - sizes, ends)

    @cached_property
    def numbers(self) -> Integers:
        """The ids of their schemas; 0 where a record has no framing."""
        ids = (words_of(self.data)[self.starts].byteswap() >> np.uint64(24)).view(np.int64)
        framed = (self.ends - self.starts >= HEAD_SIZE) & (ids >= 1) & (ids <= LARGEST)
        return np.where(framed, ids, 0)

    @cached_property
    def distinct(self) -> list[int]:
        return [int(each) for each in np.unique(self.numbers) if each]


@dataclass(frozen=True)
class Decoded:
    """Some records: their columns, which of them are corrupt, their unknown fields, and which are invalid."""

    columns: pa.Table
    corrupt: Flags
    kept: pa.Array | None = None
    """None if no record has unknown fields."""
    invalid: Flags | None = None

    @classmethod
    def unreadable(cls, columns: Mapping[str, str], count: int) -> Decoded:
        """So many records of which nothing can be read."""
        return cls(pa.table(null_columns(columns, count)), np.ones(count, np.bool_))

    @classmethod
    def joined(
        cls, parts: Sequence[Decoded], rows: Sequence[Integers | Sequence[int]] | None = None
    ) -> Decoded:
        """Parts one behind the other; or, if the `rows` of each are given, in the order of these."""
        if len(parts) == 1:
            return parts[0]
        kept = [
            pa.nulls(len(each.corrupt), pa.string()) if each.kept is None else each.kept for each in parts
        ]
        invalid = [
            np.zeros(len(each.corrupt), np.bool_) if each.invalid is None else each.invalid for each in parts
        ]
        columns = pa.concat_tables([each.columns for each in parts])
        corrupt = np.concatenate([each.corrupt for each in parts])
        joined = cls(columns, corrupt, pa.concat_arrays(kept), np.concatenate(invalid))
        return joined if rows is None else joined._in_order(np.argsort(np.concatenate(rows)))

    def _in_order(self, places: Integers) -> Decoded:
        back = pa.array(places)
        kept = None if self.kept is None else self.kept.take(back)
        invalid = None if self.invalid is None else self.invalid[places]
        return Decoded(self.columns.take(back), self.corrupt[places], kept, invalid)


@dataclass(frozen=True)
class FramedDecoder(RecordDecoder):
    """Decodes records with the schemas of their writers."""

    writers: Mapping[int, Any]
    """The schemas by id; for one that cannot be used, the reason in words."""
    unknown_fields: UnknownFields = "ignore"
    checks: ClassVar[bool] = False
    """Whether records are checked against their schemas."""

    @abstractmethod
    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> Decoded:
        """Decodes the records of one id, in their order."""

    @abstractmethod
    def ends(self, number: int) -> End:
        """What finds the end of payloads of this id; `UnknownSchemas` if its schema is needed and not known."""

    def writer(self, number: int) -> Any:
        """The schema of an id; `UnknownSchemas` if it is not known."""
        if number not in self.writers:
            raise UnknownSchemas([number])
        return self.writers[number]

    @property
    def asks(self) -> bool:
        """Whether the schemas of writers are needed to decode records."""
        return True

    def unknown_ids(self, records: Sequence[bytes]) -> list[int]:
        """The ids of schemas that must be fetched before these records can be decoded."""
        return self._unknown(Frames.of(records)) if records else []

    def _unknown(self, frames: Frames) -> list[int]:
        return [each for each in frames.distinct if each not in self.writers] if self.asks else []

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """One row a record; `UnknownSchemas` if some must be fetched first."""
        if len(records) > 1 and sum(map(len, records)) > MOST_BYTES:
            half = len(records) // 2
            parts = [self.decode(part, columns) for part in (records[:half], records[half:])]
            return pa.concat_tables(parts, promote_options="default")
        frames = Frames.of(records)
        if unknown := self._unknown(frames):
            raise UnknownSchemas(unknown)
        usable = [
            each for each in frames.distinct if not self.asks or not isinstance(self.writers[each], str)
        ]
        others = ~np.isin(frames.numbers, usable)
        rows = [np.flatnonzero(frames.numbers == number) for number in usable]
        parts = [
            self.of_writer(number, frames, each, columns) for number, each in zip(usable, rows, strict=True)
        ]
        if others.any() or not parts:
            rows.append(np.flatnonzero(others))
            parts.append(Decoded.unreadable(columns, len(rows[-1])))
        ids = pa.array(frames.numbers.astype(np.int32), mask=others)
        return self._as_table(Decoded.joined(parts, rows), records, ids)

    def _as_table(self, decoded: Decoded, records: Sequence[bytes], ids: pa.Array) -> pa.Table:
        corrupt, kept = decoded.corrupt, decoded.kept
        marks: dict[str, pa.Array] = {}
        if kept is not None and kept.null_count < len(kept):
            marks[KEPT] = kept
            if self.unknown_fields == "dead_letter":
                corrupt = corrupt | np.asarray(kept.is_valid())
        raw = [record if wrong else None for record, wrong in zip(records, corrupt, strict=True)]
        marks[CORRUPT] = pa.array(raw, pa.binary())
        if self.checks:
            invalid = np.zeros(len(records), np.bool_) if decoded.invalid is None else decoded.invalid
            marks[INVALID] = pa.array(invalid)
        columns = dict(zip(decoded.columns.column_names, decoded.columns.columns, strict=True))
        return pa.table({**columns, **marks, SCHEMA_ID: ids})


def words_of(data: bytes) -> Unsigned:
    """The eight bytes that begin at each byte, as one number; the last seven bytes begin none.

    >>> [hex(word) for word in words_of(bytes([1, 2, 0, 0, 0, 0, 0, 0, 0x7F]))]
    ['0x201', '0x7f00000000000002']
    """
    return np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
