"""What the store says of its own past: what became of events and when, and where the watermark stood. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.durations import to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.panes import Op, Timing
from latecomer.model.publications import lag
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.observe.history import DAY, KEPT, STEP, Sums, WatermarkStep
from latecomer.store.data_files import DataFile
from latecomer.store.layout import FATE_COLUMNS
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.store import Store
from latecomer.store.table import Table

PANES = pa.schema([("batch", pa.int64()), ("timing", pa.string()), ("op", pa.string())])
"""What of a pane is needed to count it."""
_STEP = f"date_bin(interval '{STEP // 60_000_000} minutes', p.published_at)"
Add = Callable[[str, int, Sums], None]


def pane_counts(panes: Table, files: Sequence[DataFile], batch: int) -> dict[tuple[str, str], int]:
    """The panes of a batch by timing and op, from the files that it wrote: those may hold earlier ones too."""
    with panes.explained():
        rows = panes.dataset(files, PANES).to_table(filter=pc.field("batch") == batch)
    counted = rows.group_by(["timing", "op"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["timing"], row["op"]): row["count_all"] for row in counted}


def read_history(store: Store, now: int, last: int, add: Add, kept: int = KEPT + DAY) -> None:
    """Add up what became of events in the last four weeks, or as far back as asked for, up to a batch."""
    publications, ledger = (store.own_table(table) for table in (store.publications, store.ledger))
    if not publications.exists or not ledger.exists:
        return
    lately = f"p.output is null and p.batch <= {last} and p.published_at > {moment_literal(now - kept)}"
    received = ledger.query(
        f"select t.output, {_STEP} as at, sum(t.received) as received, sum(t.side_output) as side_output "
        f"from t join p on t.batch = p.batch where t.unit = {text_literal(EVENTS)} and {lately} group by 1, 2",
        p=publications,
    )
    for row in received.to_pylist():
        add(row["output"], to_micros(row["at"]), Sums(int(row["received"]), int(row["side_output"])))
    times: dict[int, int] = {}
    for output in store.pipeline.outputs:
        for batch, timings in _corrections(store, output, last).items():
            times = times or _times(publications, lately)
            if batch in times:
                late, rebuilt = timings.get(Timing.LATE, 0), timings.get(Timing.CORRECTION, 0)
                add(output, times[batch], Sums(late_panes=late, rebuilt=rebuilt))


@dataclass
class _Known:
    """What is known of a table's complete batches, up to one of them; and the files in which it was found."""

    table: Table
    through: int = -1
    files: frozenset[str] = frozenset()
    rows: dict[int, dict[str, int]] = field(default_factory=dict)


def _by_batch(store: Store, table: Table, last: int, figures: str, rows: str) -> dict[int, dict[str, int]]:
    """Figures of each batch up to a complete one: `batch, name, value` in SQL, of rows that a condition keeps. Only
    batches that are not known yet are read: complete ones stay as they are, unless their files went."""
    known: _Known = store.remembered.setdefault(f"{table.root} {figures}", _Known(table))
    known.table.refresh()
    if not known.table.exists:
        return {}
    paths = frozenset(file.path for file in known.table.files())
    if known.files - paths or last < known.through:
        known.through, known.rows = -1, {}
    new = f"batch > {known.through} and batch <= {last}"
    found = known.table.query(f"select {figures} from t where {new} and {rows} group by 1, 2")
    for row in found.to_pylist():
        known.rows.setdefault(row["batch"], {})[row["name"]] = row["value"]
    known.through, known.files = last, paths
    return known.rows


def _corrections(store: Store, output: str, last: int) -> dict[int, dict[str, int]]:
    """Late and rebuilt panes of each batch up to a complete one, by timing."""
    panes = Table(store.root / "outputs" / output / "panes", PANES)
    late, rebuilt = text_literal(Timing.LATE), text_literal(Timing.CORRECTION)
    corrected = f"timing in ({late}, {rebuilt}) and op = {text_literal(Op.INSERT)}"
    return _by_batch(store, panes, last, "batch, timing as name, count(*) as value", corrected)


def watermarks_by_batch(store: Store, last: int) -> dict[int, int]:
    """The watermark that each batch up to a complete one was published with; of one that a drain ended, none."""
    figures = "batch, 'watermark' as name, max(cast(watermark as bigint)) as value"
    ticks = f"kind <> 'drain' and watermark < {moment_literal(END_OF_TIME)}"
    found = _by_batch(store, store.own_table(store.watermarks), last, figures, ticks)
    return {batch: row["watermark"] for batch, row in found.items()}


def _times(publications: Table, lately: str = "p.output is null") -> dict[int, int]:
    """When batches were published, by batch."""
    rows = publications.query(f"select batch, published_at from t as p where {lately}").to_pylist()
    return {row["batch"]: to_micros(row["published_at"]) for row in rows}


@dataclass
class Recent:
    """The last hours of a store."""

    steps: list[WatermarkStep] = field(default_factory=list)
    """Where the watermark stood, from when on."""
    backfills: list[tuple[int, str]] = field(default_factory=list)
    """When batches of a backfill were published, and of which kind."""
    first_batch: int | None = None
    """When the first batch was published that is known."""


def read_recent(store: Store, since: int) -> Recent:
    """Where the watermark stood since a moment, and before it; and which backfills there were."""
    publications, watermarks, recent = store.publications, store.watermarks, Recent()
    if not publications.exists or not watermarks.exists:
        return recent
    ends = publications.query(
        "select min(published_at) as first, "
        f"max(batch) filter (where published_at <= {moment_literal(since)}) as before from t where output is null"
    ).to_pylist()[0]
    if ends["first"] is None:
        return recent
    recent.first_batch = to_micros(ends["first"])
    rows = watermarks.query(
        "select p.published_at, t.batch, max(t.kind) as kind, max(t.watermark) as watermark, "
        "max(t.settled) as settled, bool_or(t.watermark is not null) as known from t join p on t.batch = p.batch "
        f"where p.output is null and t.batch >= {-1 if ends['before'] is None else int(ends['before'])} "
        "group by 1, 2 order by 2",
        p=publications,
    )
    for row in rows.to_pylist():
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
    times = _times(store.publications)
    marks = watermarks_by_batch(store, store.ledger.last_batch())
    lags = (lag(mark, times[batch]) for batch, mark in marks.items() if batch in times)
    return any(each is not None and each <= budget for each in lags)


def daily_lag(store: Store, since: int) -> dict[int, float]:
    """Seconds from the watermark to the wall clock when batches were published, on average, by day (UTC)."""
    if not store.publications.exists:
        return {}
    times = _times(store.publications, f"p.output is null and p.published_at >= {moment_literal(since)}")
    lags: dict[int, list[int]] = {}
    for batch, mark in watermarks_by_batch(store, store.ledger.last_batch()).items():
        if batch in times:
            lags.setdefault(times[batch] // DAY, []).append(times[batch] - mark)
    return {day: max(sum(each) / len(each), 0.0) / 1_000_000 for day, each in lags.items()}


def differences(store: Store) -> dict[tuple[str, str], Decimal]:
    """Received less all fates by output and unit, wherever it is not nothing."""
    if not store.ledger.exists:
        return {}
    fates = " - ".join(FATE_COLUMNS)
    rows = store.ledger.query(
        f"select output, unit, sum(received - {fates}) as difference from t where received <> "
        f"{' + '.join(FATE_COLUMNS)} group by 1, 2"
    )
    return {(row["output"], row["unit"]): row["difference"] for row in rows.to_pylist()}
