"""What a Kafka record holds: key and value as JSON, the rest in its headers.

The key is the place of a pane, window and keys, so that all that is ever published of a number is in one partition and
in its order. The value has all published columns.
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

AT_ONCE = 20_000
"""Of how many rows the texts are in memory at a time."""
WRITER = "writer"
BATCH = "batch"


class Record(NamedTuple):
    """A record to be written."""

    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Records:
    """Makes records of a batch's panes or rows."""

    def __init__(self, shape: Shape, writer: str, compacted: bool) -> None:
        self._shape = shape
        self._writer = writer.encode()
        self._compacted = compacted and not shape.appends
        self._columns = (shape.standing if self._compacted else shape.schema).names
        self._key, self._value = _template(shape.place), _template(self._columns)
        self._in_headers = [name for name in ("op", "sequence", "timing") if name in shape.schema.names]

    def of(self, batch: int, rows: pa.Table) -> Iterator[Record]:
        """The records of a batch, in order of publication."""
        if self._compacted:
            rows = _last_words(rows, self._shape.place)
        for start in range(0, rows.num_rows, AT_ONCE):
            yield from self._of(batch, rows.slice(start, AT_ONCE))

    def _of(self, batch: int, rows: pa.Table) -> Iterator[Record]:
        texts = {name: json_texts(rows[name]) for name in rows.column_names}
        keys = zip(*(texts[name] for name in self._shape.place), strict=True)
        values = zip(*(texts[name] for name in self._columns), strict=True)
        always = [(WRITER, self._writer), (BATCH, str(batch).encode())]
        headers: Iterable[tuple[tuple[str, bytes], ...]] = repeat(())
        if self._in_headers:
            headers = zip(*(_headers(name, texts[name]) for name in self._in_headers), strict=True)
        withdrawn = Op.RETRACT.encode()
        for key, value, header in zip(keys, values, headers, strict=False):
            gone = self._compacted and header[0][1] == withdrawn
            written = None if gone else (self._value % value).encode()
            yield Record((self._key % key).encode(), written, [*header, *always])


def _template(names: Sequence[str]) -> str:
    """A JSON object with these names, for the texts of their values."""
    return (
        "{"
        + ",".join(json.dumps(name, ensure_ascii=False).replace("%", "%%") + ":%s" for name in names)
        + "}"
    )


def _headers(name: str, texts: list[str]) -> list[tuple[str, bytes]]:
    """A header for each row; few differ."""
    known = {text: (name, text.strip('"').encode()) for text in {*texts}}
    return [known[text] for text in texts]


def _last_words(rows: pa.Table, place: Sequence[str]) -> pa.Table:
    """The last pane of each place: what stands after the batch, or that it was withdrawn."""
    places = zip(*(json_texts(rows[name]) for name in place), strict=True)
    last = {where: nth for nth, where in enumerate(places)}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))
