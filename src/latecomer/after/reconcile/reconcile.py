"""Results compared with another account of the same events, and the gap between them explained.

    results, source, accounts → one row for each window and key → equal, missing, extra, different

What the results lack may be in the side output, dropped by policy, in dead letters, or in windows that are still open.
Only the rest is unexplained.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.accounts import Accounts, Loose, Number, Span
from latecomer.after.reading.comparable_values import is_number, like, moments, plain, refused, together
from latecomer.after.reading.reader import Reader
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.gaps import KINDS, Gap, Reconciliation, Tolerance, less, total
from latecomer.after.replay.comparison import CHANGE, CHANGES, DIFFERENT, EQUAL, EXTRA, MISSING, largest_first
from latecomer.config.models import Pipeline
from latecomer.config.names import PRIVATE
from latecomer.errors import did_you_mean, other_settings
from latecomer.model.aggregates import RANDOMISED
from latecomer.model.types import scale_of
from latecomer.model.windows import FIRST_MOMENT, zone_of
from latecomer.store.definitions import definition_of
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, scratch
from latecomer.store.layout import TIMESTAMP
from latecomer.store.sql import double_quoted, listed
from latecomer.store.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
THEIRS = "_source"
"""The suffix of the source's numbers beside the results'."""
EXPLAINED = "explained"

_SIDE, _OURS, _BOOKS = f"{PRIVATE}side", f"{PRIVATE}ours", f"{PRIVATE}books"
_RESULTS, _SOURCE, _FIRST_ACCOUNT = 0, 1, 2
_PLACED = KINDS[:3]
"""The accounts that know the window and key of an amount."""


def reconcile(
    pipeline: Pipeline,
    output: str,
    against: Against,
    *,
    tolerance: Tolerance | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    zone: str | None = None,
    spark: SparkSession | None = None,
) -> Reconciliation:
    """Compare an output's results with another account of them.

    `since` and `until` keep the windows that start from the one on and before the other. Dates of the
    source, and moments without an offset, are times of `zone`: that of the output's windows by default, and
    UTC where they have none. Only `log` may need Spark: yours, or a local one is started.
    """
    against.require_sense()
    span, store = Span(since, until), open_store(pipeline)
    last = store.ledger.last_batch()
    LOG.info("reading the results of %s", output)
    reader = Reader(pipeline)
    standing = span.of(reader.results(output))
    accounts, notes = Accounts(store, reader.book(output), span), []
    if accounts.book.tables.panes.last_batch() > last:
        notes.append("a batch is under way or was interrupted: its panes are there, its ledger is not")
    dropped, loose = pa.table({}), Loose(dict.fromkeys(accounts.additive, Decimal(0)))
    if against.is_log:
        from latecomer.after.reconcile.truth import truth

        theirs, dropped = truth(accounts, last, spark)
    else:
        theirs = against.rows()
        loose = accounts.dropped_in_ledger()
    LOG.info("comparing")
    books = {
        "side_output": accounts.side_output(),
        "dropped": span.of(dropped) if dropped.num_columns else dropped,
        "not_closed": accounts.not_closed(standing),
    }
    dead = Loose() if against.is_log else accounts.dead_letters()
    if open_store(pipeline).ledger.last_batch() != last:
        notes.append("the pipeline went on meanwhile: what came since may show as a gap; run it again")
    zone = zone or zone_of(accounts.book.output.window)
    with scratch("latecomer-reconcile-") as folder:
        sides = _Sides(accounts, against, tolerance or Tolerance(), zone, notes)
        sides.write(folder, standing, theirs, books)
        return sides.compared(loose, dead)


def _older_definition(accounts: Accounts) -> Iterator[str]:
    """Notes on windows that a rebuild under another definition has left as they were."""
    name, panes = accounts.book.name, accounts.book.tables.panes
    periods = accounts.store.policies(name)
    meanings = [definition_of(output) for _, output in periods]
    older = [nth for nth, meaning in enumerate(meanings) if meaning != meanings[-1]]
    if not older:
        return
    since, before = periods[older[-1] + 1][0], meanings[older[-1]]
    place = listed(accounts.book.place)
    newest = f"select max(batch) as newest from t where {accounts.span.sql()} group by {place}"
    rows = panes.query_rows(f"select count(*) as n from ({newest}) where newest < {since}")
    count = sum(row["n"] for row in rows)
    changed = [name for name, value in meanings[-1].items() if before.get(name) != value]
    if count:
        yield (
            f"windows and keys published before batch {since}, under {other_settings(changed)}, are "
            f"compared with what the output means now, {count} in all; latecomer rebuild apply FILE "
            f"{name} --from T brings them over"
        )


class _Sides:
    """All sides in one table: results, source and accounts, in types that can be compared. They are compared by window
    and key."""

    def __init__(
        self, accounts: Accounts, against: Against, tolerance: Tolerance, zone: str, notes: list[str]
    ) -> None:
        self.accounts, self.book = accounts, accounts.book
        self.against = against
        self.tolerance = tolerance
        self.zone = zone
        self.notes = notes
        self.sessions = accounts.book.output.window.merges

    def write(
        self, folder: Location, standing: pa.Table, theirs: pa.Table, books: Mapping[str, pa.Table]
    ) -> None:
        """Write all sides into a table."""
        self.values = self._values(theirs)
        self.additive = [name for name in self.values if name in self.accounts.additive]
        theirs = self._placed(theirs)
        self.place = [name for name in self.book.place if name in theirs.schema.names]
        parts = [standing, self.accounts.span.of(theirs), *(books[kind] for kind in _PLACED)]
        union = _union(parts, standing.schema, self.place, self.values, self.zone)
        self.table = Table(folder / "sides", union.schema)
        self.table.append(0, union)
        self._require_once()

    def _values(self, theirs: pa.Table) -> list[str]:
        """The aggregates that both sides have."""
        output, their_columns = self.book.output, theirs.schema.names
        known = [*self.book.place, *output.aggregates]
        for name in self.against.names.values():
            if name not in known:
                raise refused("map", "the output has no such column", name, did_you_mean(name, known))
        for name in ("window_start", *self.book.layout.keys):
            if name not in their_columns and not (name == "window_start" and output.window.endless):
                fix = f"give it, or say which column it is: --map COLUMN={name}; {_listing(their_columns)}"
                raise refused("against", f"has no column {name}", self.against.shown, fix)
        randomised = {
            name
            for name, each in output.aggregates.items()
            if self.against.is_log and each.function in RANDOMISED
        }
        values = [name for name in output.aggregates if name in their_columns and name not in randomised]
        if not values:
            fix = f"map one: --map COLUMN={next(iter(output.aggregates))}; {_listing(their_columns)}"
            raise refused("against", "has none of the output's aggregates", self.against.shown, fix)
        if left_out := [name for name in output.aggregates if name not in values]:
            reason = "drawn by lot" if set(left_out) <= randomised else "the source does not have it"
            self.notes.append(f"not compared: {', '.join(left_out)} ({reason})")
        return values

    def _placed(self, theirs: pa.Table) -> pa.Table:
        """The compared columns of the source's rows, with windows as moments."""
        known = (*self.book.place, *self.book.output.aggregates)
        theirs = pa.table({name: plain(theirs[name]) for name in known if name in theirs.schema.names})
        if "window_start" not in theirs.schema.names:
            starts = pa.repeat(pa.scalar(FIRST_MOMENT, TIMESTAMP), theirs.num_rows)
            theirs = theirs.append_column("window_start", starts)
        for name in ("window_start", "window_end"):
            if name in theirs.schema.names:
                column = moments(theirs[name], name, self.zone)
                if column.null_count:
                    message = f"is null in {column.null_count} of {len(column)} rows"
                    raise refused(f"column {name}", message, fix="leave such rows out of the source")
                theirs = theirs.set_column(theirs.schema.get_field_index(name), name, column)
        return theirs

    def _require_once(self) -> None:
        columns = listed(self.place)
        twice = self.table.query(
            f"select {columns}, count(*) as n from t where {_SIDE} = {_SOURCE} group by {columns} "
            f"having count(*) > 1 order by {columns} limit 1"
        ).to_pylist()
        if twice:
            texts = [each.isoformat() if isinstance(each, datetime) else each for each in twice[0].values()]
            where = ", ".join(f"{name} {text}" for name, text in zip(self.place, texts, strict=False))
            message = f"has {twice[0]['n']} rows for one window and key"
            raise refused("against", message, where, "group the source by window and key")

    def compared(self, dropped: Loose, dead: Loose) -> Reconciliation:
        """What equals and what does not, and how much of the rest is explained."""
        rows = self._different()
        judged = [self._judged(row) for batch in rows.to_batches() for row in batch.to_pylist()]
        changes = [change for change, _ in judged]
        counts = {change: changes.count(change) for change in CHANGES}
        places = self.table.query(f"select count(*) as n from ({self._grouped})")["n"][0].as_py()
        counts[EQUAL] += places - len(judged)
        differing = counts[MISSING] + counts[EXTRA] + counts[DIFFERENT]
        open_rows = [ok for change, ok in judged if change != EQUAL and not ok]
        gaps = self._gaps(rows, changes)
        loosely = bool(open_rows) and any(gap.unexplained for gap in gaps)
        if loosely:
            gaps = [_with_loose(gap, dropped, dead) for gap in gaps]
            self.notes += [*dropped.notes, *dead.notes]
        if differing and not self.additive:
            self.notes.append("only sums and counts can be explained, and none was compared")
        # An amount without a place explains one row at most.
        most = dropped.assignments + dead.assignments if loosely else 0
        placed = not open_rows or self.sessions or len(open_rows) <= most
        settled = not open_rows or all(  # the totals leave nothing unexplained
            self.tolerance.allows(less(gap.source or Decimal(0), gap.unexplained or 0), gap.source)
            for gap in gaps
            if gap.gap is not None
        )
        explained = not differing or (bool(self.additive) and placed and settled)
        if explained:  # in total: it is not known which row an amount without a window belongs to
            judged = [(change, ok or None) for change, ok in judged]
        shown = self._listed(rows, judged)
        notes = (*self.notes, *(_older_definition(self.accounts) if shown.num_rows else ()))
        return Reconciliation(
            self.book.name, self.against.shown, counts, shown, gaps, explained, notes, self._scales()
        )

    def _scales(self) -> dict[str, int]:
        scales = {name: scale_of(kind) for name, kind in self.book.layout.values.items()}
        return scales | {name + THEIRS: scale for name, scale in scales.items()}

    @cached_property
    def _grouped(self) -> str:
        sums = [
            f"sum(case when {_SIDE} = {side} then 1 else 0 end) as {name}"
            for side, name in ((_RESULTS, _OURS), (_SOURCE, f"{_OURS}{THEIRS}"))
        ]
        sums.append(f"sum(case when {_SIDE} >= {_FIRST_ACCOUNT} then 1 else 0 end) as {_BOOKS}")
        for name in self.values:
            for side, suffix in ((_RESULTS, ""), (_SOURCE, THEIRS)):
                sums.append(
                    f"max(case when {_SIDE} = {side} then {double_quoted(name)} end) "
                    f"as {double_quoted(name + suffix)}"
                )
        for name in self.additive:
            for side, kind in enumerate(_PLACED, _FIRST_ACCOUNT):
                sums.append(
                    f"sum(case when {_SIDE} = {side} then {double_quoted(name)} end) "
                    f"as {double_quoted(_account(kind, name))}"
                )
        place = listed(self.place)
        grouped = f"select {place}, {', '.join(sums)} from t group by {place}"
        return f"select * from ({grouped}) where {_OURS} + {_OURS}{THEIRS} > 0"

    def _different(self) -> pa.Table:
        """The windows and keys that are not the same to the last digit, the largest gap first."""
        same = [
            f"({double_quoted(name)} is not distinct from {double_quoted(name + THEIRS)})"
            for name in self.values
        ]
        order = [largest_first(name, name + THEIRS) for name in self.additive]
        order += map(double_quoted, self.place)
        rows = self.table.query(
            f"select * from ({self._grouped}) where {_OURS} <> {_OURS}{THEIRS} or not ({' and '.join(same)}) "
            f"order by {', '.join(order)}"
        )
        return pa.table({name: plain(rows[name]) for name in rows.schema.names})

    def _judged(self, row: Mapping[str, Any]) -> tuple[str, bool | None]:
        """What a row is, and whether the accounts explain it; None for sessions, whose windows move."""
        is_theirs = row[f"{_OURS}{THEIRS}"]
        if not is_theirs and self.book.output.emit_empty and not any(row[name] for name in self.values):
            # An empty window, published for a key that has had events: no source has a row for it.
            return EQUAL, True
        if not row[_OURS]:
            change = MISSING
        elif not is_theirs:
            change = EXTRA
        elif all(self._agrees(row[name], row[name + THEIRS]) for name in self.values):
            return EQUAL, True
        else:
            change = DIFFERENT
        return change, None if self.sessions else self._explained(row)

    def _explained(self, row: Mapping[str, Any]) -> bool:
        return bool(row[_BOOKS] and self.additive) and all(
            self._agrees(
                total([row[name], *(row[_account(kind, name)] for kind in _PLACED)]),
                row[name + THEIRS] or total([]),
            )
            for name in self.additive
        )

    def _agrees(self, ours: Any, theirs: Any) -> bool:
        if isinstance(ours, Decimal | float) or isinstance(theirs, Decimal | float):
            return self.tolerance.allows(ours, theirs)
        return bool(ours == theirs)

    def _gaps(self, rows: pa.Table, changes: Sequence[str]) -> list[Gap]:
        """Both totals of each aggregate, and the part of the accounts that belongs to unequal rows."""
        totals = self._totals()
        unequal = rows.filter(pa.array([change != EQUAL for change in changes], pa.bool_()))
        gaps = []
        for name in self.values:
            if name not in self.additive:
                gaps.append(Gap(name, None, None))
                continue
            known = {kind: total(unequal[_account(kind, name)].to_pylist()) for kind in _PLACED}
            if self.sessions and unequal.num_rows:
                known = {kind: totals[side][name] for side, kind in enumerate(_PLACED, _FIRST_ACCOUNT)}
            known["dead_letter"] = Decimal(0)
            gaps.append(Gap(name, totals[_RESULTS][name], totals[_SOURCE][name], known))
        return gaps

    def _totals(self) -> list[dict[str, Number]]:
        sums = [f"sum({double_quoted(name)}) as {double_quoted(name)}" for name in self.additive]
        rows = self.table.query(f"select {', '.join([_SIDE, *sums])} from t group by {_SIDE}").to_pylist()
        by_side = {row[_SIDE]: row for row in rows}
        return [
            {name: total([by_side.get(side, {}).get(name)]) for name in self.additive}
            for side in range(_FIRST_ACCOUNT + len(_PLACED))
        ]

    def _listed(self, rows: pa.Table, judged: Sequence[tuple[str, bool | None]]) -> pa.Table:
        """What is shown of the rows that are not equal."""
        pairs = [name for value in self.values for name in (value, value + THEIRS)]
        columns = {name: rows[name] for name in self.place}
        columns[CHANGE] = pa.array([change for change, _ in judged], pa.string())
        columns[EXPLAINED] = pa.array([ok for _, ok in judged], pa.bool_())
        columns |= {name: rows[name] for name in pairs}
        shown = pa.table(columns)
        return shown.filter(pc.not_equal(shown[CHANGE], EQUAL)) if shown.num_rows else shown


def _union(
    parts: Sequence[pa.Table], schema: pa.Schema, place: Sequence[str], values: Sequence[str], zone: str
) -> pa.Table:
    """Every side's rows one after the other, each column in one type."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in (*place, *values):
        kind = schema.field(name).type
        given = [
            part[name] if name in part.schema.names else pa.chunked_array([pa.nulls(part.num_rows, kind)])
            for part in parts
        ]
        adds_up = name in values and is_number(kind)
        whole = together(given, name) if adds_up else [like(column, kind, name, zone) for column in given]
        columns[name] = pa.chunked_array(
            [chunk for column in whole for chunk in column.chunks], whole[0].type
        )
    sides = [side for side, part in enumerate(parts) for _ in range(part.num_rows)]
    return pa.table({**columns, _SIDE: pa.array(sides, pa.int64())})


def _with_loose(gap: Gap, dropped: Loose, dead: Loose) -> Gap:
    """A gap with the amounts that are only known in total."""
    if gap.gap is None:
        return gap
    known = dict(gap.known)
    if dropped.assignments:
        known["dropped"] = dropped.amounts.get(gap.aggregate)
    known["dead_letter"] = dead.amounts.get(gap.aggregate, Decimal(0))
    return replace(gap, known=known)


def _account(kind: str, name: str) -> str:
    return f"{PRIVATE}account_{kind}_{name}"


def _listing(names: Sequence[str]) -> str:
    return f"it has {', '.join(names)}" if names else "it has no columns"
