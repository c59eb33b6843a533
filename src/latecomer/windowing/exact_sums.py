"""Exact sums that never overflow, in native Spark SQL.

Two numbers of 64 bits may need 65, and two of 38 digits 39. A sum is made of two halves, each with room for two
billion rows in one merge, and put together at the end: exact, in any order and in any number of steps.

Whole numbers add up to `decimal(38,0)`, which no sum outgrows. Two kinds of columns can be too narrow for a sum: those
of 64 bits in a store that was made before, and decimals of nearly 38 digits. There the sum is null, and kept in
private columns beside it, so that nothing is lost and it is published again once it fits (ADR 0028).
"""

from __future__ import annotations

from latecomer.config.checks import PRIVATE
from latecomer.model import types
from latecomer.store.columns import state_column
from latecomer.store.sql import quoted
from latecomer.store.state_types import LOW_DIGITS, beyond_column, beyond_halves
from latecomer.windowing.state_logic import StateLogic

EXACT = "decimal(38,0)"
LOW, HIGH = "low", "high"
_MASK, _BASE = (1 << 32) - 1, 1 << 32
SAFE_DIGITS = 28
"""Ten billion decimals of so many digits add up within 38: their sums need no halves."""
_MOST_SCALE = 35
"""With more digits after the point Spark has no type for what is computed on the way: the point is moved."""


def half(column: str, which: str) -> str:
    """The input that has one half of a column's terms."""
    return state_column(column, which)


def whole_sum(column: str, term: str, kind: str) -> StateLogic:
    """The sum of whole numbers, in a column of this type: `decimal(38,0)`, or `bigint` in an old store."""
    low, high, beyond = half(column, LOW), half(column, HIGH), beyond_column(column)
    narrow = kind != EXACT
    number, held = f"cast({term} as bigint)", f"cast({quoted(column)} as {EXACT})"
    if narrow:
        held = f"coalesce({quoted(beyond)}, {held})"
    total = (
        f"cast({quoted(high)} as decimal(20,0)) * cast({_BASE} as decimal(10,0)) "
        f"+ cast({quoted(low)} as decimal(20,0))"
    )
    value = f"try_cast({total} as {kind})"
    columns = {column: kind} if column.startswith(PRIVATE) else {}
    finish = {column: value}
    if narrow:
        columns |= {beyond: EXACT}
        finish |= {beyond: f"if({value} is null, cast({total} as {EXACT}), null)"}
    return StateLogic(
        columns,
        {low: f"{number} & {_MASK}L", high: f"shiftright({number}, 32)"},
        {low: f"cast({held} % {_BASE} as bigint)", high: f"{held} div {_BASE}"},
        {low: f"sum({quoted(low)})", high: f"sum({quoted(high)})"},
        finish,
    )


# Decimals of nearly 38 digits


def is_long(kind: str) -> bool:
    """Whether a few decimals of this type may need more than 38 digits together."""
    return types.is_decimal(kind) and types.whole_digits(kind) + types.scale_of(kind) > SAFE_DIGITS


def long_sum(column: str, term: str, kind: str) -> StateLogic:
    """The sum of decimals of nearly 38 digits; `kind` is that of the sum."""
    moved = max(types.scale_of(kind) - _MOST_SCALE, 0)
    scale = types.scale_of(kind) - moved
    inner = f"decimal(38,{scale})"
    above, below = max(LOW_DIGITS - scale, 0), max(scale - LOW_DIGITS, 0)
    base = f"cast('1e{above - below}' as decimal({below or above + 1},{below}))"
    low, high = quoted(half(column, LOW)), quoted(half(column, HIGH))
    kept_high, kept_low = beyond_halves(column)

    def halves(number: str) -> tuple[str, str]:
        return f"cast({number} div {base} as {EXACT})", f"cast({number} % {base} as {inner})"

    def moved_in(number: str) -> str:
        return with_point_moved(number, moved, inner)

    def moved_back(number: str) -> str:
        return with_point_moved(number, -moved, kind)

    carried, rest = halves(low)
    top = f"({high} + {carried})"
    value = moved_back(
        _put_together(top, f"cast({rest} as decimal({max(LOW_DIGITS, scale)},{scale}))", base, inner)
    )
    outgrown = f"{high} is not null and {value} is null"
    of_term, of_state = halves(moved_in(f"cast({term} as {kind})")), halves(moved_in(quoted(column)))
    return StateLogic(
        {kept_high: EXACT, kept_low: kind},
        {half(column, HIGH): of_term[0], half(column, LOW): of_term[1]},
        {
            half(column, HIGH): f"coalesce({quoted(kept_high)}, {of_state[0]})",
            half(column, LOW): f"coalesce({moved_in(quoted(kept_low))}, {of_state[1]})",
        },
        {half(column, each): f"sum({quoted(half(column, each))})" for each in (HIGH, LOW)},
        {
            column: value,
            kept_high: f"if({outgrown}, cast({top} as {EXACT}), null)",
            kept_low: f"if({outgrown}, {moved_back(rest)}, null)",
        },
    )


def with_point_moved(number: str, places: int, kind: str) -> str:
    """A decimal times a power of ten, exactly: by its text, which has the same digits."""
    if not places:
        return f"cast({number} as {kind})"
    return f"try_cast(concat(cast({number} as string), 'E{places}') as {kind})"


def _put_together(top: str, rest: str, base: str, kind: str) -> str:
    """Both halves as one number; null where it has too many digits. By its text: Spark's addition would give the
    result a digit less after the point."""
    scale = types.scale_of(kind)
    borrowed = f"case when {top} > 0 and {rest} < 0 then 1 when {top} < 0 and {rest} > 0 then -1 else 0 end"
    above = f"abs({top} - {borrowed})"
    below = f"abs({rest} + cast({borrowed} as decimal(1,0)) * {base})"
    digits = f"cast(cast({below} * cast({10**scale} as decimal({scale + 1},0)) as decimal({LOW_DIGITS},0)) as string)"
    sign = f"if({top} < 0 or {rest} < 0 and {top} = 0, '-', '')"
    text = f"concat({sign}, cast(cast({above} as {EXACT}) as string), lpad({digits}, {LOW_DIGITS}, '0'), 'E-{scale}')"
    return f"try_cast({text} as {kind})"
