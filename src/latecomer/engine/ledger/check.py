"""The ledger, recomputed from the log, the timeline and the panes and compared with the ledger as written. Each
difference is described in words."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property

from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.engine.ledger.book import event_times, repeated_amounts, table_amounts, table_parts
from latecomer.log.measures import amounts_of_letter
from latecomer.log.readable import ReadableLog
from latecomer.log.timeline.keeper import Section, TimelineKeeper
from latecomer.model.counting import counted
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, exact_amounts, total
from latecomer.model.panes import Accumulation, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.windows import FIRST_MOMENT, Session
from latecomer.spark.base import Runner
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import runner_for
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.coverage import (
    DEAD_LETTERS,
    DUPLICATES,
    LATE,
    covered_since,
    recorded_fates,
    removed_amounts,
    removed_until,
)
from latecomer.store.coverage import EVENTS as LOG
from latecomer.store.delta.table import Table
from latecomer.store.layout import FATE_COLUMNS
from latecomer.store.private_columns import EVENTS as PANE_EVENTS
from latecomer.store.private_columns import measure_column
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.recovery import require_unbroken, require_whole_tables
from latecomer.store.repairs import moved_letters
from latecomer.store.sql import double_quoted, moment_literal
from latecomer.store.standing import standing
from latecomer.store.state_types import beyond_column
from latecomer.store.store import Store, joining, open_store
from latecomer.windowing.firing.output import FiringBatch, OutputLogic
from latecomer.windowing.firing.session_output import output_logic
from latecomer.windowing.spark_columns import computed

LOGGER = logging.getLogger(__name__)

Tally = dict[tuple[int, str, str], Decimal]
"""Batch, unit, fate (or `received`) → amount."""


@explained("checking the ledger")
def check_ledger(
    pipeline: Pipeline, spark: SparkSession | None = None, notes: list[str] | None = None
) -> list[str]:
    """Every difference between the ledger and the tables, in words; an empty list if there is none.

    `notes` receives which lines could not be recomputed, because retention has removed the events.
    """
    store = open_store(pipeline)
    require_whole_tables(store.root)
    require_unbroken(store)
    last = store.last_complete_batch()
    store.require_definitions()
    session = when_needed(lambda: own_session(spark or build_session(pipeline.name)))
    check_predicates(session, store)
    runner = runner_for(store.events.rows(), session)
    with exact_amounts():
        return list(_Check(runner, store, last, [] if notes is None else notes).differences())


class _Check:
    def __init__(self, runner: Runner, store: Store, last: int, notes: list[str]) -> None:
        self.runner = runner
        self.store = store
        self.last = last
        self.notes = notes
        self.removed = removed_until(store, LOG)
        self.log = ReadableLog(runner, store)
        self.units = [EVENTS, *store.measures()]
        self.written = self._written()

    def differences(self) -> Iterable[str]:
        LOGGER.info("counting what was received in %d batches", self.last + 1)
        received = self._received()
        outputs = self.store.pipeline.outputs
        for nth, name in enumerate(outputs, start=1):
            # One step for both: a second one would be over before it is shown, and seem to be left out.
            LOGGER.info(
                "judging every event again and adding up the panes: output %s, %d of %d",
                name,
                nth,
                len(outputs),
            )
            output = output_logic(self.runner, self.store, name)
            written = self.written.get(name, {})
            # An event that was delivered twice before the output joined is a duplicate for it.
            joined = self.store.ledger.last_batch(joining(output.name))
            recomputed = {
                **self._with_repeated(received, joined, written),
                **self._fates(output, joined, written),
            }
            for batch, pairs in _pairs(recomputed).items():
                recomputed[batch, ASSIGNMENTS, "received"] = pairs
            yield from self._unbalanced(name, written)
            yield from self._as_recorded(name, written)
            yield from self._compare(name, written, recomputed, "the log and the timeline")
            yield from self._compare(name, written, self._side_output(output), "the side output")
            yield from self._compare(name, written, self._failed(output, written), "its dead letters")
            if output.tables.partials.last_batch() <= self.last:
                # Otherwise a batch was interrupted after its open states had replaced the earlier ones.
                yield from self._panes_hold(output, written)

    def _written(self) -> dict[str, Tally]:
        rows = self.store.ledger.query(f"select * from t where batch <= {self.last}")
        tallies: dict[str, Tally] = {}
        for row in rows.to_pylist():
            tally = tallies.setdefault(row["output"], {})
            for fate in ("received", *FATE_COLUMNS):
                tally[row["batch"], row["unit"], fate] = row[fate]
            if row["unit"] == EVENTS:
                noted = {note: row[note] for note in _NOTES if row[note] is not None}
                tally |= {(row["batch"], EVENTS, note): Decimal(count) for note, count in noted.items()}
        return tallies

    def _received(self) -> Tally:
        """The rows received, duplicates and dead letters of each batch, counted in the tables."""
        store, log = self.store, self.removed
        view = {measure: store.layout.view[measure] for measure in store.measures()}
        parts = {
            None: self._tally(store.events, view, log) | removed_amounts(store, LOG),
            Fate.DUPLICATE: self._tally(store.duplicates, view, log) | removed_amounts(store, DUPLICATES),
            Fate.DEAD_LETTER: self._letters() | removed_amounts(store, DEAD_LETTERS),
        }
        # Repaired dead letters are subtracted in the batch that accepted them.
        letters = parts[Fate.DEAD_LETTER]
        for moved, amount in moved_letters(store.repairs).items():
            if moved[0] <= self.last and moved[1] in self.units:
                letters[moved] = letters.get(moved, Decimal(0)) - amount
        tally: Tally = {}
        for fate, amounts in parts.items():
            for (batch, unit), amount in amounts.items():
                place = batch, unit, "received"
                tally[place] = tally.get(place, Decimal(0)) + amount
                if fate is not None:
                    tally[batch, unit, fate.value] = amount
        return _with_assignments(tally)

    def _letters(self) -> dict[tuple[int, str], Decimal]:
        """How many dead letters each batch has, and their measures, which are read from their raw text."""
        table, after = self.store.dead_letters, removed_until(self.store, DEAD_LETTERS)
        letters: dict[tuple[int, str], Decimal] = {}
        for part in table_parts(table, ["batch", "raw", "source_partition"], after, self.last):
            for row in part.to_pylist():
                letter = row["raw"], row["source_partition"]
                amounts = amounts_of_letter(*letter, self.store.pipeline, self.store.measures())
                for unit, amount in {EVENTS: Decimal(1), **amounts}.items():
                    place = row["batch"], unit
                    letters[place] = letters.get(place, Decimal(0)) + amount
        return letters

    def _with_repeated(self, received: Tally, joined: int, written: Tally) -> Tally:
        """What an output received that joined after batch `joined`."""
        if self.store.pipeline.event.id is None or joined < 0:
            return received
        tally, fate = dict(received), Fate.DUPLICATE.value
        if (repeated := self.log.repeated(joined)) is not None:
            logged, view = self.log.everything(through=self.last), self.store.layout.view
            for batch, amounts in repeated_amounts(logged, repeated, view, self.store.measures()).items():
                for unit, amount in amounts.items():
                    tally[batch, unit, fate] = tally.get((batch, unit, fate), Decimal(0)) + amount
        if self.removed >= 0:
            # The first copy may have been removed: then nobody can tell which events came twice.
            tally |= {
                place: amount for place, amount in written.items() if place[0] <= joined and place[2] == fate
            }
        return _with_assignments(tally)

    def _fates(self, output: OutputLogic, joined: int, written: Tally) -> Tally:
        """The fates of the logged events, judged again by the policy of their batch; those that cannot be judged again
        are copied from the ledger."""
        tally = self._judged_again(output, joined)
        deduplicated = joined if self.store.pipeline.event.id is not None else -1
        unknown = self.removed if self.removed < 0 else max(self.removed, deduplicated)
        batches = {batch for batch, _, _ in written if batch <= unknown}
        batches |= self._touched_by_removal(output, tally)
        if batches:
            self.notes.append(
                f"output {output.name}: the fates of {counted(len(batches), 'batch')} were not recomputed: retention "
                "has removed events that decided them"
            )
        judged = (*_JUDGED, *_NOTES)
        kept = {place: amount for place, amount in tally.items() if place[0] not in batches}
        return kept | {
            place: amount for place, amount in written.items() if place[0] in batches and place[2] in judged
        }

    def _touched_by_removal(self, output: OutputLogic, tally: Tally) -> set[int]:
        """The batches whose late events may have joined sessions of which events are no longer in the log.

        An event that is not behind the watermark is on time in any case. No event joins a session beyond the next
        multiple of `max`.
        """
        window, since = output.output.window, covered_since(self.store)
        if since is None or not isinstance(window, Session):
            return set()
        behind = {batch for (batch, _, note), count in tally.items() if note == "late_at_source" and count}
        if window.max is None:
            return behind
        beyond = -(-since // window.max) * window.max
        parts = self.log.everything(through=self.last).parts(["batch", "event_time"])
        earliest = event_times(parts, "min")
        return {batch for batch in behind if to_micros(earliest[batch]) < beyond}

    def _judged_again(self, output: OutputLogic, joined: int) -> Tally:
        periods = self.store.policies(output.name)
        outputs = [under for _, under in periods]
        repeated = self.log.repeated(joined)
        events = self.log.everything(self.removed, self.last)  # the next batch may be in the log already
        once = events if repeated is None else events.without(repeated)
        with computed(once, outputs, self.store.layout, self.runner, self.store.root) as seen:
            judged = output.fates_by_batch(FiringBatch(self.last, self.section, seen, history=True), periods)
        tally: Tally = {}
        for batch, counts in judged.items():
            for unit, fates in counts.fates.items():
                tally |= {(batch, unit, fate.value): amount for fate, amount in fates.items()}
            tally[batch, EVENTS, "late_at_source"] = Decimal(counts.late_at_source)
            tally[batch, EVENTS, "partly_late"] = Decimal(counts.partly_late)
        return tally

    def _side_output(self, output: OutputLogic) -> Tally:
        columns = output.layout.late_columns
        measures = {measure: columns[measure] for measure in self.store.measures()}
        removed = removed_until(self.store, LATE, output.name)
        counted = self._tally(output.tables.late, measures, removed)
        counted |= removed_amounts(self.store, LATE, output.name)
        # It has a row for each window that an event missed.
        pairs = {(batch, ASSIGNMENTS): amount for (batch, unit), amount in counted.items() if unit == EVENTS}
        amounts = {**counted, **pairs} if output.windows_each == 1 else pairs
        return {(batch, unit, Fate.SIDE_OUTPUT.value): amount for (batch, unit), amount in amounts.items()}

    def _failed(self, output: OutputLogic, written: Tally) -> Tally:
        """The dead letters of an output. Those that a rebuild has written again are in a batch without lines."""
        removed = removed_until(self.store, DEAD_LETTERS, output.name)
        counted = self._tally(output.tables.dead_letters, {}, removed)
        counted |= removed_amounts(self.store, DEAD_LETTERS, output.name)
        return {
            (batch, EVENTS, _FAILED): amount
            for (batch, unit), amount in counted.items()
            if unit == EVENTS and (batch, EVENTS, "received") in written
        }

    def _panes_hold(self, output: OutputLogic, written: Tally) -> Iterable[str]:
        """Check that the standing panes and the open windows hold exactly what was accepted."""
        columns = {ASSIGNMENTS: PANE_EVENTS}
        if output.windows_each == 1:  # otherwise a measure is in several panes, and in the ledger once
            columns |= {name: measure_column(name) for name in self.store.measures()}
        for unit, column in columns.items():
            accepted = total(
                amount
                for (_, each, fate), amount in written.items()
                if each == unit and fate in (Fate.ON_TIME.value, Fate.LATE_ACCEPTED.value)
            )
            held = self._standing(output, column)
            rebuilt = Rebuilds(self.store.root, output.name).taken_in(unit, self.last)
            if held != accepted + rebuilt:
                more = f", and rebuilds took in {rebuilt:f} more" if rebuilt else ""
                yield (
                    f"output {output.name}, {unit}: its panes and open windows hold {held:f}, "
                    f"the ledger says {accepted:f} were accepted{more}"
                )

    def _standing(self, output: OutputLogic, column: str) -> Decimal:
        """The sum over the standing panes and the open windows. An early pane is left out: its window is open, and
        counted there. Where panes hold only what was new (`discarding`), all are counted."""
        held = Decimal(0)
        place = ", ".join(map(double_quoted, ("window_start", "window_end", *output.layout.keys)))
        sign = "case when op = 'insert' then 1 else -1 end"
        # An early pane may be the last one of a window that has closed: then it stands for it.
        reached = self._watermark()
        open_ = "true" if reached <= FIRST_MOMENT else f"window_end > {moment_literal(reached)}"
        early = f"(timing = '{Timing.EARLY}' and {open_})"
        so_far = f"(select * from t where batch <= {self.last})"
        standing_panes = standing(so_far, place, also=f"not {early}")
        # A session that is not complete is in `partials` whole, with the panes that it will retract.
        back, states = f"case when op = 'insert' then 1 when {early} then 0 else -1 end", "t"
        if output.output.accumulation is Accumulation.DISCARDING:
            # Of a session that has not grown since its last pane, only what is new is there, and nothing is retracted.
            states = f"(select *, min(op) over (partition by {place}) = 'insert' as kept from t)"
            standing_panes, back = so_far[1:-1], "case when op = 'insert' then 1 when kept then 0 else -1 end"
        tables = {output.tables.partials: (back, states), output.tables.panes: (sign, f"({standing_panes})")}
        for table, (counts, rows) in tables.items():
            sums = table.query_rows(f"select sum({_exactly(table, column)} * {counts}) as s from {rows}")
            held += sum(Decimal(row["s"] or 0) for row in sums)
        return held

    @cached_property
    def keeper(self) -> TimelineKeeper:
        return TimelineKeeper(self.store.watermarks, self.store.pipeline.watermark)

    @cached_property
    def section(self) -> Section:
        return self.keeper.section(0, self.last)

    def _watermark(self) -> int:
        """Where the watermark stood after the last complete batch."""
        reached = self.keeper.reached(self.last)
        return BEGIN_OF_TIME if reached is None else reached.watermark

    def _unbalanced(self, name: str, written: Tally) -> Iterable[str]:
        for batch, unit, fate in written:
            if fate == "received":
                accounted = total(written[batch, unit, each] for each in FATE_COLUMNS)
                if accounted != written[batch, unit, fate]:
                    yield (
                        f"batch {batch}, output {name}, {unit}: received {written[batch, unit, fate]:f}, "
                        f"accounted for {accounted:f}"
                    )

    def _as_recorded(self, name: str, written: Tally) -> Iterable[str]:
        """Check that the ledger still has the fates that were recorded when retention removed the batches."""
        for (unit, fate), amount in recorded_fates(self.store, name).items():
            says = total(
                written[place] for place in written if place[0] <= self.removed and place[1:] == (unit, fate)
            )
            if says != amount:
                yield (
                    f"batches 0 to {self.removed}, output {name}, {unit}: the ledger says {fate} {says:f}, the "
                    f"record of what retention removed {amount:f}"
                )

    def _compare(self, name: str, written: Tally, recomputed: Tally, where: str) -> Iterable[str]:
        alone = _ALONE.get(where)
        fates = {fate for _, _, fate in recomputed} | (
            {"received", *FATE_COLUMNS, *_NOTES} if alone is None else {alone[1]}
        )
        units = {unit for _, unit, _ in recomputed} | (set() if alone is None else {alone[0]})
        places = {place for place in written if place[2] in fates and place[1] in units} | set(recomputed)
        for place in sorted(places):
            batch, unit, fate = place
            if fate in _NOTES and place not in written:  # the first versions did not write them
                continue
            says, has = (tally.get(place, Decimal(0)) for tally in (written, recomputed))
            if says != has:
                yield (
                    f"batch {batch}, output {name}, {unit}: the ledger says {fate} {says:f}, {where} {has:f}"
                )

    def _tally(
        self, table: Table, columns: Mapping[str, str], after: int = -1
    ) -> dict[tuple[int, str], Decimal]:
        """Batch and unit → amount, of the batches still in the table; `columns` has the column of each measure."""
        amounts = table_amounts(self.store, table, columns, after, self.last)
        return {(batch, unit): amount for batch, units in amounts.items() for unit, amount in units.items()}


def _with_assignments(tally: Tally) -> Tally:
    """The tally with assignments: a row that reached no output is one assignment."""
    return tally | {
        (batch, ASSIGNMENTS, fate): amount for (batch, unit, fate), amount in tally.items() if unit == EVENTS
    }


def _pairs(tally: Tally) -> dict[int, Decimal]:
    """The sum of the fates of each batch, in assignments."""
    pairs: dict[int, Decimal] = {}
    for (batch, unit, fate), amount in tally.items():
        if unit == ASSIGNMENTS and fate in FATE_COLUMNS:
            pairs[batch] = pairs.get(batch, Decimal(0)) + amount
    return pairs


_NOTES = ("partly_late", "late_at_source")
_FAILED = Fate.FAILED.value
_ALONE = {"the side output": (ASSIGNMENTS, Fate.SIDE_OUTPUT.value), "its dead letters": (EVENTS, _FAILED)}
"""Tables that hold one fate only, with its unit."""
_JUDGED = tuple(fate for fate in FATE_COLUMNS if fate not in (Fate.DUPLICATE.value, Fate.DEAD_LETTER.value))


def _exactly(table: Table, column: str) -> str:
    """A private sum in SQL, also where it is stored in two columns."""
    exact, beyond = double_quoted(column), beyond_column(column)
    if beyond not in table.columns:
        return exact
    return f"coalesce({double_quoted(beyond)}, arrow_cast({exact}, 'Decimal128(38, 0)'))"
