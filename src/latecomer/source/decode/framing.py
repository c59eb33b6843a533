"""Records in Confluent's framing: tasks decode all records of one writer's schema at once.

The driver fetches the schemas of writers, id by id (`FramedRecords`). A task has the schemas that the driver knows, and
does not ask a registry (`FramedDecoder`). If it meets other ids it reports them, and the batch is read again once the
driver knows them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.config.sources import UnknownFields
from latecomer.errors import LatecomerError
from latecomer.model.array_types import Integers, Unsigned
from latecomer.model.arrays import flat
from latecomer.model.unknown_fields import KnownFields
from latecomer.schemas.registry.names import LARGEST
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.private_columns import CORRUPT, INVALID, KEPT, SCHEMA_ID, WRONG
from latecomer.source.decode.typed_columns import null_columns, sparse
from latecomer.store.schemas import KnownSchemas, not_known, writer_schemas

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


def unreadable(columns: Mapping[str, str], count: int) -> pa.Table:
    """So many records of which nothing can be read."""
    return pa.table({**null_columns(columns, count), WRONG: pa.repeat(True, count)})


def in_order(parts: Sequence[pa.Table], rows: Sequence[Integers | Sequence[int]]) -> pa.Table:
    """Parts as one table, in the order of their rows. Columns that a part lacks are null there."""
    joined = pa.concat_tables(parts, promote_options="default")
    return joined if len(rows) == 1 else joined.take(pa.array(np.argsort(np.concatenate(rows))))


@dataclass(frozen=True)
class FramedDecoder(RecordDecoder):
    """Decodes records with the schemas of their writers."""

    writers: Mapping[int, Any]
    """The schemas by id; for one that cannot be used, the reason in words."""
    unknown_fields: UnknownFields = "ignore"

    @abstractmethod
    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> pa.Table:
        """The records of one id, in their order: the columns, and WRONG; KEPT and INVALID where they are known."""

    @abstractmethod
    def ends(self, number: int) -> End:
        """What finds the end of payloads of this id; `UnknownSchemas` if its schema is needed and not known."""

    @abstractmethod
    def mistake(self, raw: bytes) -> str | None:
        """What is wrong with a record that could not be decoded, as far as its schema shows it."""

    @abstractmethod
    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        """The fields of a record that are no columns."""

    def head_mistake(self, raw: bytes) -> str | None:
        """What is wrong with the framing of a record, or with the schema that it names."""
        if (wrong := framing_mistake(raw)) is not None:
            return wrong
        writer = self.writers.get(number_of(raw))
        return not_known(number_of(raw)) if writer is None else writer if isinstance(writer, str) else None

    def require_usable(self) -> None:
        """Refuse schemas by which records cannot be decoded exactly."""

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
            parts.append(unreadable(columns, len(rows[-1])))
        ids = pa.array(frames.numbers.astype(np.int32), mask=others)
        return self._marked(in_order(parts, rows), records, columns).append_column(SCHEMA_ID, ids)

    def _marked(self, rows: pa.Table, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        wrong, marks = np.asarray(rows.column(WRONG)), dict[str, pa.Array]()
        if KEPT in rows.column_names and rows.column(KEPT).null_count < len(records):
            marks[KEPT] = flat(rows.column(KEPT))
            if self.unknown_fields == "dead_letter":
                wrong = wrong | np.asarray(marks[KEPT].is_valid())
        corrupt = {nth: records[nth] for nth in np.flatnonzero(wrong).tolist()}
        marks[CORRUPT] = sparse(len(records), corrupt, pa.binary())
        if INVALID in rows.column_names:
            marks[INVALID] = rows.column(INVALID).fill_null(False)
        return pa.table({**{name: rows.column(name) for name in columns}, **marks})


@dataclass
class FramedRecords(RecordDecoder):
    """Records whose schemas are fetched as their ids come, on the driver."""

    pipeline: Pipeline
    made: Callable[[Mapping[int, Any]], FramedDecoder]
    """Makes the decoder in tasks, of the schemas that are known."""
    _missing: set[int] = field(default_factory=set)
    """Ids whose schemas could not be fetched last time."""

    @cached_property
    def schemas(self) -> KnownSchemas:
        """The schemas of writers."""
        return writer_schemas(self.pipeline)

    def in_tasks(self) -> FramedDecoder:
        """The decoder in tasks, with the schemas that are known now."""
        decoder = self.with_schemas()
        decoder.require_usable()
        return decoder

    def with_schemas(self) -> FramedDecoder:
        """The same, to say what is wrong with records: for that, not every schema has to be usable."""
        decoder = self.made({})
        return replace(decoder, writers=dict(self.schemas.known)) if decoder.asks else decoder

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        return self.in_tasks().decode(records, columns)

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


def words_of(data: bytes) -> Unsigned:
    """The eight bytes that begin at each byte, as one number; the last seven bytes begin none.

    >>> [hex(word) for word in words_of(bytes([1, 2, 0, 0, 0, 0, 0, 0, 0x7F]))]
    ['0x201', '0x7f00000000000002']
    """
    return np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
