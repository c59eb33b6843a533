"""The rows of raw files, or of a Delta table: JSON, CSV and Parquet, with times as microseconds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.json as pa_json
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from latecomer.after.reading.comparable_values import is_number
from latecomer.config.arguments import path_of
from latecomer.config.paths import list_files
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.log.moments import of_texts, of_wall_clock
from latecomer.model.array_types import Flags, Integers
from latecomer.observe.advise.history import AT_ONCE

_CHUNK = 16 << 20
_FORMATS = {"parquet": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_FURTHEST = 253_402_300_799_000_000
"""The last second of the year 9999: numbers beyond it, or as far before 1970, are not times."""
_OFFSET = r"^\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?[+-](0\d|1[0-7])(:?[0-5]\d)?$"
"""A time that Arrow reads as a pipeline does; a pipeline reads an offset only after seconds."""
_DAY, _MINUTE = r"^\d{4}-\d\d-\d\d$", r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d$"


@dataclass(frozen=True)
class RawSource:
    """Which files are read, and what their columns mean."""

    path: str
    event_time: str
    arrival: str | None = None
    """None: the rows of a file arrived when the file was last changed."""
    partition: str | None = None
    by: tuple[str, ...] = ()
    producer: str | None = None
    measures: tuple[str, ...] = ()
    unit: str | None = None
    zone: str = "UTC"
    every: int | None = None
    """None: a second, or longer where a long history has too many of them."""
    idle_after: int | None = None
    max_future: int = 300_000_000
    window: int = 60_000_000

    @property
    def named(self) -> dict[str, Sequence[str]]:
        """The columns that each option names."""
        single = {
            "--event-time": self.event_time,
            "--arrival": self.arrival,
            "--partition": self.partition,
            "--producer": self.producer,
        }
        columns = {option: () if column is None else (column,) for option, column in single.items()}
        return {**columns, "--by": self.by, "--measure": self.measures}


def refused(option: str, message: str, value: object, fix: str) -> PipelineError:
    return PipelineError([Problem(option, message, value, fix, "advise")])


class RawFiles:
    """The rows of the files, with times as microseconds."""

    def __init__(self, source: RawSource) -> None:
        self.source = source
        self.unreadable, self.too_far = 0, 0
        self.quiet = True
        path = path_of("advise", "source", source.path)
        with self._explained():
            delta = (path / "_delta_log").is_dir()
            self.paths = DeltaTable(str(path)).file_uris() if delta else list_files(str(path.absolute()))
        if not self.paths and not delta:
            fix = "name a pipeline file, a file, a folder, a pattern in quotes, or a Delta table"
            raise refused("source", "there is no such file or folder, or it is empty", source.path, fix)
        with self._explained("" if delta else self.paths[0]):
            self.format = "parquet" if delta else _format(self.paths[0])
        if self.format == "parquet":
            with self._explained():
                self._dataset = ds.dataset(self.paths, format="parquet")
        self._require_columns()
        self.quiet = False

    def _require_columns(self) -> None:
        known = self._known_columns()
        for option, columns in self.source.named.items():
            for column in columns:
                if column not in known and column.split(".")[0] not in known:
                    fix = did_you_mean(column, known)
                    raise refused(option, "the files have no such column", column, fix)

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
        source, named = self.source, self.source.named
        fixed = (*named["--event-time"], *named["--arrival"], *named["--partition"])
        wanted = list(dict.fromkeys([*fixed, *columns]))
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
        named, values = self.source.named, column_of(rows, name)
        for option in ("--by", "--partition", "--producer"):
            if name in named[option] and pa.types.is_nested(values.type):
                reason = f"is a column of type {values.type}, which holds several values in each row"
                raise refused(option, reason, name, "name a column with one value in each row")
        return as_numbers(values, name) if name in self.source.measures else values

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


# Columns


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array:
    """A column, or a field of an object where the name has a dot; nulls where the rows do not have it."""
    top, *fields = [name] if name in rows.schema.names else name.split(".")
    if top not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.string())
    values = rows.column(top)
    try:
        for field in fields:
            values = pc.struct_field(values, field)
    except (pa.ArrowException, KeyError):
        return pa.nulls(rows.num_rows, pa.string())
    kind = values.type
    return (
        values.cast(pa.string())
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        else values
    )


def as_numbers(values: pa.Array, column: str) -> pa.Array:
    """Numbers, also where they are written as text; null where there is none."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_numbers(values.dictionary_decode(), column)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind) or is_number(kind):
        return values
    if not pa.types.is_string(kind):
        reason = f"is a column of type {kind}, which holds no numbers"
        raise refused("--measure", reason, column, "name a column with numbers")
    return _numbers_in(values)


def _numbers_in(texts: pa.Array) -> pa.Array:
    whole = pc.match_substring_regex(texts, r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*$")
    digits = pc.if_else(
        pc.fill_null(whole, False), pc.utf8_trim_whitespace(texts), pa.scalar(None, pa.string())
    )
    return digits.cast(pa.float64())


def micros_of(values: pa.Array, source: RawSource, option: str) -> tuple[Integers, Flags]:
    """Times as microseconds, and which of them can be read."""
    moments = _moments(values, source, option)
    readable = moments.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(pc.fill_null(moments, 0).to_numpy(zero_copy_only=False), np.int64), readable


def _no_times(source: RawSource, option: str, reason: str, fix: str) -> PipelineError:
    column = source.arrival if option == "--arrival" else source.event_time
    return refused(option, reason, column, fix)


def _moments(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.int64())
    if pa.types.is_dictionary(kind):
        return _moments(values.dictionary_decode(), source, option)
    if pa.types.is_date(kind):
        return of_wall_clock(values.cast(pa.timestamp("us")).cast(pa.int64()), source.zone)
    if pa.types.is_timestamp(kind):
        cut = values.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return cut if kind.tz else of_wall_clock(cut, source.zone)
    if is_number(kind):
        return _of_numbers(values, source, option)
    if pa.types.is_string(kind):
        texts = pc.utf8_trim_whitespace(values)
        return (
            _of_texts(texts, source)
            if source.unit is None
            else _of_numbers(_numbers_in(texts), source, option)
        )
    reason = f"is a column of type {kind}, which holds no times"
    raise _no_times(source, option, reason, "name a column with times")


def _of_numbers(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is None:
        fix = "say what the numbers count: --unit s, ms, us or ns"
        raise _no_times(source, option, "is a column of numbers, and their unit is not given", fix)
    if pa.types.is_integer(values.type):
        whole = values.cast(pa.int64())
        if source.unit == "ns":
            return _within(pc.divide(whole, 1_000), _FURTHEST)
        factor = UNITS[source.unit]
        return pc.multiply(_within(whole, _FURTHEST // factor), factor)
    share = 1e-3 if source.unit == "ns" else float(UNITS[source.unit])
    micros = _within(pc.multiply(values.cast(pa.float64()), share), float(_FURTHEST))
    return pc.floor(micros).cast(pa.int64())


def _within(values: pa.Array, most: float) -> pa.Array:
    """Numbers that are no further from zero than `most`; the others become null."""
    near = pc.and_(pc.less_equal(values, most), pc.greater_equal(values, -most))
    return pc.if_else(near, values, pa.scalar(None, values.type))


def _of_texts(texts: pa.Array, source: RawSource) -> pa.Array:
    """Times as a pipeline reads them. Arrow reads those with an offset and those without seconds, which takes Python
    long."""
    # Digits beyond microseconds are cut off, as a pipeline does.
    cut, nothing = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1"), pa.scalar(None, pa.string())
    for pattern, rest in ((_DAY, " 00:00:00"), (_MINUTE, ":00")):
        short = pc.fill_null(pc.match_substring_regex(cut, pattern), False)
        cut = pc.if_else(short, pc.binary_join_element_wise(cut, rest, ""), cut)
    offset = pc.fill_null(pc.match_substring_regex(cut, _OFFSET), False)
    try:
        moments = pc.if_else(offset, cut, nothing).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:  # a day that no month has
        return of_texts(cut, source.zone)
    return pc.coalesce(moments, of_texts(pc.if_else(offset, nothing, cut), source.zone))
