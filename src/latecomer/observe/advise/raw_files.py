"""The rows of raw files, or of a Delta table: JSON, CSV and Parquet, with times as microseconds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.json as pa_json
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from latecomer.config.arguments import path_of
from latecomer.config.paths import list_files
from latecomer.errors import did_you_mean
from latecomer.model.array_types import Integers
from latecomer.observe.advise.history import AT_ONCE
from latecomer.observe.advise.raw_source import (
    RawSource,
    as_numbers,
    column_of,
    micros_of,
    refused,
    require_groupable,
)

_CHUNK = 16 << 20
_FORMATS = {"parquet": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}


class RawFiles:
    """The rows of the files, with times as microseconds."""

    def __init__(self, source: RawSource) -> None:
        self.source = source
        self.unreadable, self.too_far = 0, 0
        self.quiet = True
        path = path_of("advise", "source", source.path)
        with self._explained():
            self.delta = (path / "_delta_log").is_dir()
        self.paths = self._paths(path)
        with self._explained(self.paths[0] if self.paths else ""):
            self.format = "parquet" if self.delta else _format(self.paths[0])
        if self.format == "parquet":
            with self._explained():
                self._dataset = ds.dataset(self.paths, format="parquet")
        self._require_columns()
        self.quiet = False

    def _paths(self, path: Path) -> list[str]:
        if self.delta:
            with self._explained():
                return DeltaTable(str(path)).file_uris()
        with self._explained():
            paths = list_files(str(path.absolute()))
        if not paths:
            fix = "name a pipeline file, a file, a folder, a pattern in quotes, or a Delta table"
            raise refused("source", "there is no such file or folder, or it is empty", self.source.path, fix)
        return paths

    def _require_columns(self) -> None:
        known = self._known_columns()
        wanted = {
            "event-time": [self.source.event_time],
            "arrival": [self.source.arrival] if self.source.arrival else [],
            "partition": [self.source.partition] if self.source.partition else [],
            "by": self.source.by,
            "producer": [self.source.producer] if self.source.producer else [],
            "measure": self.source.measures,
        }
        for option, columns in wanted.items():
            for column in columns:
                if column not in known and column.split(".")[0] not in known:
                    fix = did_you_mean(column, known)
                    raise refused(f"--{option}", "the files have no such column", column, fix)

    def _known_columns(self) -> list[str]:
        if self.format == "parquet":
            return list(self._dataset.schema.names)
        if self.format == "csv":
            with self._explained(self.paths[0]), pa_csv.open_csv(self.paths[0]) as reader:
                return list(reader.schema.names)
        with self._explained(self.paths[0]):
            return next((list(rows.schema.names) for rows in self._json(self.paths[0])), [])

    def events(self, columns: Sequence[str]) -> Iterator[tuple[Integers, Integers, pa.RecordBatch]]:
        """Event times, arrivals and other columns of the rows that have both times."""
        source = self.source
        fixed = [source.event_time, source.arrival, source.partition]
        wanted = list(dict.fromkeys([*(each for each in fixed if each is not None), *columns]))
        for path, rows in self._rows(wanted):
            with self._explained(path):
                times, readable = micros_of(rows.column(source.event_time), source, "--event-time")
                if source.arrival is None:
                    arrivals, arrived = np.full(len(times), Path(path).stat().st_mtime_ns // 1_000), readable
                else:
                    arrivals, arrived = micros_of(rows.column(source.arrival), source, "--arrival")
            whole = readable & arrived
            near = whole & (times - arrivals <= source.max_future)
            if not self.quiet:
                self.unreadable += int(np.count_nonzero(~whole))
                self.too_far += int(np.count_nonzero(whole & ~near))
            if near.any():
                yield times[near], arrivals[near], rows.filter(pa.array(near))

    def _rows(self, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows with these columns, and their file where that matters."""
        for path in self.paths if self.format != "parquet" or self.source.arrival is None else [""]:
            with self._explained(path):
                for rows in self._read(path, columns):
                    arrays = [self._column(rows, name) for name in columns]
                    yield path, pa.record_batch(arrays, names=list(columns))

    def _column(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        source, values = self.source, column_of(rows, name)
        groups = {"--by": source.by, "--partition": (source.partition,), "--producer": (source.producer,)}
        for option, columns in groups.items():
            if name in columns:
                require_groupable(values, option, name)
        return as_numbers(values, name) if name in source.measures else values

    def _read(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = self._dataset.schema.names if self.format == "parquet" else ()
        top = list(dict.fromkeys(name if name in names else name.split(".")[0] for name in columns))
        if self.format == "parquet":
            dataset = ds.dataset([path], format="parquet") if path else self._dataset
            return iter(
                dataset.to_batches(columns=top, batch_size=AT_ONCE, batch_readahead=2, fragment_readahead=2)
            )
        return self._csv(path, top) if self.format == "csv" else self._json(path)

    def _csv(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        options = pa_csv.ConvertOptions(
            include_columns=list(columns),
            include_missing_columns=True,
            column_types=dict.fromkeys(columns, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        )
        with pa_csv.open_csv(
            path,
            convert_options=options,
            read_options=pa_csv.ReadOptions(block_size=_CHUNK),
            parse_options=pa_csv.ParseOptions(invalid_row_handler=self._skip),
        ) as reader:
            yield from reader

    def _skip(self, row: Any) -> str:
        if not self.quiet:
            self.unreadable += 1
        return "skip"

    def _json(self, path: str) -> Iterator[pa.RecordBatch]:
        with pa.input_stream(path) as file:
            rest = b""
            while True:
                chunk = file.read(_CHUNK)
                if not chunk:
                    break
                chunk = rest + chunk
                end = chunk.rfind(b"\n") + 1
                rest, whole = chunk[end:], chunk[:end]
                if whole.strip():
                    yield from self._parsed(whole)
            if rest.strip():
                yield from self._parsed(rest + b"\n")

    def _parsed(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        try:
            table = pa_json.read_json(io.BytesIO(lines), parse_options=self._json_options)
        except pa.ArrowInvalid:
            table = self._line_by_line(lines)
        yield from table.to_batches(max_chunksize=AT_ONCE)

    @property
    def _json_options(self) -> pa_json.ParseOptions:
        """Read times that are text as text: Arrow would parse them, and lose the zone."""
        if self.source.unit is not None:
            return pa_json.ParseOptions()
        named = [each for each in (self.source.event_time, self.source.arrival) if each and "." not in each]
        return pa_json.ParseOptions(
            explicit_schema=pa.schema([(each, pa.string()) for each in dict.fromkeys(named)])
        )

    def _line_by_line(self, lines: bytes) -> pa.Table:
        """Read lines of which one is no object, or whose values have several types: all values become text."""
        rows = []
        for line in lines.splitlines():
            if not line.strip():
                continue
            try:
                row: Any = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                rows.append({name: _flat(value) for name, value in row.items()})
            elif not self.quiet:
                self.unreadable += 1
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: pa.array([row.get(name) for row in rows], pa.string()) for name in names})

    @contextmanager
    def _explained(self, path: str = "") -> Iterator[None]:
        """Turn errors of a reader into one sentence."""
        try:
            yield
        except (pa.ArrowException, DeltaError, OSError) as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            what = f"{path} cannot be read" if path else "cannot be read"
            fix = "name files of JSON, CSV or Parquet that are whole"
            raise refused("source", f"{what}: {reason}", self.source.path, fix) from None


def _flat(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _format(path: str) -> str:
    name = Path(path).name.lower().removesuffix(".gz").removesuffix(".bz2")
    ending = name.rpartition(".")[2]
    if ending in _FORMATS:
        return _FORMATS[ending]
    with pa.input_stream(path) as file:
        start = file.read(4096)
    if start[:4] == b"PAR1":
        return "parquet"
    return "json" if start.lstrip()[:1] == b"{" else "csv"
