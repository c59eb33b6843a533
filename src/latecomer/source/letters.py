"""Dead letters as they are shown: text that every reader can read, the bytes, and what was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.encodings import UTF8
from latecomer.config.models import Pipeline
from latecomer.model.dead_letters import INVALID_RECORD, REST, TOO_LONG, UNKNOWN_FIELDS, UNREADABLE
from latecomer.source.decode.base import FileDecoder, SourceFile
from latecomer.source.decode.csv import CsvFiles
from latecomer.source.decode.detail import Explainer
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.source.decode.text import TextFiles
from latecomer.source.private_columns import BROKEN, FULL_ORIGIN, POSITION


@dataclass
class RecordLetters:
    """For records in UTF-8."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    """By their names in the source."""

    def __post_init__(self) -> None:
        self.explainer = Explainer(self.pipeline, self.columns)

    def shown(
        self, raw: bytes, reason: str, origin: str, position: int
    ) -> tuple[str, bytes | None, str | None]:
        """Text that every reader can read, the bytes if the text does not preserve them, and what was wrong."""
        as_written = reason in (UNREADABLE, INVALID_RECORD, TOO_LONG, UNKNOWN_FIELDS)
        encoding, header = self._written_in(origin) if as_written else (UTF8, ())
        text = raw.decode(encoding, "replace")
        same = text.encode(encoding, "replace") == raw
        if reason == REST:
            return text, None if same else raw, self.explainer.rest(raw)
        if reason == TOO_LONG:
            return text, None if same else raw, self._too_long(origin, position)
        if reason == UNKNOWN_FIELDS and not same:
            return text, raw, self.explainer.detail(reason, raw.decode(UTF8, "surrogateescape"), header)
        if same:
            return text, None, self.explainer.detail(reason, text, header)
        return text, raw, self.explainer.undecodable(raw, encoding)

    def _written_in(self, origin: str) -> tuple[str, tuple[str, ...]]:
        """The encoding and the header of the file that a dead letter comes from."""
        return UTF8, ()

    def _too_long(self, origin: str, position: int) -> str | None:
        """How long a line is whose first bytes are all that is kept."""
        return None


@dataclass
class FileLetters(RecordLetters):
    """For files."""

    decoder: FileDecoder
    files: Sequence[SourceFile]
    _known: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    _sizes: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._by_path = {str(file.named): file for file in self.files}

    def _written_in(self, origin: str) -> tuple[str, tuple[str, ...]]:
        if origin not in self._known:
            path, decoder = str(SourceFile(origin, 0, 0).named), self.decoder
            file = self._by_path.get(path) or self._by_path.get(unquote(path))
            if file is None or not isinstance(decoder, TextFiles):
                encoding = UTF8 if self.pipeline.format == "parquet" else self.pipeline.files.encoding
                self._known[origin] = (encoding, ())
            else:
                header = decoder.header(file) if isinstance(decoder, CsvFiles) else ()
                self._known[origin] = (decoder.encoding_of(file), header)
        return self._known[origin]

    def _too_long(self, origin: str, position: int) -> str | None:
        return self.explainer.too_long(self._sizes[origin, position], position)

    def long_lines(self, rows: pa.Table) -> dict[str, int]:
        """How many of these rows are lines that are too long, by file. Their sizes are kept for `shown`."""
        if not {BROKEN, CORRUPT} <= {*rows.column_names}:
            return {}
        long = rows.filter(pc.and_(rows.column(BROKEN).is_valid(), rows.column(CORRUPT).is_valid()))
        places = (long.column(name).to_pylist() for name in (FULL_ORIGIN, POSITION, BROKEN))
        sizes = {(path, start): int(size) for path, start, size in zip(*places, strict=True)}
        self._sizes |= sizes
        return dict(Counter(path for path, _ in sizes))
