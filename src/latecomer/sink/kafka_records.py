"""What a Kafka record holds: key and value as JSON, the rest in its headers.

The key is the window and keys of a pane. So all panes of a window and key are in one partition, in order. The value has
all published columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import pyarrow as pa

from latecomer.config.contract import Shape
from latecomer.model.panes import Op
from latecomer.model.written_values import json_texts
from latecomer.sink.base import take_rows

AT_ONCE = 20_000
"""How many rows are in memory as text at a time."""
WRITER = "writer"
BATCH = "batch"


class KafkaRecord(NamedTuple):
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


class RecordMaker:
    """Makes records of a batch's panes or rows."""

    def __init__(self, shape: Shape, writer: str, compacted: bool) -> None:
        self._shape = shape
        self._writer = writer.encode()
        self._compacted = compacted and not shape.appends
        self._columns = (shape.standing if self._compacted else shape.schema).names
        self._key, self._value = _template(shape.place), _template(self._columns)
        self._in_headers = [name for name in ("op", "sequence", "timing") if name in shape.schema.names]

    def of(self, batch: int, rows: pa.Table) -> Iterator[KafkaRecord]:
        """The records of a batch, in order of publication."""
        if self._compacted:
            rows = _last_panes(rows, self._shape.place)
        for start in range(0, rows.num_rows, AT_ONCE):
            yield from self._of(batch, rows.slice(start, AT_ONCE))

    def _of(self, batch: int, rows: pa.Table) -> Iterator[KafkaRecord]:
        texts = {name: json_texts(rows[name]) for name in rows.column_names}
        keys = zip(*(texts[name] for name in self._shape.place), strict=True)
        values = zip(*(texts[name] for name in self._columns), strict=True)
        always = [(WRITER, self._writer), (BATCH, str(batch).encode())]
        headers: Iterable[tuple[tuple[str, bytes], ...]] = repeat(())
        if self._in_headers:
            headers = zip(*(_headers(name, texts[name]) for name in self._in_headers), strict=True)
        withdrawn = Op.RETRACT.encode()
        for key, value, header in zip(keys, values, headers, strict=False):
            is_tombstone = self._compacted and header[0][1] == withdrawn
            written = None if is_tombstone else (self._value % value).encode()
            yield KafkaRecord((self._key % key).encode(), written, [*header, *always])


def _template(names: Sequence[str]) -> str:
    """A JSON object with these names, and %s for each value."""
    fields = (json.dumps(name, ensure_ascii=False).replace("%", "%%") + ":%s" for name in names)
    return "{" + ",".join(fields) + "}"


def _headers(name: str, texts: list[str]) -> list[tuple[str, bytes]]:
    """A header for each row; there are few different ones."""
    headers = {text: (name, text.strip('"').encode()) for text in {*texts}}
    return [headers[text] for text in texts]


def _last_panes(rows: pa.Table, place: Sequence[str]) -> pa.Table:
    """The last pane of each place: an insert stands after the batch, a retract becomes a tombstone."""
    places = zip(*(json_texts(rows[name]) for name in place), strict=True)
    last = {where: nth for nth, where in enumerate(places)}
    return take_rows(rows, sorted(last.values()))
