"""Records in Confluent's framing, decoded in a task: which schema each was written with, and all of one writer at once.

A task knows the schemas that the driver has learned (`framing.py`), and asks nobody. It says which ids it does not
know, and the batch is read again once they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from latecomer.config.sources import UnknownFields
from latecomer.errors import LatecomerError
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.columns import CORRUPT, INVALID, KEPT, SCHEMA_ID
from latecomer.store.layout import source_type

HEAD_SIZE = 5
"""Bytes before the payload: a zero, and the id of the schema."""
LARGEST_ID = 2**31 - 1
End = Callable[[bytes, int, bool], int | None]
"""Finds the end of a payload that begins at a place in some bytes, which may be the last of their file; None where it
has no end in them."""
MOST_BYTES = 256 << 20
"""Of records that are decoded at once."""
_WORD = 8
_PADDING = bytes(2 * _WORD)
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class UnknownSchemas(LatecomerError):
    """Records name schemas that have to be learned before they can be decoded."""

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__([*ids])
        self.ids = tuple(ids)

    def joined(self, others: Sequence[Exception]) -> UnknownSchemas:
        found = [each.ids for each in (self, *others) if isinstance(each, UnknownSchemas)]
        return UnknownSchemas(sorted({number for ids in found for number in ids}))

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
    if not 1 <= number_of(raw) <= LARGEST_ID:
        return f"{number_of(raw)} is no id that a registry gives a schema"
    return None


def number_of(raw: bytes) -> int:
    """The id that a record has in its framing.

    >>> number_of(bytes([0, 0, 0, 1, 2]) + b"{}")
    258
    """
    return int.from_bytes(raw[1:HEAD_SIZE], "big")


@dataclass(frozen=True)
class Frames:
    """Some records, side by side in one buffer."""

    records: Sequence[bytes]
    data: bytes
    """All of them, and behind the last more bytes than a number has."""
    starts: Numbers
    ends: Numbers

    @classmethod
    def of(cls, records: Sequence[bytes]) -> Frames:
        sizes = np.fromiter(map(len, records), np.int64, len(records))
        ends = np.cumsum(sizes)
        return cls(records, b"".join([*records, _PADDING]), ends - sizes, ends)

    @cached_property
    def numbers(self) -> Numbers:
        """The ids of their schemas; 0 where a record has no framing."""
        found = (words_of(self.data)[self.starts].byteswap() >> np.uint64(24)).view(np.int64)
        framed = (self.ends - self.starts >= HEAD_SIZE) & (found >= 1) & (found <= LARGEST_ID)
        return np.where(framed, found, 0)

    @cached_property
    def distinct(self) -> list[int]:
        return [int(each) for each in np.unique(self.numbers) if each]


@dataclass(frozen=True)
class Decoded:
    """Records of one writer: their columns, those that could not be decoded, and what else is known of them."""

    columns: pa.Table
    corrupt: Mask
    kept: pa.Array | None = None
    invalid: Mask | None = None


@dataclass(frozen=True)
class FramedDecoder(RecordDecoder):
    """Decodes records by what is known of their writers."""

    writers: Mapping[int, Any]
    """The schemas by their ids; in words why one cannot be used, where that is so."""
    unknown_fields: UnknownFields = "ignore"

    @abstractmethod
    def of_writer(self, number: int, frames: Frames, rows: Numbers, columns: Mapping[str, str]) -> Decoded:
        """The records of an id, in their order."""

    @abstractmethod
    def ends(self, number: int) -> End:
        """What finds the end of payloads of this id; `UnknownSchemas` while that is not known."""

    def writer(self, number: int) -> Any:
        """The schema of an id."""
        if number not in self.writers:
            raise UnknownSchemas([number])
        return self.writers[number]

    @property
    def asks(self) -> bool:
        """Whether records can be decoded only with the schemas of their writers."""
        return True

    def unknown_ids(self, records: Sequence[bytes]) -> list[int]:
        """The ids of schemas that have to be learned before these records can be decoded."""
        return self._unknown(Frames.of(records)) if records else []

    def _unknown(self, frames: Frames) -> list[int]:
        return [each for each in frames.distinct if each not in self.writers] if self.asks else []

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """One row a record; `UnknownSchemas` where some have to be learned first."""
        if len(records) > 1 and sum(map(len, records)) > MOST_BYTES:
            half = len(records) // 2
            parts = [self.decode(part, columns) for part in (records[:half], records[half:])]
            return pa.concat_tables(parts, promote_options="default")
        frames = Frames.of(records)
        if unknown := self._unknown(frames):
            raise UnknownSchemas(unknown)
        usable = [each for each in frames.distinct if self._is_usable(each)]
        order = [np.flatnonzero(frames.numbers == number) for number in usable]
        found = [
            self.of_writer(number, frames, rows, columns) for number, rows in zip(usable, order, strict=True)
        ]
        return self._together(frames, usable, order, found, columns)

    def _is_usable(self, number: int) -> bool:
        return not self.asks or not isinstance(self.writers[number], str)

    def _together(
        self,
        frames: Frames,
        numbers: Sequence[int],
        order: Sequence[Numbers],
        found: Sequence[Decoded],
        columns: Mapping[str, str],
    ) -> pa.Table:
        """All records in their order; those without a schema that can be used are null."""
        count = len(frames.records)
        places = np.full(count, -1, np.int64)
        if order:
            places[np.concatenate(order)] = np.arange(sum(map(len, order)))
        back = pa.array(places, mask=places < 0)
        corrupt, invalid, ids = np.ones(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.int32)
        for number, rows, each in zip(numbers, order, found, strict=True):
            corrupt[rows], ids[rows] = each.corrupt, number
            if each.invalid is not None:
                invalid[rows] = each.invalid
        kept = [
            pa.nulls(len(each.corrupt), pa.string()) if each.kept is None else each.kept for each in found
        ]
        whole = pa.concat_tables([each.columns for each in found]) if found else _no_rows(columns)
        rows = whole.take(back)
        others: dict[str, pa.Array] = {}
        if any(each.null_count < len(each) for each in kept):
            others[KEPT] = pa.concat_arrays(kept).take(back)
            if self.unknown_fields == "dead_letter":
                corrupt |= np.asarray(others[KEPT].is_valid())
        raw = [record if wrong else None for record, wrong in zip(frames.records, corrupt, strict=True)]
        others[CORRUPT] = pa.array(raw, pa.binary())
        if any(each.invalid is not None for each in found) or self._checks:
            others[INVALID] = pa.array(invalid)
        others[SCHEMA_ID] = pa.array(ids, mask=ids == 0)
        for name, column in others.items():
            rows = rows.append_column(name, column)
        return rows

    @property
    def _checks(self) -> bool:
        """Whether records are held against their schemas."""
        return False


def _no_rows(columns: Mapping[str, str]) -> pa.Table:
    return pa.table({name: pa.array([], source_type(kind)) for name, kind in columns.items()})


def words_of(data: bytes) -> npt.NDArray[np.uint64]:
    """The eight bytes that begin at each byte, as one number; the last seven bytes begin none.

    >>> [hex(word) for word in words_of(bytes([1, 2, 0, 0, 0, 0, 0, 0, 0x7F]))]
    ['0x201', '0x7f00000000000002']
    """
    return np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
