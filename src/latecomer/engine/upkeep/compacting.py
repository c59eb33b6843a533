"""`latecomer compact`: removes old rows (retention), merges small files, and deletes dead ones (sweeping).

The order is: what an earlier call left unfinished, retention, merging, sweeping. Every step can be killed; the next
call finishes it, or does it again. A call that has nothing to do changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from latecomer.config import checks
from latecomer.config.arguments import require_flags, require_moments, require_pipeline
from latecomer.config.models import Pipeline
from latecomer.config.operation import LEAST_KEEP
from latecomer.config.sizes import size_in_words
from latecomer.engine.upkeep.file_merging import Remnant, Remnants, merge, plan_merge, remnant, straddling
from latecomer.engine.upkeep.plan import Group, clustered, complete, final, joined
from latecomer.engine.upkeep.retention import Removal, output_tables, plan_retention, record, remove
from latecomer.engine.upkeep.sweeping import Safe, delete, sweep_inboxes, sweep_staging, swept
from latecomer.errors import PipelineError, Problem, StoreInUse
from latecomer.log.timeline.keeper import reached_watermark
from latecomer.model.counting import counted
from latecomer.model.durations import DURATION_FIX, UNITS, format_duration, parse_duration
from latecomer.store.coverage import DEAD_LETTERS, EVENTS, LATE, removals, removed_until
from latecomer.store.delta.commits import output_tables_in
from latecomer.store.delta.data_files import DataFile, batch_of
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, is_folder, size
from latecomer.store.holding.lock import BRIEFLY, COMPACT, LOCK, TABLE, exclusive, held_since
from latecomer.store.notes import write_note
from latecomer.store.private import keep_private
from latecomer.store.store import Store, open_store

LOG = logging.getLogger(__name__)
REMOVALS = "removals"
UPKEEP = "upkeep.json"
"""The note in a store of when its last upkeep was: a run that starts again counts from there."""


@dataclass(frozen=True)
class UpkeepNote:
    """A moment, in seconds since the epoch."""

    at: float
    done: bool
    """Whether upkeep was done then; if not, a run began to count there."""


@dataclass
class TableUpkeep:
    """The upkeep of one table: what was done, or would be done."""

    table: str
    files: int = 0
    files_after: int = 0
    bytes: int = 0
    bytes_after: int | None = 0
    """Not known before it is done."""
    rows_removed: int = 0
    swept_files: int = 0
    swept_bytes: int = 0
    merges: int = 0
    """Not shown: merging may change files without changing how many there are, or their size."""

    @property
    def touched(self) -> bool:
        return bool(
            self.files != self.files_after or self.rows_removed or self.swept_files or self.merges
        ) or (self.bytes != self.bytes_after)


@dataclass
class Report:
    """What a call did, table by table, or would do."""

    tables: dict[str, TableUpkeep] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> pa.Table:
        """One row for each table that was changed."""
        touched = self._touched()
        shown = [each.name for each in fields(TableUpkeep) if each.name != "merges"]
        kinds = {name: pa.string() if name == "table" else pa.int64() for name in shown}
        return pa.table(
            {name: pa.array([getattr(each, name) for each in touched], kind) for name, kind in kinds.items()}
        )

    def total(self, name: str) -> int:
        """The sum of a column of `rows`, or of a field that is not shown there."""
        return sum(getattr(each, name) or 0 for each in self._touched())

    def in_words(self, were: str) -> str:
        """The report in one sentence; `were` is "were", or "would be" for a dry run."""
        files, after = self.total("files"), self.total("files_after")
        text = (
            f"no files {were} merged"
            if files == after
            else f"{_done(files, 'file', were)} merged into {after:,}"
        )
        if removed := self.total("rows_removed"):
            text += f", {_done(removed, 'row', were)} removed by retention"
        if swept := self.total("swept_files"):
            size = size_in_words(self.total("swept_bytes"))
            text += f", {_done(swept, 'dead file', were)} deleted ({size})"
        return text

    def _touched(self) -> list[TableUpkeep]:
        return [each for each in self.tables.values() if each.touched]


def _done(count: int, what: str, were: str) -> str:
    return f"{counted(count, what)} {'was' if were == 'were' and count == 1 else were}"


def compact(
    pipeline: Pipeline,
    *,
    keep: str | timedelta | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Report:
    """Keep a store in shape: merge small files, delete dead ones, and remove what `retention` no longer keeps. The
    pipeline may run meanwhile.

    `keep` is how long replaced files stay, for readers that have them open: as long as the pipeline's `upkeep` says, or
    less. A `dry_run` reports what would be done.
    """
    require_pipeline("compact", pipeline)
    require_flags("compact", dry_run=dry_run)
    require_moments("compact", now=now)
    kept = pipeline.upkeep.keep if keep is None else _kept(keep, pipeline.upkeep.keep)
    if problems := checks.check(pipeline):
        raise PipelineError(problems)
    if not dry_run:
        keep_private(pipeline)
    store = open_store(pipeline)
    store.pins()
    last = store.last_complete_batch()
    with exclusive(store.root, COMPACT, BRIEFLY) if not dry_run else nullcontext():
        work = StoreUpkeep(store, last, dry_run, now or datetime.now(UTC), kept / UNITS["s"])
        for _ in work.steps():
            pass
        return work.report


def in_run(store: Store, last: int, now: datetime) -> Generator[Report]:
    """The same from within a run that remembers no earlier files. It goes step by step: after each one the store is
    whole, and the report so far is yielded."""
    with exclusive(store.root, COMPACT, BRIEFLY):
        keep = store.pipeline.upkeep.keep / UNITS["s"]
        work = StoreUpkeep(store, last, dry_run=False, now=now, keep=keep, beside_run=False)
        for _ in work.steps():
            yield work.report


def _kept(keep: str | timedelta, most: int) -> int:
    """A duration that is long enough, and no longer than the tables remember replaced files."""
    try:
        micros = parse_duration(keep)
    except ValueError:
        raise PipelineError([Problem("keep", "is not a duration", keep, DURATION_FIX, "compact")]) from None
    if micros < LEAST_KEEP:
        message = "is too short: a reader or a batch under way may still need what was replaced"
        fix = f"keep {format_duration(LEAST_KEEP)} or more"
        raise PipelineError([Problem("keep", message, keep, fix, "compact")])
    if micros > most:
        message = f"is longer than the tables of this store keep what was replaced: {format_duration(most)}"
        fix = f"set upkeep: {{keep: {format_duration(micros)}}} in the pipeline file, and run it"
        raise PipelineError([Problem("keep", message, keep, fix, "compact")])
    return micros


@dataclass(frozen=True)
class _Kept:
    """A table, and what upkeep may do to it."""

    name: str
    table: Table
    groups: Callable[[Sequence[DataFile]], list[Group]] = lambda _: []
    locked: Location | None = None
    """The folder that has to be locked while its files are merged."""
    lock: str = LOCK
    loses: tuple[str, str | None] | None = None
    """The table and output with whose batches retention removes those of this table."""
    by: str | None = None
    engine_remembers: bool = False
    """Whether a running engine may read files that the table had at its start, or at its last upkeep."""


class StoreUpkeep:
    """The upkeep of a store, in steps."""

    def __init__(
        self, store: Store, last: int, dry_run: bool, now: datetime, keep: float, beside_run: bool = True
    ) -> None:
        self.store = store
        self.last = last
        self.dry_run = dry_run
        self.now = now
        self.keep = keep
        self.beside_run = beside_run
        """Whether another process may run the pipeline and remember earlier files."""
        self.report = Report()
        self.removed: dict[tuple[str, str | None], int] = {}
        """The last batch that retention removes, of each table and output."""

    def steps(self) -> Iterator[None]:
        kept = list(self._tables())
        for each in kept:
            files = each.table.files()
            size = sum(file.size for file in files)
            self.report.tables[each.name] = TableUpkeep(each.name, len(files), len(files), size, size)
        self._retain()
        yield
        for nth, each in enumerate(kept, start=1):
            if self.beside_run:
                LOG.info("table %s, %d of %d", each.name, nth, len(kept))
            self._merge(each)
            yield
        for each in [*kept, *self._left_out(kept)]:
            self._sweep(each)
            yield
        if not self.dry_run:
            before = self.now.timestamp() - self.keep
            sweep_staging(self.store.root, before)
            if self.beside_run:
                sweep_inboxes(self.store, before)
            write_note(self.store.root / UPKEEP, UpkeepNote(self.now.timestamp(), done=True))

    def _tables(self) -> Iterator[_Kept]:
        """Every table, with how its files may be merged (ADR 0017 has the reasons)."""
        store, last = self.store, self.last

        def by_day(column: str) -> Callable[[Sequence[DataFile]], list[Group]]:
            return lambda files: clustered(complete(files, last), column)

        def in_order(files: Sequence[DataFile]) -> list[Group]:
            return joined(complete(files, last))

        time = "event_time"
        yield _Kept("events", store.events, by_day(time), loses=(EVENTS, None), by=time)
        yield _Kept("duplicates", store.duplicates, by_day(time), loses=(EVENTS, None), by=time)
        yield _Kept("dead_letters", store.dead_letters, in_order, loses=(DEAD_LETTERS, None))
        yield _Kept("repairs", store.repairs, in_order)
        yield _Kept("watermarks", store.watermarks, in_order, engine_remembers=True)
        yield _Kept("ledger", store.ledger, in_order, engine_remembers=True)
        yield _Kept("publications", store.publications, in_order, engine_remembers=True)
        yield _Kept(REMOVALS, removals(store), in_order)
        watermark = reached_watermark(store.watermarks, last) or 0
        for name in store.pipeline.outputs:
            root, tables = f"outputs/{name}", output_tables(store, name)
            policies = [store.pipeline.outputs[name], *(under for _, under in store.policies(name)[-1:])]
            reach = watermark - max(
                under.allowed_lateness + under.window.joinable_after for under in policies
            )

            def over(files: Sequence[DataFile], reach: int = reach) -> list[Group]:
                return clustered(final(complete(files, last), reach), "window_start")

            yield _Kept(f"{root}/panes", tables.panes, over, engine_remembers=True)
            yield _Kept(f"{root}/late", tables.late, in_order, loses=(LATE, name))
            yield _Kept(f"{root}/dead_letters", tables.dead_letters, in_order, loses=(DEAD_LETTERS, name))
            yield _Kept(f"{root}/partials", tables.partials, in_order, locked=store.root)
            corrections = store.root / root / "corrections"
            if is_folder(corrections):
                yield _Kept(
                    f"{root}/corrections", _plain(corrections), joined, locked=corrections, lock=TABLE
                )

    def _left_out(self, kept: Sequence[_Kept]) -> Iterator[_Kept]:
        """The tables of outputs that the pipeline file no longer has: they are swept, and not merged."""
        known = {each.name for each in kept}
        for table in output_tables_in(self.store.root):
            name = table.relative_to(self.store.root).as_posix()
            if name not in known:
                self.report.tables[name] = TableUpkeep(name)
                yield _Kept(name, _plain(table), engine_remembers=True)

    # Retention

    def _retain(self) -> None:
        if not self.dry_run:
            self._finish()
        plan = plan_retention(self.store, self.last)
        self.report.notes += plan.notes
        for removal in plan.removals:
            self._count(removal)
            self.removed[removal.table, removal.output] = removal.until
            if not self.dry_run:
                record(self.store, removal, self.now)
                remove(self.store, removal.table, removal.output)

    def _finish(self) -> None:
        """Remove what an earlier call recorded and did not remove."""
        remove(self.store, EVENTS)
        remove(self.store, DEAD_LETTERS)
        for name in self.store.pipeline.outputs:
            remove(self.store, LATE, name)
            remove(self.store, DEAD_LETTERS, name)

    def _count(self, removal: Removal) -> None:
        for table, rows in removal.rows.items():
            name = f"outputs/{removal.output}/{table}" if removal.output else table
            self.report.tables[name].rows_removed += rows

    # Merging

    def _merge(self, kept: _Kept) -> None:
        if self.dry_run:
            self._predict(kept)
            return
        table, counted = kept.table, self.report.tables[kept.name]
        try:
            with exclusive(kept.locked, kept.lock, BRIEFLY) if kept.locked else nullcontext():
                table.refresh()
                for group in kept.groups(table.files()):
                    planned = plan_merge(table, group)
                    if planned is not None:
                        merge(table, planned)
                        counted.merges += 1
        except StoreInUse:
            pass  # the process that has the lock merges them, or the next call does
        files = table.files()
        counted.files_after, counted.bytes_after = len(files), sum(file.size for file in files)

    def _predict(self, kept: _Kept) -> None:
        """The result of merging, by the same plan, without merging: rows that retention removes are not counted."""
        table, counted = kept.table, self.report.tables[kept.name]
        files, remnants = self._after_retention(kept)
        counted.files_after = len(files)
        if kept.locked is None or held_since(kept.locked, kept.lock) is None:
            every = (plan_merge(table, group, remnants) for group in kept.groups(files))
            plans = [planned for planned in every if planned is not None]
        else:
            plans = []
        counted.files_after -= sum(planned.spared for planned in plans)
        counted.merges = len(plans)
        if plans or files != table.files():
            counted.bytes_after = None

    def _after_retention(self, kept: _Kept) -> tuple[list[DataFile], Remnants]:
        """A table's files as they will be after retention, with the files that retention will have cut."""
        files, table = kept.table.files(), kept.table
        if kept.name == REMOVALS:
            records = [
                DataFile(f"data/{until:010d}-new{nth}/part.parquet", 1, 1)
                for nth, until in enumerate(self.removed.values())
            ]
            return [*files, *records], {}
        if kept.loses is None:
            return files, {}
        until = max(removed_until(self.store, *kept.loses), self.removed.get(kept.loses, -1))
        cut = {file.path: remnant(table, file, until, kept.by) for file in straddling(files, until)}
        stay = [cut.get(file.path, file) for file in files if batch_of(file) > until]
        remnants = {cut[file.path].path: Remnant(file, until) for file in files if file.path in cut}
        return stay, remnants

    # Sweeping

    def _sweep(self, kept: _Kept) -> None:
        table, counted = kept.table, self.report.tables[kept.name]
        if not table.exists:
            return
        running = held_since(self.store.root)
        before = self.now.timestamp() - min(self.keep, table.kept / UNITS["s"])
        if kept.engine_remembers and self.beside_run and running is not None and running < before:
            return  # the run deletes them itself
        safe = Safe(before, self.last if running is not None else None)
        files = swept(table, safe, self._started_from(table))
        counted.swept_files, counted.swept_bytes = len(files), sum(map(size, files))
        if not self.dry_run:
            delete(table, files)

    def _started_from(self, table: Table) -> list[DataFile]:
        """The open states that an incomplete batch has replaced: the batch may have to start again from them."""
        if table.root.name != "partials" or table.last_batch() <= self.last:
            return []
        return table.files_before(self.last + 1)


def _plain(root: Location) -> Table:
    """A table that is used for its files only, without a schema."""
    return Table(root, pa.schema([]))
