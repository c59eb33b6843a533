"""Raw files or a table as a history, before any pipeline exists.

They are read once for the ticks, then as often as need be; never more than some rows at a time. Rows need not be in
order: a tick is what arrived in it, wherever it stands.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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

from latecomer.after.advise.history import AT_ONCE, Codes, History, Measured, Part, Subject
from latecomer.config.paths import list_files
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.model.durations import shown_duration
from latecomer.model.lateness.course import Course, Moment, Walk, course_in_order, course_of_partitions
from latecomer.model.lateness.histogram import Flags, Whole
from latecomer.model.strategies import Bounded, TickSummary
from latecomer.model.windows import Tumbling

LOG = logging.getLogger(__name__)

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_CHUNK = 16 << 20
_ZONED = r"(Z|[+-]\d\d(:?\d\d)?)$"
_COMPACT = 1 << 21
MOST_HEADS = 1 << 23
"""So many ticks of partitions are kept; of a longer history the ticks are made longer."""
SECOND = 1_000_000
_TICKS = [SECOND, 10 * SECOND, 60 * SECOND, 600 * SECOND, 3600 * SECOND]
_MOST_PARTITIONS = 10_000
_FORMATS = {"parquet": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}


@dataclass(frozen=True)
class RawSource:
    """Which files, and which of their columns are what."""

    path: str
    event_time: str
    arrival: str | None = None
    """None: a file's rows arrived when it was last changed."""
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


def refused(option: str, message: str, value: object, fix: str) -> PipelineError:
    return PipelineError([Problem(option, message, value, fix, "advise")])


class RawHistory(History):
    """Files of JSON, CSV or Parquet, or a Delta table."""

    kind = "files"

    def __init__(self, source: RawSource) -> None:
        self.source = source
        self.title = source.path
        self.notes = []
        self.files = _Files(source)
        self.by = {name: name for name in source.by}
        self.producer = source.producer
        self.every = source.every or SECOND
        self.strategy = self._strategy()
        measured = [Measured("events", "count", None, "count(*)")]
        for column in source.measures:
            measured += [
                Measured(f"{name} of {column}", name, column, f"{name}({column})") for name in ("sum", "avg")
            ]
        self.subjects = [
            Subject("windows", Tumbling(f"{source.window}us"), aggregates=tuple(measured), state_bytes=96.0)
        ]
        self._partitions = Codes(_MOST_PARTITIONS)
        self.total = 0
        self.course = self._course()
        self._note()

    def _strategy(self) -> Bounded:
        idle = self.source.idle_after
        return Bounded("0s", idle_after=None if idle is None else f"{idle}us", every=f"{self.every}us")

    def _note(self) -> None:
        counted = self.files
        if counted.unreadable:
            self.notes.append(
                f"rows without a readable {self.source.event_time} or arrival: {counted.unreadable:,}; "
                "they are left out"
            )
        if counted.too_far:
            self.notes.append(
                f"events more than {shown_duration(self.source.max_future)} ahead of their arrival: "
                f"{counted.too_far:,}; "
                "a pipeline would make them dead letters, and they are left out"
            )
        if self.source.every is None and self.every > SECOND:
            self.notes.append(
                f"ticks are {shown_duration(self.every)} long, for the history has too many seconds: events may be as "
                "much further behind than said; --every 1s measures all of them, in more memory"
            )
        self.notes.append(
            "corrections are counted as if every tick were a batch; larger batches make fewer of them"
        )
        counted.quiet = True

    def _course(self) -> Course:
        summaries = _Summaries()
        for times, arrivals, rows in self.files.events([]):
            LOG.info("reading arrivals, %s so far", f"{self.total:,}")
            self.total += len(times)
            summaries.add(arrivals // self.every, self._codes(rows), times)
            self._lengthen(summaries)
        if not self.total:
            raise refused(
                "source",
                "no row has a readable event time and arrival",
                self.source.path,
                "name other columns",
            )
        self._lengthen(summaries)
        self.strategy = self._strategy()
        tick, code, largest, events = summaries.settled()
        names = self._partitions.names
        if len(names) <= 1:
            return course_in_order(tick, tick * self.every, largest, (names or [""])[0] or "")
        first = np.flatnonzero(np.diff(tick, prepend=tick[0] - 1))
        quick = course_of_partitions(
            np.zeros(len(first), np.int64),
            tick[first],
            tick[first] * self.every,
            np.searchsorted(tick[first], tick),
            code,
            largest,
            [name or "" for name in names],
            self.every,
            self.source.idle_after,
        )
        return self._walked(tick, code, largest, events) if quick is None else quick

    def _lengthen(self, summaries: _Summaries) -> None:
        """Longer ticks, where there are too many and their length is not given."""
        while self.source.every is None and self.every < _TICKS[-1] and summaries.too_many():
            longer = next(each for each in _TICKS if each > self.every)
            summaries.lengthen(longer // self.every)
            self.every = longer

    def _walked(self, tick: Whole, code: Whole, largest: Whole, events: Whole) -> Course:
        names = [name or "" for name in self._partitions.names]
        walk = Walk(self.strategy)
        starts = [*np.flatnonzero(np.diff(tick, prepend=tick[0] - 1)).tolist(), len(tick)]
        columns = [each.tolist() for each in (tick, code, largest, events)]
        every, ticks = self.every, []
        for start, end in pairwise(starts):
            now = columns[0][start]
            summaries = [
                TickSummary(now, now * every, names[columns[1][nth]], columns[3][nth], columns[2][nth])
                for nth in range(start, end)
            ]
            ticks.append((now, summaries))
        walk.take(Moment(0, "tick", 0, ticks))
        return walk.course()

    def _codes(self, rows: pa.RecordBatch) -> Whole:
        if self.source.partition is None:
            self._partitions.names = [""]
            return np.zeros(rows.num_rows, np.int64)
        return self._partitions.of(rows.column(self.source.partition))

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        place = {name: nth for nth, name in enumerate(self.course.partitions)}
        order = np.array([place.get(name or "", -1) for name in self._partitions.names], np.int64)
        done = 0
        for times, arrivals, rows in self.files.events(columns):
            LOG.info("reading events, %s of %s", f"{done:,}", f"{self.total:,}")
            done += len(times)
            row = np.searchsorted(self.course.tick, arrivals // self.every)
            yield Part(
                row, times, arrivals - times, order[self._codes(rows)], row, rows.select(list(columns))
            )


class _Summaries:
    """The largest event time and the number of events of each tick and partition."""

    def __init__(self) -> None:
        self._rows: list[tuple[Whole, Whole, Whole, Whole]] = []
        self._held = 0

    def add(self, tick: Whole, code: Whole, times: Whole) -> None:
        self._rows.append(_reduced(tick, code, times, np.ones(len(tick), np.int64)))
        self._held += len(self._rows[-1][0])
        if self._held > _COMPACT:
            self._rows = [self.settled()]
            self._held = min(len(self._rows[0][0]), _COMPACT // 2)

    def too_many(self) -> bool:
        if sum(len(each[0]) for each in self._rows) <= MOST_HEADS:
            return False
        self._rows = [self.settled()]
        return len(self._rows[0][0]) > MOST_HEADS

    def lengthen(self, times: int) -> None:
        """Make one tick of so many."""
        tick, code, largest, events = self.settled()
        self._rows = [_reduced(tick // times, code, largest, events)]

    def settled(self) -> tuple[Whole, Whole, Whole, Whole]:
        tick, code, largest, events = (np.concatenate(each) for each in zip(*self._rows, strict=True))
        return _reduced(tick, code, largest, events)


def _reduced(tick: Whole, code: Whole, times: Whole, events: Whole) -> tuple[Whole, Whole, Whole, Whole]:
    if not len(tick):
        return tick, code, times, events
    order = np.lexsort((code, tick))
    tick, code, times, events = (each[order] for each in (tick, code, times, events))
    first = np.flatnonzero(np.concatenate([[True], (tick[1:] != tick[:-1]) | (code[1:] != code[:-1])]))
    return tick[first], code[first], np.maximum.reduceat(times, first), np.add.reduceat(events, first)


class _Files:
    """The rows of the files, with times as microseconds."""

    def __init__(self, source: RawSource) -> None:
        self.source = source
        self.unreadable, self.too_far = 0, 0
        self.quiet = True
        path = Path(source.path).expanduser()
        self.delta = (path / "_delta_log").is_dir()
        self.paths = self._paths(path)
        with self._explained(self.paths[0] if self.paths else ""):
            self.format = "parquet" if self.delta else _format(self.paths[0])
        if self.format == "parquet":
            try:
                self._dataset = ds.dataset(self.paths, format="parquet")
            except (pa.ArrowException, OSError) as error:
                raise self._cannot_be_read(error) from None
        self._require_columns()
        self.quiet = False

    def _paths(self, path: Path) -> list[str]:
        if self.delta:
            try:
                return DeltaTable(str(path)).file_uris()
            except DeltaError as error:
                raise self._cannot_be_read(error) from None
        found = list_files(str(path.absolute()))
        if not found:
            fix = "name a pipeline file, a file, a folder, a pattern in quotes, or a Delta table"
            raise refused("source", "there is no such file or folder, or it is empty", self.source.path, fix)
        return found

    def _cannot_be_read(self, error: Exception, path: str = "") -> PipelineError:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        what = f"{path} cannot be read" if path else "cannot be read"
        return refused(
            "source",
            f"{what}: {reason}",
            self.source.path,
            "name files of JSON, CSV or Parquet that are whole",
        )

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

    def events(self, columns: Sequence[str]) -> Iterator[tuple[Whole, Whole, pa.RecordBatch]]:
        """Event times, arrivals and other columns of all rows that have both times."""
        source = self.source
        fixed = [source.event_time, source.arrival, source.partition]
        wanted = list(dict.fromkeys([*(each for each in fixed if each is not None), *columns]))
        for path, rows in self._rows(wanted):
            times, readable = _micros(rows.column(source.event_time), source, "--event-time")
            if source.arrival is None:
                arrivals, arrived = np.full(len(times), _changed_at(path), np.int64), readable
            else:
                arrivals, arrived = _micros(rows.column(source.arrival), source, "--arrival")
            whole = readable & arrived
            near = whole & (times - arrivals <= source.max_future)
            if not self.quiet:
                self.unreadable += int(np.count_nonzero(~whole))
                self.too_far += int(np.count_nonzero(whole & ~near))
            if near.any():
                yield times[near], arrivals[near], rows.filter(pa.array(near))

    def _rows(self, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows with these columns, and the file that they are from where that matters."""
        numeric = {*self.source.measures}
        for path in self.paths if self.format != "parquet" or self.source.arrival is None else [""]:
            with self._explained(path):
                for rows in self._read(path, columns):
                    arrays = [_column(rows, name) for name in columns]
                    arrays = [
                        _numeric(each) if name in numeric else each
                        for name, each in zip(columns, arrays, strict=True)
                    ]
                    yield path, pa.record_batch(arrays, names=list(columns))

    def _read(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        top = list(dict.fromkeys(name if name in self._names else name.split(".")[0] for name in columns))
        if self.format == "parquet":
            found = ds.dataset([path], format="parquet") if path else self._dataset
            return iter(
                found.to_batches(columns=top, batch_size=AT_ONCE, batch_readahead=2, fragment_readahead=2)
            )
        return self._csv(path, top) if self.format == "csv" else self._json(path)

    @property
    def _names(self) -> set[str]:
        return {*self._dataset.schema.names} if self.format == "parquet" else {*()}

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
            found = pa_json.read_json(io.BytesIO(lines), parse_options=self._json_options)
        except pa.ArrowInvalid:
            found = self._line_by_line(lines)
        yield from found.to_batches(max_chunksize=AT_ONCE)

    @property
    def _json_options(self) -> pa_json.ParseOptions:
        """Times that are text stay text: Arrow would read them, and forget the zone."""
        if self.source.unit is not None:
            return pa_json.ParseOptions()
        named = [each for each in (self.source.event_time, self.source.arrival) if each and "." not in each]
        return pa_json.ParseOptions(
            explicit_schema=pa.schema([(each, pa.string()) for each in dict.fromkeys(named)])
        )

    def _line_by_line(self, lines: bytes) -> pa.Table:
        """For lines of which one is no object, or whose values are of several types: all as text."""
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

    def _explained(self, path: str) -> _Explained:
        return _Explained(self, path)


class _Explained:
    """Errors of a reader, in one sentence."""

    def __init__(self, files: _Files, path: str) -> None:
        self.files, self.path = files, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError):
            raise self.files._cannot_be_read(error, self.path) from None


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


def _changed_at(path: str) -> int:
    return Path(path).stat().st_mtime_ns // 1_000


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """A column, or a field of an object where the name has a dot; nulls where it is not there."""
    if name in rows.schema.names:
        return rows.column(name)
    top, *fields = name.split(".")
    if top in rows.schema.names:
        found = rows.column(top)
        try:
            for field in fields:
                found = pc.struct_field(found, field)
            return found
        except (pa.ArrowException, KeyError):
            pass
    return pa.nulls(rows.num_rows, pa.string())


def _numeric(values: pa.Array) -> pa.Array:
    """Numbers, also where they are written as text; null where there is none."""
    if not pa.types.is_string(values.type):
        return values
    whole = pc.match_substring_regex(values, r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*$")
    digits = pc.if_else(
        pc.fill_null(whole, False), pc.utf8_trim_whitespace(values), pa.scalar(None, pa.string())
    )
    return digits.cast(pa.float64())


def _micros(values: pa.Array, source: RawSource, option: str) -> tuple[Whole, Flags]:
    """Times as microseconds, and which of them can be read."""
    found = _moments(values, source, option)
    there = found.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(pc.fill_null(found.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), np.int64), there


def _moments(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.timestamp("us", "UTC"))
    if pa.types.is_dictionary(kind):
        return _moments(values.dictionary_decode(), source, option)
    if pa.types.is_date(kind):
        return _in_zone(values.cast(pa.timestamp("us")), source)
    if pa.types.is_timestamp(kind):
        cut = values.cast(pa.timestamp("us", kind.tz), safe=False)
        return cut.cast(pa.timestamp("us", "UTC")) if kind.tz else _in_zone(cut, source)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _of_numbers(values, source, option)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(pc.utf8_trim_whitespace(values.cast(pa.string())), source, option)
    raise refused(
        option,
        f"is a column of type {kind}, which holds no times",
        source.event_time,
        "name a column with times",
    )


def _of_numbers(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is None:
        fix = "say what the numbers count: --unit s, ms, us or ns"
        raise refused(option, "the column has numbers, and their unit is not said", option, fix)
    if pa.types.is_integer(values.type):
        whole = values.cast(pa.int64())
        micros = pc.divide(whole, 1_000) if source.unit == "ns" else pc.multiply(whole, UNITS[source.unit])
    else:
        factor = 1e-3 if source.unit == "ns" else float(UNITS[source.unit])
        micros = pc.multiply(values.cast(pa.float64()), factor)
        near = pc.is_finite(micros)
        micros = pc.floor(pc.if_else(near, micros, pa.scalar(None, pa.float64()))).cast(
            pa.int64(), safe=False
        )
    return micros.cast(pa.timestamp("us", "UTC"))


_ISO = r"^\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?$"


def _of_texts(texts: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is not None:
        return _of_numbers(_numeric(texts), source, option)
    nothing = pa.scalar(None, pa.string())
    readable = pc.fill_null(pc.match_substring_regex(texts, _ISO), False)
    # Digits beyond microseconds are cut off, as a pipeline does.
    cut = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    zoned = pc.fill_null(pc.match_substring_regex(cut, r"[T ]\d\d:.*" + _ZONED), False)
    with_zone = pc.if_else(pc.and_(readable, zoned), cut, nothing)
    without = pc.if_else(pc.and_(readable, pc.invert(zoned)), cut, nothing)
    try:
        first = with_zone.cast(pa.timestamp("us", "UTC"))
        second = _in_zone(without.cast(pa.timestamp("us")), source)
    except pa.ArrowInvalid:  # a day that no month has
        return pa.array([_one(text, source) for text in texts.to_pylist()], pa.timestamp("us", "UTC"))
    return pc.coalesce(first, second)


def _one(text: str | None, source: RawSource) -> int | None:
    from latecomer.model.zoned import read

    try:
        return None if text is None else read(text, source.zone)
    except (ValueError, OverflowError):
        return None


def _in_zone(values: pa.Array, source: RawSource) -> pa.Array:
    if source.zone == "UTC":
        return values.cast(pa.timestamp("us", "UTC"))
    found = pc.assume_timezone(values, source.zone, ambiguous="earliest", nonexistent="latest")
    return found.cast(pa.timestamp("us", "UTC"))
