"""Two stores compared: panes, results, side output and ledger lines that are in one and not in the other.

Nothing here needs Spark. Rows that agree are counted, rows that do not are listed, the largest
difference first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa

from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.model.aggregates import RANDOMISED
from latecomer.model.ledger import difference
from latecomer.model.panes import Accumulation
from latecomer.store.coverage import LATE, removed_until
from latecomer.store.delta.table import Table, with_empty_ones
from latecomer.store.layout import AMOUNT, FATE_COLUMNS, LEDGER, UNIT_ORDER, PaneLayout
from latecomer.store.sql import double_quoted, listed, text_literal
from latecomer.store.standing import not_taken_back, standing
from latecomer.store.store import OutputTables, Store

EQUAL, DIFFERENT, MISSING, EXTRA = CHANGES = ("equal", "different", "missing", "extra")
"""How a row compares: missing ones are only in the store, extra ones only in the replay."""
CAME_LATER = frozenset({"is_last", "partly_late", "late_at_source"})
"""Columns that the first versions did not write: null agrees with anything."""
CHANGE, REPLAYED = "change", "_replayed"
CLOSE = 1e-9
"""Floating point numbers that differ by no more than this share are equal: the order of adding them may differ."""
COMPARED = ("panes", "results", "late", "ledger")
FATES = pa.schema(
    [
        *((name, pa.string()) for name in ("output", "unit", "fate")),
        *((name, AMOUNT) for name in ("stored", "replayed", "difference")),
    ]
)

_STORED, _NEW = f"{PRIVATE}stored_rows", f"{PRIVATE}new"


@dataclass(frozen=True)
class Difference:
    """How many rows agree or not, and those that do not."""

    counts: Mapping[str, int]
    rows: pa.Table

    @property
    def equal(self) -> bool:
        return all(not self.counts[change] for change in CHANGES if change != EQUAL)


@dataclass(frozen=True)
class Side:
    """One of the two stores, as far as it is compared."""

    store: Store
    last: int

    def layout(self, output: str) -> PaneLayout:
        return PaneLayout(self.store.pipeline.outputs[output], self.store.layout)

    def tables(self, output: str) -> OutputTables:
        return self.store.output_tables(output, self.layout(output).published)


@dataclass(frozen=True)
class OutputComparison:
    """One output in both stores: its panes, the numbers that stand, its side output, its ledger lines."""

    panes: Difference
    results: Difference
    late: Difference
    ledger: Difference

    @property
    def equal(self) -> bool:
        return all(getattr(self, name).equal for name in COMPARED)


def compare_output(stored: Side, replayed: Side, output: str, exact: bool) -> OutputComparison:
    """An output in both stores.

    An `exact` comparison looks at every column. Otherwise it leaves out when a number was published: other settings
    publish the same number in another batch.
    """
    before, after = stored.tables(output), replayed.tables(output)
    layouts = stored.layout(output), replayed.layout(output)
    ledger = _Pair(
        stored.store.ledger, replayed.store.ledger, stored.last, f"output = {text_literal(output)}"
    )
    lines = ledger.over(["batch", "output", "unit"], LEDGER.names[3:])
    # Retention has removed the side output of earlier batches.
    not_removed = f"batch > {removed_until(stored.store, LATE, output)}"
    return OutputComparison(
        *_compare_panes(_Pair(before.panes, after.panes, stored.last), *layouts, exact),
        _compare_late(_Pair(before.late, after.late, stored.last, not_removed), exact),
        replace(lines, rows=stored.store.as_amounts(lines.rows)),
    )


def _compare_panes(
    panes: _Pair, before: PaneLayout, after: PaneLayout, exact: bool
) -> tuple[Difference, Difference]:
    """Every pane, and the numbers that stand."""
    values = [name for name, kind in before.values.items() if after.values.get(name) == kind]
    place = ["window_start", "window_end", *dict.fromkeys([*before.keys, *after.keys])]
    identity = [*place, "sequence", "op"] + (["batch"] if exact else [])
    when = [name for name in before.published.names if name not in (*identity, *before.keys, *before.values)]
    randomised = [name for name in values if before.output.aggregates[name].function in RANDOMISED]
    panes = replace(panes, apart=list(before.keys) != list(after.keys), shown=randomised if exact else ())
    every = panes.over(identity, [*values, *(when if exact else ["timing"])])
    added_up = _added_up(before.output, values), _added_up(after.output, values)
    return every, replace(panes, standing=place, added_up=added_up).over(place, values)


def _added_up(output: Output, values: Sequence[str]) -> Mapping[str, str]:
    """The functions that add up the panes of a discarding output; none where panes replace one another."""
    if output.accumulation is not Accumulation.DISCARDING:
        return {}
    return {name: "sum" if (f := output.aggregates[name].function) == "count" else f for name in values}


def _compare_late(late: _Pair, exact: bool) -> Difference:
    """Lists and maps are not compared: SQL cannot order them, and both sides have them from the same log."""
    event = ["window_start", "window_end", "batch", "origin", "position"]
    fields = [field for field in late.stored.schema if field.name not in event]
    rest = [field.name for field in fields if not pa.types.is_nested(field.type)]
    return late.over(event, rest if exact else ["verdict"])


def compare_fates(stored: Side, replayed: Side, outputs: Iterable[str]) -> pa.Table:
    """For each output, unit and fate the total in both ledgers."""
    named = list(outputs)
    both = [_totals(side) for side in (stored, replayed)]
    places = [
        (output, unit, fate)
        for output, unit in dict.fromkeys([*both[0], *both[1]])
        if output in named
        for fate in FATE_COLUMNS
    ]
    rows = []
    for place in places:
        before, after = (total.get(place[:2], {}).get(place[2], Decimal(0)) for total in both)
        rows.append(dict(zip(FATES.names, (*place, before, after, difference(after, [before])), strict=True)))
    return stored.store.as_amounts(pa.Table.from_pylist(rows, FATES))


def _totals(side: Side) -> dict[tuple[str, str], dict[str, Decimal]]:
    sums = ", ".join(f"sum({fate}) as {fate}" for fate in FATE_COLUMNS)
    rows = side.store.ledger.query_rows(
        f"select output, unit, {sums} from t where batch <= {side.last} "
        f"group by output, unit order by output, {UNIT_ORDER}"
    )
    return {(row["output"], row["unit"]): row for row in rows}


@dataclass(frozen=True)
class _Pair:
    """A table of both stores, up to the last batch that is compared."""

    stored: Table
    replayed: Table
    last: int
    where: str = "true"
    standing: Sequence[str] = ()
    """If set, only the pane that stands is compared for each place; these are the columns of a place."""
    added_up: Sequence[Mapping[str, str]] = ({}, {})
    """For each side the functions that add up the panes of a place; empty where one pane stands alone."""
    apart: bool = False
    """No row of one side can be one of the other."""
    shown: Sequence[str] = ()
    """Columns that are shown, but not compared."""

    def over(self, identity: Sequence[str], compared: Sequence[str]) -> Difference:
        """Rows with the same identity are the same row. It is equal if all compared columns agree."""
        # The stored side may belong to a running pipeline, and each side may lack the table.
        with with_empty_ones(self.stored, self.replayed) as sides:
            columns = [name for name in compared if all(name in side.columns for side in sides)]
            paired = self._paired(sides, identity, columns)
            counted = sides[0].query(
                f"select {CHANGE}, count(*) as n from ({paired}) group by {CHANGE}", r=sides[1]
            )
            pairs = [name for column in columns for name in (column, column + REPLAYED)]
            shown = listed([*identity, CHANGE, *pairs])
            order = ", ".join([*self._largest(columns), *map(double_quoted, identity)])
            rows = sides[0].query(
                f"select {shown} from ({paired}) where {CHANGE} <> '{EQUAL}' order by {order}", r=sides[1]
            )
        counts = {row[CHANGE]: row["n"] for row in counted.to_pylist()}
        return Difference({change: counts.get(change, 0) for change in CHANGES}, rows)

    def _paired(self, sides: Sequence[Table], identity: Sequence[str], columns: Sequence[str]) -> str:
        """One row for each identity, with the columns of both sides.

        A union that is grouped, and not a join: groups take null for equal to null.
        """
        whole = " union all ".join(
            self._side(name, side, index, [*identity, *columns])
            for index, (name, side) in enumerate(zip(("t", "r"), sides, strict=True))
        )
        both = ", ".join(
            f"max(case when {_NEW} = {side} then {double_quoted(column)} end) "
            f"as {double_quoted(column + suffix)}"
            for column in columns
            for side, suffix in ((0, ""), (1, REPLAYED))
        )
        place = listed(identity)
        groups = f"{place}, {_NEW}" if self.apart else place
        grouped = (
            f"select {place}, sum(1 - {_NEW}) as {_STORED}, sum({_NEW}) as {_NEW}_rows"
            f"{', ' + both if both else ''} from ({whole}) group by {groups}"
        )
        agreed = [f"{_STORED} = {_NEW}_rows"]
        agreed += [self._agrees(column) for column in columns if column not in self.shown]
        change = (
            f"case when {_NEW}_rows = 0 then '{MISSING}' when {_STORED} = 0 then '{EXTRA}' "
            f"when {' and '.join(agreed)} then '{EQUAL}' else '{DIFFERENT}' end"
        )
        return f"select *, {change} as {CHANGE} from ({grouped})"

    def _side(self, name: str, table: Table, index: int, columns: Sequence[str]) -> str:
        stored = set(table.columns)
        chosen = ", ".join(
            double_quoted(column) if column in stored else f"null as {double_quoted(column)}"
            for column in columns
        )
        rows = f"select * from {name} where batch <= {self.last} and {self.where}"
        if self.standing and self.added_up[index]:
            place = listed(self.standing)
            sums = [
                f"{f}({double_quoted(name)}) as {double_quoted(name)}"
                for name, f in self.added_up[index].items()
            ]
            kept = not_taken_back(f"({rows})", place)
            rows = f"select {', '.join([place, *sums])} from ({kept}) group by {place}"
        elif self.standing:
            place = listed(column for column in self.standing if column in stored)
            rows = standing(f"({rows})", place)
        return f"select {chosen}, {index} as {_NEW} from ({rows})"

    def _agrees(self, column: str) -> str:
        one, other = double_quoted(column), double_quoted(column + REPLAYED)
        same = f"({one} is not distinct from {other})"
        if column in CAME_LATER:
            return f"({one} is null or {same})"
        if not pa.types.is_floating(self.stored.schema.field(column).type):
            return same
        close = f"abs({one} - {other}) <= {CLOSE} * greatest(abs({one}), abs({other}))"
        return f"({same} or coalesce({close}, false))"

    def _largest(self, columns: Sequence[str]) -> list[str]:
        """The order of the differences: by the first number that is compared, then by the next."""
        kinds = {column: self.stored.schema.field(column).type for column in columns}
        return [
            largest_first(column, column + REPLAYED)
            for column, kind in kinds.items()
            if pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        ]


def largest_first(column: str, other: str) -> str:
    """An ORDER BY for the largest difference of two columns of numbers; null counts as 0."""
    one, two = (f"coalesce(cast({double_quoted(name)} as double), 0)" for name in (column, other))
    return f"abs({one} - {two}) desc nulls last"
