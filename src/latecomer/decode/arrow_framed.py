"""Records in Confluent's framing without Spark: which schema each was written with, and all of one writer at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from latecomer.decode.columns import SCHEMA_ID
from latecomer.decode.framing import HEAD_SIZE, LARGEST_ID
from latecomer.fast import Declined

LONGEST = 32 << 20
"""Bytes of a record; Java is not asked to read texts of more than twice as many."""
_WORD = 8
_PADDING = bytes(2 * _WORD)
Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Framed:
    """Records with the framing before each."""

    data: bytes
    """All of them, one behind the other, and more bytes than a number has."""
    starts: Numbers
    ends: Numbers

    @classmethod
    def of(cls, records: Sequence[bytes]) -> Framed:
        """`Declined` where one has no framing."""
        sizes = np.fromiter(map(len, records), np.int64, len(records))
        if sizes.min() < HEAD_SIZE or sizes.max() > LONGEST:
            raise Declined("records without framing, or long ones")
        ends = np.cumsum(sizes)
        return cls(b"".join([*records, _PADDING]), ends - sizes, ends)

    @cached_property
    def numbers(self) -> Numbers:
        """The ids of their schemas."""
        found = (words_of(self.data)[self.starts].byteswap() >> np.uint64(24)).view(np.int64)
        if found.min() < 1 or found.max() > LARGEST_ID:
            raise Declined("records without framing")
        return found

    @cached_property
    def distinct(self) -> list[int]:
        return [int(each) for each in np.unique(self.numbers)]

    def by_writer(self, read: Callable[[int, Numbers], pa.Table]) -> pa.Table:
        """What `read` makes of the records of each id, in the order of all records; and the ids."""
        order = [np.flatnonzero(self.numbers == number) for number in self.distinct]
        parts = [read(number, rows) for number, rows in zip(self.distinct, order, strict=True)]
        whole = parts[0]
        if len(parts) > 1:
            places = np.empty(len(self.starts), np.int64)
            places[np.concatenate(order)] = np.arange(len(self.starts))
            whole = pa.concat_tables(parts, promote_options="default").take(pa.array(places))
        return whole.append_column(SCHEMA_ID, pa.array(self.numbers, pa.int32()))


def words_of(data: bytes) -> Words:
    """The eight bytes that begin at each byte, as one number; the last seven bytes begin none.

    >>> [hex(word) for word in words_of(bytes([1, 2, 0, 0, 0, 0, 0, 0, 0x7F]))]
    ['0x201', '0x7f00000000000002']
    """
    return np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
