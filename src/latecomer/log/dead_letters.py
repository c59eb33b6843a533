"""Dead letters as they are kept: text that every reader can read, the bytes behind it, and what was wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.config.encodings import UTF8
from latecomer.decode.decode import RAW, REASON, TOO_LONG
from latecomer.decode.detail import Explainer
from latecomer.source.files import FileSource, SourceFile
from latecomer.store.layout import DEAD_LETTERS

UNREADABLE = "unreadable"
"""The reason of a row whose raw bytes are those of the file; that of any other is told as JSON."""
_MADE = {"raw", "raw_bytes", "detail"}


@dataclass
class Filing:
    """Files the dead letters of a batch."""

    source: FileSource
    files: Sequence[SourceFile]
    explainer: Explainer = field(init=False)
    _known: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.explainer = Explainer(self.source.pipeline, self.source.read_columns)
        self._by_path = {str(file.local): file for file in self.files}

    def file(self, written: Path, home: Path) -> Path:
        """A file of the dead letters' lane, as their table has it, in the place where it belongs."""
        columns = {REASON if name == "reason" else name: name for name in DEAD_LETTERS.names}
        kept = {private: name for private, name in columns.items() if name not in _MADE}
        with pq.ParquetFile(written) as lane, pq.ParquetWriter(home, DEAD_LETTERS) as letters:
            # By group: its size is bounded, whatever that of its rows.
            batches = (
                rows
                for group in range(lane.num_row_groups)
                for rows in lane.iter_batches(10_000, row_groups=[group], columns=[*kept, RAW])
            )
            for rows in batches:
                found = {name: _valid(rows.column(private)) for private, name in kept.items()}
                raw = rows.column(RAW).cast(pa.binary()).to_pylist()
                where = (found[name].to_pylist() for name in ("reason", "origin", "position"))
                made = [self._filed(*place) for place in zip(raw, *where, strict=True)]
                found |= _columns(made, ("raw", "raw_bytes", "detail"))
                letters.write_table(
                    pa.table({name: found[name] for name in DEAD_LETTERS.names}, DEAD_LETTERS)
                )
        written.unlink()
        return home

    def _filed(
        self, raw: bytes, reason: str, origin: str, position: int
    ) -> tuple[str, bytes | None, str | None]:
        """Text, the bytes where the text does not say them, and the detail."""
        encoding, header = self._file_of(origin) if reason in (UNREADABLE, TOO_LONG) else (UTF8, ())
        text = raw.decode(encoding, "replace")
        if reason == TOO_LONG:
            same = text.encode(encoding, "replace") == raw
            return text, None if same else raw, self._too_long(origin, position)
        if text.encode(encoding, "replace") == raw:
            return text, None, self.explainer.detail(reason, text, header)
        return text, raw, self.explainer.undecodable(raw, encoding)

    def _too_long(self, origin: str, position: int) -> str | None:
        """How long a line is of which only the first bytes are kept."""
        file = self._found(origin)
        lines = self.source.long_lines(file) if file is not None else ()
        sizes = (line.size for line in lines if line.start == position)
        return next(map(self.explainer.too_long, sizes, [position]), None)

    def _found(self, origin: str) -> SourceFile | None:
        return self._by_path.get(_path(origin)) or self._by_path.get(unquote(_path(origin)))

    def _file_of(self, origin: str) -> tuple[str, tuple[str, ...]]:
        """Encoding and header of the file that a dead letter comes from."""
        if origin not in self._known:
            found = self._found(origin)
            is_csv = self.source.pipeline.source.files.format == "csv"
            self._known[origin] = (
                (self.source.encoding_of(found), self.source.header(found) if is_csv else ())
                if found is not None
                else (self.source.pipeline.source.files.encoding, ())
            )
        return self._known[origin]


def _path(origin: str) -> str:
    return "/" + origin.removeprefix("file:").lstrip("/")


def _columns(rows: Sequence[tuple[Any, ...]], names: Iterable[str]) -> dict[str, pa.Array]:
    return {
        name: pa.array([row[place] for row in rows], DEAD_LETTERS.field(name).type)
        for place, name in enumerate(names)
    }


def _valid(column: pa.Array) -> pa.Array:
    """The column; text of which some is not UTF-8 with U+FFFD for what is not."""
    if not pa.types.is_string(column.type):
        return column
    values = column.cast(pa.binary())
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode(errors="replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())
