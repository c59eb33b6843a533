"""The past of a pipeline, read from its store without Spark: panes and delays of a batch, the fates of events by time,
and the watermark.

Columns of the files that a batch has written are read on the driver with Arrow; no Spark job is needed (ADR 0046).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.timeline import micros
from latecomer.model.durations import to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.panes import Op, Timing
from latecomer.model.publications import lag
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.observe.history import DAY, KEPT, STEP, Sums, WatermarkStep
from latecomer.store.delta.data_files import DataFile
from latecomer.store.delta.table import Table
from latecomer.store.layout import FATE_COLUMNS, TIMESTAMP
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.store import Store

PANES = pa.schema([("batch", pa.int64()), ("timing", pa.string()), ("op", pa.string())])
"""The columns of a pane that are needed to count it."""
_TIMINGS = ", ".join(map(text_literal, (Timing.LATE, Timing.CORRECTION)))
CORRECTED = f"timing in ({_TIMINGS}) and op = {text_literal(Op.INSERT)}"
"""The panes that correct a number after its window closed, in SQL."""
_STEP = f"date_bin(interval '{STEP // 60_000_000} minutes', p.published_at)"


def pane_counts(panes: Table, files: Sequence[DataFile], batch: int) -> dict[tuple[str, str], int]:
    """The panes of a batch by timing and op, from the files that it wrote; those may have earlier panes too."""
    with panes.explained():
        rows = panes.dataset(files, PANES).to_table(filter=pc.field("batch") == batch)
    counted = rows.group_by(["timing", "op"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["timing"], row["op"]): row["count_all"] for row in counted}


# How late the events of a batch came

BOUNDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)
"""Seconds. To choose `watermark.delay` one looks for the elbow, which for most sources is between half a minute and ten
minutes."""
_TIMES = pa.schema([("event_time", TIMESTAMP), ("arrival_time", TIMESTAMP)])
_MICROS = np.array([bound * 1_000_000 for bound in BOUNDS], np.int64)


@dataclass(frozen=True)
class RecordedDelays:
    """Events by how long after their event time they arrived."""

    within: tuple[int, ...]
    """For each of BOUNDS, how many events arrived no later than that: cumulative counts."""
    events: int
    seconds: float
    """The sum of all delays. An event that happened after its arrival counts as 0."""


def delays_in(events: Table, files: Sequence[DataFile]) -> RecordedDelays:
    """The delays of the events in some files of the log."""
    counts, count, seconds = np.zeros(len(BOUNDS) + 1, np.int64), 0, 0.0
    with events.explained():
        for rows in events.dataset(files, _TIMES).to_batches():
            happened, came = (micros(rows.column(name)) for name in _TIMES.names)
            delays = np.maximum(came - happened, 0)
            counts += np.bincount(np.searchsorted(_MICROS, delays), minlength=len(BOUNDS) + 1)
            count += len(delays)
            seconds += float(delays.sum(dtype=np.float64)) / 1e6
    return RecordedDelays(tuple(int(each) for each in counts[:-1].cumsum()), count, seconds)


# The fates of events


def read_history(
    store: Store, now: int, last: int, kept: int = KEPT + DAY
) -> Iterator[tuple[str, int, Sums]]:
    """The fates of events up to a batch, as far back as `kept`, by output and time."""
    publications, ledger = (store.own_table(table) for table in (store.publications, store.ledger))
    lately = f"p.output is null and p.batch <= {last} and p.published_at > {moment_literal(now - kept)}"
    received = ledger.query_rows(
        f"select t.output, {_STEP} as at, sum(t.received) as received, sum(t.side_output) as side_output "
        f"from t join p on t.batch = p.batch where t.unit = {text_literal(EVENTS)} and {lately} group by 1, 2",
        p=publications,
    )
    for row in received:
        yield row["output"], to_micros(row["at"]), Sums(int(row["received"]), int(row["side_output"]))
    times: dict[int, int] = {}
    for output in store.pipeline.outputs:
        for batch, timings in _corrections(store, output, last).items():
            times = times or publication_times(publications, lately)
            if batch in times:
                late, rebuilt = timings.get(Timing.LATE, 0), timings.get(Timing.CORRECTION, 0)
                yield output, times[batch], Sums(late_panes=late, rebuilt=rebuilt)


@dataclass
class _Known:
    """What was read of a table's complete batches, through which batch, and from which files."""

    table: Table
    through: int = -1
    files: frozenset[str] = frozenset()
    rows: dict[int, dict[str, int]] = field(default_factory=dict)


def _by_batch(store: Store, table: Table, last: int, figures: str, rows: str) -> dict[int, dict[str, int]]:
    """The figures (`batch, name, value` in SQL) of the rows that a condition keeps, for each batch up to a complete
    one. Only new batches are read: complete ones do not change, unless their files were removed."""
    known: _Known = store.remembered.setdefault(f"{table.root} {figures}", _Known(table))
    known.table.refresh()
    if not known.table.exists:
        return {}
    paths = frozenset(file.path for file in known.table.files())
    if known.files - paths or last < known.through:
        known.through, known.rows = -1, {}
    new = f"batch > {known.through} and batch <= {last}"
    for row in known.table.query_rows(f"select {figures} from t where {new} and {rows} group by 1, 2"):
        known.rows.setdefault(row["batch"], {})[row["name"]] = row["value"]
    known.through, known.files = last, paths
    return known.rows


def _corrections(store: Store, output: str, last: int) -> dict[int, dict[str, int]]:
    """How many late and rebuilt panes each batch up to a complete one has, by timing."""
    panes = Table(store.root / "outputs" / output / "panes", PANES)
    return _by_batch(store, panes, last, "batch, timing as name, count(*) as value", CORRECTED)


def watermarks_by_batch(store: Store, last: int) -> dict[int, int]:
    """The watermark with which each batch up to a complete one was published; drains are left out."""
    figures = "batch, 'watermark' as name, max(cast(watermark as bigint)) as value"
    ticks = f"kind <> 'drain' and watermark < {moment_literal(END_OF_TIME)}"
    marks = _by_batch(store, store.own_table(store.watermarks), last, figures, ticks)
    return {batch: row["watermark"] for batch, row in marks.items()}


def publication_times(publications: Table, lately: str = "p.output is null") -> dict[int, int]:
    """When batches were published, by batch."""
    rows = publications.query_rows(f"select batch, published_at from t as p where {lately}")
    return {row["batch"]: to_micros(row["published_at"]) for row in rows}


@dataclass
class RecentHours:
    """The last hours of a pipeline."""

    steps: list[WatermarkStep] = field(default_factory=list)
    """The values of the watermark, in order of time."""
    backfills: list[tuple[int, str]] = field(default_factory=list)
    """When batches of a backfill were published, and of which kind."""
    first_batch: int | None = None
    """When the first known batch was published."""


def read_recent(store: Store, since: int) -> RecentHours:
    """The watermark at and after a moment, and the backfills published with it."""
    publications, watermarks, recent = store.publications, store.watermarks, RecentHours()
    ends = publications.query_rows(
        "select min(published_at) as first, "
        f"max(batch) filter (where published_at <= {moment_literal(since)}) as before from t where output is null"
    )
    if not ends or ends[0]["first"] is None:
        return recent
    recent.first_batch, before = to_micros(ends[0]["first"]), ends[0]["before"]
    rows = watermarks.query_rows(
        "select p.published_at, t.batch, max(t.kind) as kind, max(t.watermark) as watermark, "
        "max(t.settled) as settled, bool_or(t.watermark is not null) as known from t join p on t.batch = p.batch "
        f"where p.output is null and t.batch >= {-1 if before is None else int(before)} "
        "group by 1, 2 order by 2",
        p=publications,
    )
    for row in rows:
        at = to_micros(row["published_at"])
        marks = [to_micros(row[name]) for name in ("watermark", "settled") if row[name] is not None]
        mark = max(marks, default=BEGIN_OF_TIME)
        drained = row["kind"] == "drain" or mark == END_OF_TIME
        recent.steps.append(WatermarkStep(at, None if drained or mark == BEGIN_OF_TIME else mark))
        if row["kind"] in ("rebuild", "repair"):
            recent.backfills.append((at, row["kind"]))
    return recent


def was_within(store: Store, budget: int) -> bool:
    """Whether the watermark was ever within its budget of lag when a batch was published."""
    times = publication_times(store.publications)
    marks = watermarks_by_batch(store, store.ledger.last_batch())
    lags = (lag(mark, times[batch]) for batch, mark in marks.items() if batch in times)
    return any(each is not None and each <= budget for each in lags)


def daily_lag(store: Store, since: int) -> dict[int, float]:
    """Seconds from the watermark to the wall clock when batches were published, on average, by day (UTC)."""
    times = publication_times(
        store.publications, f"p.output is null and p.published_at >= {moment_literal(since)}"
    )
    lags: dict[int, list[int]] = {}
    for batch, mark in watermarks_by_batch(store, store.ledger.last_batch()).items():
        if batch in times:
            lags.setdefault(times[batch] // DAY, []).append(times[batch] - mark)
    return {day: max(sum(each) / len(each), 0.0) / 1_000_000 for day, each in lags.items()}


def differences(store: Store) -> dict[tuple[str, str], Decimal]:
    """Received less all fates by output and unit, where it is not 0."""
    fates = " - ".join(FATE_COLUMNS)
    rows = store.ledger.query_rows(
        f"select output, unit, sum(received - {fates}) as difference from t where received <> "
        f"{' + '.join(FATE_COLUMNS)} group by 1, 2"
    )
    return {(row["output"], row["unit"]): row["difference"] for row in rows}
