"""Retention: whole batches are removed, the oldest first, and recorded before they are removed.

The age of events is measured by the watermark, that of the side output and of dead letters by the arrival clock; never
by the clock of the machine, so a pipeline that stands still loses nothing. Rows that a sink does not have yet are kept
(ADR 0031).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.lateness_checks import looks_back
from latecomer.config.sinks import Stream
from latecomer.engine.ledger.book import BatchAmounts, event_times, table_amounts, table_parts
from latecomer.engine.upkeep.file_merging import moment, without
from latecomer.errors import LedgerError
from latecomer.log.timeline.keeper import reached_watermark
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS, exact_amounts
from latecomer.model.ledger import EVENTS as ROWS
from latecomer.model.verdicts import END_OF_TIME
from latecomer.sink.keeper import still_wanted
from latecomer.store.coverage import (
    DEAD_LETTERS,
    DUPLICATES,
    EVENTS,
    LATE,
    LEDGER,
    REMOVALS,
    kind_of_removal,
    removals,
    removed_until,
)
from latecomer.store.delta.data_files import DataFile, batch_of, batches_of, is_merged
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import failpoint
from latecomer.store.layout import FATE_COLUMNS, PaneLayout
from latecomer.store.sql import text_literal
from latecomer.store.store import OutputTables, Store, as_received_sql


@dataclass(frozen=True)
class Removal:
    """Batches that are to be removed from a table: up to which one, and how much each has."""

    table: str
    output: str | None
    until: int
    amounts: Sequence[Mapping[str, Any]]
    """Rows for the table `removals`, without the moment of removal."""

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each table loses."""
        lost = Counter[str]()
        for row in self.amounts:
            if row["unit"] == ROWS and row["table"] != LEDGER:
                lost[row["table"]] += int(row["amount"])
        return lost


@dataclass(frozen=True)
class RetentionPlan:
    """What retention removes, and in words what it keeps though it is old enough."""

    removals: Sequence[Removal]
    notes: Sequence[str]


@exact_amounts()
def plan_retention(store: Store, last: int) -> RetentionPlan:
    """The batches that are old enough to be removed, up to the last complete one."""
    settings = store.pipeline.retention
    planned: list[Removal] = []
    notes: list[str] = []
    computed = _computed(store)
    missing = [name for name in store.pipeline.outputs if name not in computed]
    if settings.events is not None and missing:
        notes.append(f"events stay: output {missing[0]} is not computed yet; run the pipeline first")
    elif settings.events is not None and (wider := _needed(store, settings.events)):
        notes.append(f"events stay: output {wider} was run with a longer lateness; run the pipeline first")
    elif settings.events is not None:
        planned += _events(store, last, settings.events)
    if settings.late is not None:
        planned += _late(store, last, settings.late, notes)
    return RetentionPlan(planned, notes)


def record(store: Store, removal: Removal, now: datetime | None = None) -> None:
    """Record a removal. From now on its rows count as removed."""
    when = to_micros(now or datetime.now(UTC))
    rows = [{**row, "removed_at": when} for row in removal.amounts]
    table = pa.table(
        {each.name: pa.array([row.get(each.name) for row in rows], each.type) for each in REMOVALS}
    )
    removals(store).append(removal.until, table, kind_of_removal(removal.table, removal.output))
    failpoint(f"retention.{removal.table}.recorded", removal.until)


def remove(store: Store, table: str, output: str | None = None) -> None:
    """Remove the recorded rows from the tables that still have them."""
    until = removed_until(store, table, output)
    for name, each in _tables(store, table, output):
        each.refresh()
        old = [file for file in each.files() if batches_of(file)[0] <= until]
        if old:
            without(each, old, until)
            failpoint(f"retention.{name}.removed", until)


def _tables(store: Store, table: str, output: str | None) -> Iterator[tuple[str, Table]]:
    """The tables whose rows are removed together."""
    if table == EVENTS:
        yield EVENTS, store.events
        yield DUPLICATES, store.duplicates
    elif table == DEAD_LETTERS and output is not None:
        yield f"{output}.{DEAD_LETTERS}", output_tables(store, output).dead_letters
    elif table == DEAD_LETTERS:
        yield DEAD_LETTERS, store.dead_letters
    else:
        yield LATE, output_tables(store, output or "").late


def output_tables(store: Store, name: str) -> OutputTables:
    layout = PaneLayout(store.pipeline.outputs[name], store.layout)
    return store.output_tables(name, layout.published)


def _computed(store: Store) -> set[str]:
    # A store whose batches were all empty has no line for any output, and nothing to remove.
    return {row["output"] for row in store.ledger.query_rows("select distinct output from t")}


def _needed(store: Store, kept: int) -> str | None:
    """An output that was last run with a policy that may need older events than these."""
    for name in store.pipeline.outputs:
        for _, under in store.policies(name)[-1:]:
            if under.allowed_lateness + under.window.joinable_after + looks_back(under.window) > kept:
                return name
    return None


# Events: by the watermark


def _events(store: Store, last: int, kept: int) -> list[Removal]:
    horizon = _horizon(store, last, kept)
    done = removed_until(store, EVENTS)
    until = min(last, _first_since(store.events, horizon) - 1)
    if until <= done:
        return []
    columns = {measure: store.layout.view[measure] for measure in store.measures()}
    logged = table_amounts(store, store.events, columns, done, until)
    repeated = table_amounts(store, store.duplicates, columns, done, until)
    _agree(store, logged, repeated, done, until)
    newest = event_times(table_parts(store.events, ["batch", "event_time"], done, until), "max")
    amounts = [*_as_rows(EVENTS, None, logged, newest), *_as_rows(DUPLICATES, None, repeated)]
    return [Removal(EVENTS, None, until, [*amounts, *_fates(store, done, until)])] if amounts else []


def _fates(store: Store, after: int, until: int) -> Iterator[dict[str, Any]]:
    """The ledger's fates of the removed batches: their events cannot be judged again."""
    sums = ", ".join(f"sum({fate}) as {fate}" for fate in FATE_COLUMNS)
    rows = store.ledger.query(
        f"select output, unit, {sums} from t where batch > {after} and batch <= {until} group by output, unit"
    )
    for row in rows.to_pylist():
        place = {"batch": until, "table": LEDGER, "output": row["output"], "unit": row["unit"]}
        yield from ({**place, "fate": fate, "amount": row[fate]} for fate in FATE_COLUMNS)


def _horizon(store: Store, last: int, kept: int) -> int:
    """The moment before which events are too old to keep, and no output needs them."""
    bounds = [to_micros(file.maximum["event_time"]) for file in store.events.files() if file.rows]
    newest = max(bounds, default=0)
    horizon = min(reached_watermark(store.watermarks, last) or 0, newest) - kept
    for name in store.pipeline.outputs:
        starts = [file.minimum.get("window_start") for file in output_tables(store, name).partials.files()]
        horizon = min([horizon, *(to_micros(start) for start in starts if start is not None)])
    return horizon


def _first_since(events: Table, horizon: int) -> int:
    """The first batch with an event at or after a moment."""
    first = END_OF_TIME
    for file in sorted(events.files(), key=lambda file: batches_of(file)[0]):
        if batches_of(file)[0] >= first:
            break
        if to_micros(file.maximum["event_time"]) >= horizon:
            first = min(first, _first_in(events, file, horizon))
    return first


def _first_in(events: Table, file: DataFile, horizon: int) -> int:
    if not is_merged(file):
        return batch_of(file)
    rows = events.dataset([file])
    later = rows.to_batches(columns=["batch"], filter=pc.field("event_time") >= moment(horizon))
    return min(int(pc.min(each.column(0)).as_py()) for each in later if each.num_rows)


# Side output and dead letters: by the arrival clock


def _late(store: Store, last: int, kept: int, notes: list[str]) -> Iterator[Removal]:
    old = _before(store, last, kept)
    done = removed_until(store, DEAD_LETTERS)
    until = _without_sinks(store, Stream.DEAD_LETTERS, None, old, notes)
    if until > done:
        counted = table_amounts(store, store.dead_letters, {}, done, until)
        # The measures of dead letters are in the ledger, which read them from the raw text.
        in_ledger = _ledger(store, done, until)
        for batch, sums in counted.items():
            wrong = in_ledger.get((batch, ROWS), {}).get("dead_letter")
            _require(wrong == sums[ROWS], batch, "dead letters", wrong, sums[ROWS])
            sums |= {unit: in_ledger[batch, unit]["dead_letter"] for unit in store.measures()}
        if counted:
            yield Removal(DEAD_LETTERS, None, until, list(_as_rows(DEAD_LETTERS, None, counted)))
    for name in store.pipeline.outputs:
        yield from _side_output(store, name, old, notes)
        done = removed_until(store, DEAD_LETTERS, name)
        failed = (
            table_amounts(store, output_tables(store, name).dead_letters, {}, done, old) if old > done else {}
        )
        if failed:
            yield Removal(DEAD_LETTERS, name, old, list(_as_rows(DEAD_LETTERS, name, failed)))


def _side_output(store: Store, name: str, old: int, notes: list[str]) -> Iterator[Removal]:
    late, done = output_tables(store, name).late, removed_until(store, LATE, name)
    corrections = Table(store.root / "outputs" / name / "corrections", pa.schema([]))
    until = min(old, corrections.last_batch())
    if until < old and any(done < batch_of(file) and batches_of(file)[0] <= old for file in late.files()):
        notes.append(
            f"the side output of {name} stays where it is not corrected yet: latecomer correct FILE {name}"
        )
    until = _without_sinks(store, Stream.LATE, name, until, notes)
    if until <= done:
        return
    stored = store.layout
    columns = {measure: stored.late_names[stored.view[measure]] for measure in store.measures()}
    counted = table_amounts(store, late, columns, done, until)
    in_ledger = _ledger(store, done, until, name)
    for batch, sums in counted.items():
        aside = in_ledger.get((batch, ASSIGNMENTS), {}).get("side_output")
        _require(aside == sums[ROWS], batch, f"rows in the side output of {name}", aside, sums[ROWS])
    if counted:
        yield Removal(LATE, name, until, list(_as_rows(LATE, name, counted)))


def _without_sinks(store: Store, stream: Stream, output: str | None, until: int, notes: list[str]) -> int:
    """The last batch, up to `until`, whose rows every sink has."""
    wanted = still_wanted(store, stream, output, until)
    if wanted is None:
        return until
    batch, sink = wanted
    what = "dead letters stay" if output is None else f"the side output of {output} stays"
    notes.append(f"{what} from batch {batch} on, which {sink} does not have yet: latecomer status FILE")
    return batch - 1


def _before(store: Store, last: int, kept: int) -> int:
    """The last batch that ended more than `kept` ago, by the arrival clock."""
    rows = store.watermarks.query_rows(
        f"select batch, max(at) as ended from t where batch <= {last} and at is not null group by batch"
    )
    ended = {row["batch"]: to_micros(row["ended"]) for row in rows}
    now = max(ended.values(), default=0)
    recent = [batch for batch, at in ended.items() if at >= now - kept]
    return min(recent, default=0) - 1


# Amounts


def _as_rows(
    table: str, output: str | None, sums: BatchAmounts, newest: Mapping[int, datetime] = MappingProxyType({})
) -> Iterator[dict[str, Any]]:
    for batch, amounts in sorted(sums.items()):
        place = {"batch": batch, "table": table, "output": output, "newest_event_time": newest.get(batch)}
        yield from ({**place, "unit": unit, "amount": amount} for unit, amount in amounts.items())


def _ledger(
    store: Store, after: int, until: int, output: str | None = None
) -> dict[tuple[int, str], dict[str, Decimal]]:
    """The ledger's lines of some batches, by batch and unit: of one output, or as the rows were received."""
    lines = f"output = {text_literal(output)}" if output else as_received_sql(store.ledger)
    rows = store.ledger.query(f"select * from t where batch > {after} and batch <= {until} and {lines}")
    return {(row["batch"], row["unit"]): row for row in rows.to_pylist()}


def _agree(store: Store, logged: BatchAmounts, repeated: BatchAmounts, after: int, until: int) -> None:
    """Refuse to remove rows that do not agree with the ledger: nobody could find out later what was lost."""
    for (batch, unit), in_ledger in _ledger(store, after, until).items():
        if unit == ASSIGNMENTS:
            continue
        events = in_ledger["received"] - in_ledger["duplicate"] - in_ledger["dead_letter"]
        has = logged.get(batch, {}).get(unit, Decimal(0))
        _require(events == has, batch, f"{unit} in the log", events, has)
        twice = repeated.get(batch, {}).get(unit, Decimal(0))
        _require(
            in_ledger["duplicate"] == twice, batch, f"{unit} of duplicates", in_ledger["duplicate"], twice
        )


def _require(agrees: bool, batch: int, what: str, in_ledger: Decimal | None, in_table: Decimal) -> None:
    if not agrees:
        raise LedgerError(
            f"batch {batch}: the ledger says {_plain(in_ledger)} {what}, the table has {_plain(in_table)}; nothing was "
            "removed. See what differs with latecomer ledger FILE --check"
        )


def _plain(amount: Decimal | None) -> str:
    return f"{(amount or Decimal(0)).normalize():f}"
