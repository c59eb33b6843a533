"""Replay of dead letters: chosen ones are repaired by a fix, and become events in a batch of their own.

    pick → correct texts → try → a plan, written down → the engine takes it in

A letter that is still no event stays a dead letter. Where no letter changes, there is no batch.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from latecomer.after.checked_store import checked_store
from latecomer.after.letters.choosing import Choice, chosen_source, mistakes_in, picked, records_of
from latecomer.config.arguments import require_kind
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import accept_repair, require_whole_log
from latecomer.engine.starting import start_engine
from latecomer.errors import PipelineError, StoreInUse
from latecomer.log.events import EventLog
from latecomer.log.measures import amounts_of_letter
from latecomer.log.private_columns import RAW, REASON
from latecomer.log.repairs import RepairLog
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.counting import counted
from latecomer.model.dead_letters import UNREADABLE
from latecomer.model.durations import to_micros
from latecomer.model.ledger import Entry
from latecomer.model.timeline import Timeline
from latecomer.source.decode.detail import Explainer
from latecomer.source.fixes import Fix, empty_texts
from latecomer.source.private_columns import FORM, MISFIT, NUMBER
from latecomer.source.repaired import RepairSlice
from latecomer.spark.base import InProcess
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import SparkRunner
from latecomer.spark.session import build_session, own_session
from latecomer.store.files import Location, log_file, scratch, write_table
from latecomer.store.holding.lock import holder_of, require_writable
from latecomer.store.layout import DEAD_LETTERS, REPAIRS
from latecomer.store.recovery import held_for_run
from latecomer.store.repairs import FILED_AS, FOLDER, Repair, kept_repair, standing_letters
from latecomer.store.store import Store, open_store

LOG = logging.getLogger(__name__)
STILL_DEAD = pa.schema(
    [DEAD_LETTERS.field(name) for name in ("batch", "origin", "position", "reason", "detail", "raw")]
)


@dataclass(frozen=True)
class ReplayedLetters:
    """What became of the chosen dead letters, or would become of them."""

    picked: int
    events: int
    """How many the fix makes into events. Once they are taken in, some of these may be duplicates."""
    still_dead: pa.Table
    """Those that stay dead letters: batch, origin, position, the newest reason, detail and raw."""
    batch: int | None
    """The batch that took them in, or that has their new reasons alone; None where nothing was changed."""
    entries: Sequence[Entry] = ()
    """The lines of the ledger for that batch."""
    completed: int | None = None
    """The batch of a replay that had been interrupted, and was completed first."""

    @property
    def problems(self) -> dict[str, int]:
        """Reason → how many stay dead letters for it."""
        return dict(Counter(self.still_dead["reason"].to_pylist()))


@explained("replaying dead letters")
def replay_letters(
    pipeline: Pipeline,
    choice: Choice,
    fix: Fix,
    *,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    place: str = "replay_dead_letters()",
) -> ReplayedLetters:
    """Replay the dead letters that are chosen; with `dry_run` nothing is changed, and a run may be at work.

    `place` is where choice and fix were given, for errors.
    """
    require_kind(
        "replay_dead_letters", (SparkSession, type(None)), "a SparkSession, or leave it out", spark=spark
    )
    store = checked_store(pipeline)
    store.pins()
    with mistakes_in(place):
        choice.check()
        source = chosen_source(store, choice)
        if problems := [*fix.mistakes(pipeline.views[source], store.columns.read_from(source))]:
            raise PipelineError(problems)
    if kept_repair(store.root) is None and not standing_letters(store).num_rows:
        return ReplayedLetters(0, 0, STILL_DEAD.empty_table(), None)
    with scratch("latecomer-letters-") as folder:
        if dry_run:
            session = _session(store, source, spark, choice, fix, place)
            timeline = TimelineKeeper(store.watermarks, pipeline.watermark).timeline
            with mistakes_in(place):
                log = EventLog(InProcess(session), store)
                return _Trial(log, source, timeline, choice, fix, folder).report()
        require_writable(store.root)
        with _held(store):
            session = _session(store, source, spark, choice, fix, place)
            reports: list[BatchReport] = []
            with closing(Engine(SparkRunner(session), open_store(pipeline), reports.append)) as engine:
                start_engine(engine)
                require_whole_log(engine, "replay of dead letters")
                with mistakes_in(place):
                    trial = _Trial(engine.log, source, engine.keeper.timeline, choice, fix, folder)
                completed = next((report.batch for report in reports if report.kind == "repair"), None)
                replayed = replace(trial.report(), completed=completed)
                if trial.changes:
                    accept_repair(engine, trial.keep(engine.last + 1))
                    replayed = replace(replayed, batch=engine.last, entries=reports[-1].entries)
                engine.finish()
                return replayed


def _session(
    store: Store, source: str, spark: SparkSession | None, choice: Choice, fix: Fix, place: str
) -> SparkSession:
    pipeline = store.pipeline
    session = own_session(spark or build_session(pipeline.name, log_file(store.root, "letters.log")))
    check_predicates(session, store)
    with mistakes_in(place):
        choice.check_on(session)
        columns = store.columns.read_from(source)
        fix.check(empty_texts(session, columns), pipeline.views[source], columns)
    return session


@contextmanager
def _held(store: Store) -> Iterator[None]:
    try:
        with held_for_run(store.root):
            yield
    except StoreInUse:
        holder = holder_of(store.root)
        who = f" ({holder[0]})" if holder else ""
        raise StoreInUse(
            f"a pipeline is running on store {store.root}{who}, and dead letters are replayed between two runs; stop "
            "it first (kill -INT), or see what a replay would do with --dry-run"
        ) from None


Outcome = tuple[str, str | None] | None
"""The reason and detail that a letter has now; None where it is an event."""


class _Trial:
    """The chosen dead letters, and what the fix makes of them. `folder` is for temporary files."""

    def __init__(
        self, log: EventLog, source: str, timeline: Timeline, choice: Choice, fix: Fix, folder: Location
    ) -> None:
        self.store = log.store
        self.source = source
        self.fix = fix
        self.log = RepairLog(log, fix, self.source)
        self.folder = folder
        self.picked = picked(log.store, choice, self.source, log.runner.spark, folder)
        count = self.picked.letters.num_rows
        LOG.info("trying %s", counted(count, "dead letter"))
        self.records = records_of(log.store, self.source, self.picked)
        arrivals = [to_micros(at) for at in self.picked.letters["arrival_time"].to_pylist() if at is not None]
        # The arrival clock. Dead letters do not move it, but may have come later.
        self.arrival = max([timeline.last_at, *arrivals])
        self.outcome = self._tried(timeline)

    @property
    def changes(self) -> bool:
        """Whether a letter becomes an event, or has another reason."""
        letters = self.picked.letters
        before = zip(letters["reason"].to_pylist(), letters["detail"].to_pylist(), strict=True)
        return any(now != then for now, then in zip(self.outcome, before, strict=True))

    def report(self) -> ReplayedLetters:
        letters = self.picked.letters
        dead = [(number, *outcome) for number, outcome in enumerate(self.outcome) if outcome is not None]
        still = letters.take(pa.array([number for number, _, _ in dead], pa.int64()))
        columns = {
            "reason": [reason for _, reason, _ in dead],
            "detail": [self.records.lost.get(number, detail) for number, _, detail in dead],
        }
        for name, values in columns.items():
            still = still.set_column(still.schema.get_field_index(name), name, pa.array(values, pa.string()))
        rows = still.select(STILL_DEAD.names).cast(STILL_DEAD)
        return ReplayedLetters(letters.num_rows, letters.num_rows - len(dead), rows, None)

    def keep(self, batch: int) -> Repair:
        """Write the plan of the replay, with its batch."""
        events = {number for number, outcome in enumerate(self.outcome) if outcome is None}
        records = self.records.rows
        chosen = records.filter(pc.is_in(records[NUMBER], pa.array(sorted(events), pa.int64())))
        forms = [form.written() for form in self.records.forms]
        fix, folder = self.fix.written(), self.store.root / FOLDER
        repair = Repair(folder, batch, self.arrival, fix, forms, self.source)
        repair.keep(chosen, self._rows(batch))
        return repair

    def _tried(self, timeline: Timeline) -> list[Outcome]:
        letters = self.picked.letters
        known = zip(letters["reason"].to_pylist(), letters["detail"].to_pylist(), strict=True)
        outcome: list[Outcome] = [
            each if number in self.records.lost else (UNREADABLE, "its text is blank")
            for number, each in enumerate(known)
        ]
        rows = self.records.rows
        if not rows.num_rows:
            return outcome
        letters = write_table(rows, self.folder / "letters.parquet")
        slice_ = RepairSlice(self.arrival, letters, self.records.forms, source=self.source)
        forms = dict(zip(rows[NUMBER].to_pylist(), rows[FORM].to_pylist(), strict=True))
        explainers = self._explainers()
        for number in forms:
            outcome[number] = None
        for row in self.log.tried(slice_, timeline).to_pylist():
            number, reason = row[NUMBER], row[REASON]
            form, raw, detail = forms[number], bytes(row[RAW]), row[MISFIT]
            try:
                detail = detail or explainers[form].detail(
                    reason, raw.decode(), self.records.forms[form].header
                )
            except UnicodeDecodeError:
                detail = explainers[form].undecodable(raw, "utf-8")
            outcome[number] = reason, detail
        return outcome

    def _explainers(self) -> list[Explainer]:
        """For each form, what explains why a record is dead."""
        pipeline = self.store.pipeline.views[self.source]
        read = self.store.columns.read_from(self.source)
        columns = {pipeline.source_name(column): kind for column, kind in read.items()}
        wrong = self.fix.not_read
        return [Explainer(pipeline, columns, form.kind == "json", wrong) for form in self.records.forms]

    def _rows(self, batch: int) -> pa.Table:
        """The outcome as rows of `repairs`."""
        letters, count = self.picked.letters, self.picked.letters.num_rows
        amounts = self._amounts()
        reasons = [outcome or (None, None) for outcome in self.outcome]
        columns = {
            "batch": [batch] * count,
            "letter_batch": letters["batch"].to_pylist(),
            "letter_reason": letters[FILED_AS].to_pylist(),
            "origin": letters["origin"].to_pylist(),
            "position": letters["position"].to_pylist(),
            "first_arrival_time": letters["arrival_time"].to_pylist(),
            "repaired": [outcome is None for outcome in self.outcome],
            "reason": [reason for reason, _ in reasons],
            "detail": [detail for _, detail in reasons],
            "amounts": [
                amounts.get(number, []) if outcome is None else []
                for number, outcome in enumerate(self.outcome)
            ],
        }
        return pa.table(
            {name: pa.array(values, REPAIRS.field(name).type) for name, values in columns.items()}
        )

    def _amounts(self) -> dict[int, list[dict[str, Any]]]:
        """The amounts that the ledger counted for each letter."""
        if not self.store.measures():
            return {}
        measures = list(self.store.measures())
        letters = self.picked.letters
        rows = zip(letters["raw"].to_pylist(), letters["source_partition"].to_pylist(), strict=True)
        return {
            number: [
                {"unit": unit, "amount": amount}
                for unit, amount in amounts_of_letter(*row, self.store.pipeline, measures).items()
            ]
            for number, row in enumerate(rows)
        }
