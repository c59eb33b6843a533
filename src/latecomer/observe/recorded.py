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
from latecomer.store.layout import FATE_COLUMNS
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.store import Store
from latecomer.store.table import DataFile, Table

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
    """Add up what became of events in the last four weeks, or as far back as said, up to a batch."""
    publications = Table(store.publications.root, store.publications.schema)
    ledger = Table(store.ledger.root, store.ledger.schema)
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
    for output in store.pipeline.outputs:
        panes = Table(store.root / "outputs" / output / "panes", PANES)
        if panes.exists:
            _read_corrections(panes, publications, output, lately, add)


def _read_corrections(panes: Table, publications: Table, output: str, lately: str, add: Add) -> None:
    late, rebuilt = text_literal(Timing.LATE), text_literal(Timing.CORRECTION)
    found = panes.query(
        f"select {_STEP} as at, t.timing, count(*) as panes from t join p on t.batch = p.batch "
        f"where t.timing in ({late}, {rebuilt}) and t.op = {text_literal(Op.INSERT)} and {lately} group by 1, 2",
        p=publications,
    )
    for row in found.to_pylist():
        is_late = row["timing"] == Timing.LATE
        sums = Sums(late_panes=row["panes"]) if is_late else Sums(rebuilt=row["panes"])
        add(output, to_micros(row["at"]), sums)


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
    rows = store.watermarks.query(
        "select p.published_at, max(t.watermark) as watermark from t join p on t.batch = p.batch "
        "where p.output is null and t.watermark is not null and t.kind <> 'drain' group by 1",
        p=store.publications,
    )
    lags = (lag(to_micros(row["watermark"]), to_micros(row["published_at"])) for row in rows.to_pylist())
    return any(each is not None and each <= budget for each in lags)


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
