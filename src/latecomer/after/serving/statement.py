"""Base and correction side by side, and their sum: one statement, in each dialect of SQL.

The reader runs on DataFusion the statement that the views for DuckDB, Spark and Postgres have. They differ only in the
tables behind it, and in how a name, a type and a sum without overflow are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from latecomer.after.reading.choices import Origin
from latecomer.after.serving.correcting import Corrections, wide
from latecomer.after.serving.private_columns import STATES
from latecomer.after.serving.states import gathered_states, state_columns
from latecomer.config.names import PRIVATE
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.panes import Accumulation, Timing
from latecomer.store.private_columns import state_column
from latecomer.store.sql import double_quoted, quoted
from latecomer.store.standing import newest_first, not_taken_back, standing
from latecomer.store.state_types import LOW_DIGITS, beyond_column, beyond_halves

_BASE, _MORE = f"{PRIVATE}base_", f"{PRIVATE}more_"
_LATE, _HAS_BASE = f"{PRIVATE}late", f"{PRIVATE}has_base"
_AT, _UNKNOWN = f"{PRIVATE}at_batch", f"{PRIVATE}unknown_"
"""The batch of a row, and whether an aggregate is unknown in a group, because it was added to the output later."""
_NEWEST, _MARK, _REBUILD = f"{PRIVATE}newest", f"{PRIVATE}mark", f"{PRIVATE}rebuild"


@dataclass(frozen=True)
class Sql:
    """A dialect of SQL."""

    quote: Callable[[str], str] = double_quoted
    names: Mapping[str, str] = field(default_factory=dict)
    """The types whose names differ from Spark's."""
    folds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Function and type → the aggregate to use, where the usual one does not take the type."""
    checks_sums: bool = True
    """A sum that outgrows its type is an error, not another number."""
    states: Literal["gathered", "summed", "unknown"] = "summed"
    """What to do with the states of both sides: return them, merge them, or nothing where there are none."""
    correction_batch: str = "batch"
    """The column of the corrections that has the first batch of a row."""

    def merges(self, ours: Corrections) -> dict[str, Aggregate]:
        """The aggregates that this dialect corrects by their states."""
        if self.states == "unknown":
            return {}
        return {
            name: each
            for name, each in ours.stated.items()
            if self.states == "gathered"
            or (each.function in _MOMENTS and not types.is_decimal(ours.layout.values[name]))
        }

    def listed(self, columns: Iterable[str]) -> str:
        return ", ".join(map(self.quote, columns))

    def kind(self, kind: str) -> str:
        if types.is_decimal(kind):
            return kind.replace("decimal", self.names.get("decimal", "decimal"))
        return self.names.get(kind, kind)

    def fold(self, function: str, kind: str, value: str) -> str:
        """An aggregate function; `any` is for a group with one value."""
        name = self.folds.get((function, kind), "max" if function == "any" else function)
        return name.format(value) if "{0}" in name else f"{name}({value})"

    def roomy(self, column: str, kind: str) -> str:
        return column if self.checks_sums or not types.is_exact(kind) else wide(column, kind)

    def narrow(self, value: str, kind: str) -> str:
        """A value cast to the published type. DataFusion's answers are cast, and checked, by Arrow."""
        return f"cast({value} as {self.kind(kind)})" if self.checks_sums else value

    def nothing(self, kind: str) -> str:
        return f"cast(null as {self.kind(kind)})" if self.checks_sums else "null"


_MOMENTS = frozenset({"avg", "variance", "var_pop", "stddev", "stddev_pop"})
DATAFUSION = Sql(checks_sums=False, states="gathered")
DUCKDB = Sql(names={"string": "varchar", "timestamp": "timestamp with time zone", "binary": "blob"})
SPARK = Sql(quote=quoted)
POSTGRES = Sql(
    names={
        "string": "text",
        "timestamp": "timestamp with time zone",
        "binary": "bytea",
        "double": "double precision",
        "float": "real",
        "tinyint": "smallint",
        "decimal": "numeric",
    },
    folds={
        ("any", "boolean"): "bool_or",
        ("min", "boolean"): "bool_and",
        ("max", "boolean"): "bool_or",
        ("any", "binary"): "(array_agg({0}) filter (where {0} is not null))[1]",
    },
    states="unknown",
    correction_batch="first_batch",
)


def base_columns(ours: Corrections) -> list[str]:
    """The columns that the statement needs of the base."""
    return [*ours.place, *ours.layout.values, "sequence", "timing"]


def dated_columns(ours: Corrections) -> list[str]:
    """The same, and the batch of the pane where aggregates were added to the output later."""
    return [*base_columns(ours), *(["batch"] if ours.since else [])]


def merged_columns(sql: Sql, ours: Corrections) -> dict[str, str]:
    """The private columns that hold the states which are merged, and their types."""
    return {
        column: kind for name in sql.merges(ours) for column, kind in state_columns(ours.layout, name).items()
    }


# The base: the panes that stand


def standing_numbers(sql: Sql, ours: Corrections, panes: str) -> str:
    """The number that stands for each window and key, of these panes. Rules as in `model.panes`."""
    if ours.output.accumulation is Accumulation.DISCARDING:
        return _added_up(sql, ours, panes)
    # For a sum that its column cannot hold, the exact value is kept beside it (ADR 0028).
    exact = {name: _beyond(sql, ours, name) for name in (*dated_columns(ours), *merged_columns(sql, ours))}
    columns = [f"{value} as {sql.quote(name)}" if value else sql.quote(name) for name, value in exact.items()]
    return standing(panes, sql.listed(ours.place), ", ".join(columns))


def _beyond(sql: Sql, ours: Corrections, name: str) -> str | None:
    """A sum with all its digits; None where there is no more to it than its column."""
    column, stored = sql.quote(name), set(ours.panes.columns)
    beyond, (high, low) = beyond_column(name), beyond_halves(name)
    if sql.states == "unknown" or not stored & {beyond, high}:
        return None
    if beyond in stored:
        room = f"arrow_cast({column}, 'Decimal128(38, 0)')"
        if sql.checks_sums:
            room = f"cast({column} as {sql.kind('decimal(38,0)')})"
        return f"coalesce({sql.quote(beyond)}, {room})"
    kind = ours.layout.values[name]
    high, low = sql.quote(high), sql.quote(low)
    if sql.checks_sums:  # no type can hold it: an error is better than a wrong number
        message = f"concat('a sum beyond 38 digits: ', cast({high} as {sql.kind('string')}))"
        return f"case when {high} is null then {column} else cast({message} as {sql.kind(kind)}) end"
    scale = types.scale_of(kind)
    base = f"arrow_cast('{Decimal(1).scaleb(LOW_DIGITS - scale):f}', 'Decimal256(21, {max(scale - LOW_DIGITS, 0)})')"
    whole = f"arrow_cast({high}, 'Decimal256(38, 0)') * {base} + {wide(low, kind)}"
    return f"coalesce({whole}, {wide(column, kind)})"


def _added_up(sql: Sql, ours: Corrections, panes: str) -> str:
    """Discarding panes publish what is new, and what stands is their sum."""
    place = sql.listed(ours.place)
    kept = f"select *, {newest_first(place)} as {_NEWEST} from ({not_taken_back(panes, place)}) as parts"
    sums = []
    for name, each in ours.added.items():
        kind, column, function = ours.layout.values[name], sql.quote(name), each.function
        value = sql.roomy(_beyond(sql, ours, name) or column, kind) if _adds(each) else column
        folded = sql.fold("sum" if _adds(each) else function, kind, value)
        sums.append(f"{sql.narrow(folded, kind)} as {column}")
    return (
        f"select {place}, {', '.join(sums)}, max(sequence) as sequence, "
        f"max(case when {_NEWEST} = 1 then timing end) as timing "
        f"from ({kept}) as kept group by {place}"
    )


# A rebuild includes the late events of the batches before it

_REBUILT = f"timing = '{Timing.CORRECTION}'"


def before_rebuild(sql: Sql, ours: Corrections, panes: str) -> str:
    """The panes of each window and key up to the first that a rebuild published."""
    first = f"min(case when {_REBUILT} then batch end) over (partition by {sql.listed(ours.place)})"
    marked = f"select *, {first} as {_MARK} from {panes} as panes"
    return f"(select * from ({marked}) as marked where {_MARK} is null or batch < {_MARK})"


def counting(sql: Sql, ours: Corrections, panes: str, corrections: str, before: bool = False) -> str:
    """The corrections that came after the last rebuild of their window and key, or before the first.

    A union with a window over it, and not a join: partitions take null for equal to null.
    """
    states = merged_columns(sql, ours)
    columns = sql.listed([*ours.schema.names, *states])
    end, side = ("min", "<") if before else ("max", ">")
    nothing = ", ".join(
        "batch" if name == "batch" else sql.nothing(kind) if name not in ours.place else sql.quote(name)
        for name, kind in {**ours.kinds, **states}.items()
    )
    both = (
        f"select {columns}, {sql.nothing('bigint')} as {_REBUILD} from {corrections} as corrections "
        f"union all select {nothing}, batch as {_REBUILD} from {panes} as panes where {_REBUILT}"
    )
    mark = f"{end}({_REBUILD}) over (partition by {sql.listed(ours.place)})"
    marked = f"select *, {mark} as {_MARK} from ({both}) as both_kinds"
    return (
        f"(select {columns} from ({marked}) as marked "
        f"where {_REBUILD} is null and ({_MARK} is null or batch {side} {_MARK}))"
    )


# Base and corrections


def serving_names(ours: Corrections, name: str) -> tuple[str, str]:
    """The columns that show an aggregate's base and its correction."""
    return ours.named(f"{name}_base"), ours.named(f"{name}_correction")


def served(sql: Sql, ours: Corrections, base: str, corrections: str) -> str:
    """The number for each window and key, with its base and its correction.

    A union that is grouped, and not a join: groups take null for equal to null in every SQL.
    """
    place = sql.listed(ours.place)
    columns = [
        column for name, each in ours.output.aggregates.items() for column in _served(sql, ours, name, each)
    ]
    late_events = sql.quote(ours.late_events)
    origin = (
        f"case when {_LATE} = 1 then '{Origin.CORRECTED}' "
        f"when {_REBUILT} then '{Origin.REBUILT}' else '{Origin.LIVE}' end"
    )
    if sql.states == "gathered":
        columns += [sql.quote(STATES + name) for name in sql.merges(ours)]
    return (
        f"select {place},\n  "
        + ",\n  ".join(columns)
        + f",\n  {sql.narrow(late_events, 'bigint')} as {late_events}, sequence, timing,\n"
        f"  {origin} as {sql.quote(ours.named('origin'))}\n"
        f"from (\n  select {place},\n    "
        + ",\n    ".join(_sides(sql, ours))
        + f",\n    sum({late_events}) as {late_events}, max(sequence) as sequence, max(timing) as timing,\n"
        f"    max(1 - {_LATE}) as {_HAS_BASE}, max({_LATE}) as {_LATE}\n"
        f"  from (\n    {_side(sql, ours, f'({base}) as base', late=False)}\n    union all\n"
        f"    {_side(sql, ours, f'{corrections} as corrections', late=True)}\n"
        f"  ) as both_sides\n  group by {place}\n) as side_by_side"
    )


def _side(sql: Sql, ours: Corrections, rows: str, late: bool) -> str:
    """The values of the base, or those of the corrections."""
    values = []
    for name, aggregate in ours.output.aggregates.items():
        kind, column = ours.layout.values[name], sql.quote(name)
        value = sql.roomy(column, kind) if _adds(aggregate) else column
        values.append(f"{sql.nothing(kind) if late and name not in ours.added else value} as {column}")
    values += map(sql.quote, merged_columns(sql, ours))
    late_events = sql.quote(ours.late_events)
    pane, count, batch = "sequence, timing", f"0 as {late_events}", "batch"
    if late:
        pane = f"{sql.nothing('bigint')} as sequence, {sql.nothing('string')} as timing"
        count, batch = late_events, sql.correction_batch
        batch = sql.quote(batch if batch == "batch" else ours.named(batch))
    if ours.since:
        values.append(f"{batch} as {_AT}")
    return f"select {sql.listed(ours.place)}, {', '.join(values)}, {pane}, {count}, {int(late)} as {_LATE} from {rows}"


def _sides(sql: Sql, ours: Corrections) -> list[str]:
    """For each aggregate its value in the base, and the total of the corrections."""
    sides = []
    for name, aggregate in ours.output.aggregates.items():
        kind, column = ours.layout.values[name], sql.quote(name)
        base = sql.fold("any", kind, f"case when {_LATE} = 0 then {column} end")
        sides.append(f"{base} as {sql.quote(_BASE + name)}")
        if name in ours.added:
            function = "sum" if _adds(aggregate) else aggregate.function
            more = sql.fold(function, kind, f"case when {_LATE} = 1 then {column} end")
            sides.append(f"{more} as {sql.quote(_MORE + name)}")
    sides += [f"{_unknown(since)} as {sql.quote(_UNKNOWN + name)}" for name, since in ours.since.items()]
    for name in sql.merges(ours):
        if sql.states == "gathered":
            states = gathered_states(ours.layout, name)
            if name in ours.since:
                states = f"case when {_unknown(ours.since[name])} = 0 then {states} end"
            sides.append(f"{states} as {sql.quote(STATES + name)}")
        else:
            sides.append(f"{_merged(sql, ours, name)} as {sql.quote(_MORE + name)}")
    return sides


def _unknown(since: int) -> str:
    """Whether a side of a group was written before the output had an aggregate."""
    return f"max(case when {_AT} < {since} then 1 else 0 end)"


def _merged(sql: Sql, ours: Corrections, name: str) -> str:
    """An average or a variance of all states in a group, in floating point; null where one is not known.

    With n values in all, their sum s and the sum of their squares q: s/n, and (q - s²/n) / (n - 1).
    """
    double, function = sql.kind("double"), ours.output.aggregates[name].function
    parts = {
        column.removeprefix(state_column(name, "")): f"cast({sql.quote(column)} as {double})"
        for column in state_columns(ours.layout, name)
    }
    n = parts["count"]
    each, squares = parts.get("sum", "0"), "0"
    if "rough_sum" in parts:
        each, squares = parts["rough_sum"], parts["rough_squares"]
    elif "mean" in parts:
        mean, spread = parts["mean"], parts["spread"]
        each, squares = f"{n} * {mean}", f"{spread} + {n} * {mean} * {mean}"
    count, total = f"sum({n})", f"sum({each})"
    value = f"{total} / nullif({count}, 0)"
    if function != "avg":
        less = 1 if function in ("variance", "stddev") else 0
        apart = f"sum({squares}) - {total} * {total} / nullif({count}, 0)"
        positive = f"case when {apart} < 0 then 0 else {apart} end"
        value = f"{positive} / case when {count} > {less} then {count} - {less} end"
        value = f"sqrt({value})" if function.startswith("stddev") else value
    return f"case when count(*) = count({n}) then {value} end"


def _served(sql: Sql, ours: Corrections, name: str, aggregate: Aggregate) -> list[str]:
    """An aggregate's columns: the number, its base, and its correction."""
    kind = ours.layout.values[name]
    base, more = sql.quote(_BASE + name), sql.quote(_MORE + name)
    shown_base, shown_more = map(sql.quote, serving_names(ours, name))
    if name not in ours.added:
        whole = _known(sql, ours, name, _derived(sql, ours, name))
        return [f"{whole} as {sql.quote(name)}", f"{base} as {shown_base}"]
    if _adds(aggregate):
        both = _sum(sql, name)
        nothing = sql.roomy("0", kind)
        base = f"case when {_HAS_BASE} = 0 then {nothing} else {base} end"
        more = f"case when {_LATE} = 0 then {nothing} else {more} end"
    else:
        sign = "<" if aggregate.function == "min" else ">"
        both = (
            f"case when {base} is null then {more} when {more} is null then {base} "
            f"when {more} {sign} {base} then {more} else {base} end"
        )
    both = _known(sql, ours, name, both)
    columns: Sequence[tuple[str, str]] = ((both, sql.quote(name)), (base, shown_base), (more, shown_more))
    return [f"{sql.narrow(value, kind)} as {shown}" for value, shown in columns]


def _known(sql: Sql, ours: Corrections, name: str, value: str) -> str:
    """A value; null where one side of it was written before the output had the aggregate."""
    return f"case when {sql.quote(_UNKNOWN + name)} = 0 then {value} end" if name in ours.since else value


def _sum(sql: Sql, name: str) -> str:
    """Base and correction; null only where both have nothing to add up."""
    base, more = sql.quote(_BASE + name), sql.quote(_MORE + name)
    return f"case when {base} is null then {more} when {more} is null then {base} else {base} + {more} end"


def _derived(sql: Sql, ours: Corrections, name: str) -> str:
    """The value from states, or from a corrected sum and count. The reader computes its own, as only it can compute
    exact decimals."""
    kind, otherwise = ours.layout.values[name], sql.nothing(ours.layout.values[name])
    if sql.states == "summed" and name in sql.merges(ours):
        otherwise = sql.quote(_MORE + name)
    if name in ours.derived and sql.checks_sums and not types.is_decimal(kind):
        total, count = (_sum(sql, part) for part in ours.derived[name])
        double = sql.kind("double")
        otherwise = f"cast({total} as {double}) / nullif(cast({count} as {double}), 0)"
    return f"case when {_LATE} = 0 then {sql.quote(_BASE + name)} else {otherwise} end"


def _adds(aggregate: Aggregate) -> bool:
    return aggregate.function in ("sum", "count")
