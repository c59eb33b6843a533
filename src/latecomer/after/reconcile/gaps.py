"""The gaps between two accounts, how much of them is explained, and the tolerance within which numbers are equal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext

import pyarrow as pa

from latecomer.after.reading.accounts import Number
from latecomer.after.reading.comparable_values import refused
from latecomer.after.replay.comparison import CHANGES, CLOSE, EQUAL

KINDS = ("side_output", "dropped", "not_closed", "dead_letter")
"""Where an amount can be that the results lack."""
PERCENT_SCALE = 4


@dataclass(frozen=True)
class Tolerance:
    """By how much two numbers may differ and still be equal: absolute, or a share of the source's."""

    absolute: Decimal = Decimal(0)
    share: Decimal = Decimal(0)

    @classmethod
    def parse(cls, written: str) -> Tolerance:
        """Read `0.01` or `1%`.

        >>> Tolerance.parse("1%")
        Tolerance(absolute=Decimal('0'), share=Decimal('0.01'))
        """
        text = written.strip()
        try:
            amount = Decimal(text.removesuffix("%").strip())
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or amount < 0:
            fix = "write an amount such as 0.01, or a share such as 1%"
            raise refused("tolerance", "is not a tolerance", written, fix)
        return cls(share=amount / 100) if text.endswith("%") else cls(absolute=amount)

    def allows(self, ours: Number | None, theirs: Number | None) -> bool:
        """Whether a result is near enough to the source's number."""
        if ours is None or theirs is None:
            return ours is theirs
        if ours == theirs:
            return True
        close = Decimal(str(CLOSE)) if isinstance(ours, float) or isinstance(theirs, float) else Decimal(0)
        one, other = Decimal(ours), Decimal(theirs)
        if not (one.is_finite() and other.is_finite()):
            return one.is_nan() and other.is_nan()
        with localcontext(prec=100):
            room = max(self.absolute, self.share * abs(other), close * max(abs(one), abs(other)))
            return abs(one - other) <= room


@dataclass(frozen=True)
class Gap:
    """The totals of an aggregate: of the results, of the source, and where the rest is."""

    aggregate: str
    results: Number | None
    source: Number | None
    known: Mapping[str, Number | None] = field(default_factory=dict)
    """How much of the gap is in each of KINDS; None where that is not known."""

    @property
    def gap(self) -> Number | None:
        """What the results lack; negative where they have too much. None where the aggregate does not add up."""
        if self.results is None or self.source is None:
            return None
        return less(self.source, self.results)

    @property
    def percent(self) -> Decimal | None:
        gap = self.gap
        if gap is None or self.source is None or not Decimal(self.source).is_finite() or not self.source:
            return Decimal(0) if gap == 0 else None
        with localcontext(prec=100):
            share = Decimal(gap) * 100 / abs(Decimal(self.source))
            return share.quantize(Decimal(1).scaleb(-PERCENT_SCALE), ROUND_HALF_EVEN)

    @property
    def unexplained(self) -> Number | None:
        rest = self.gap
        for amount in self.known.values():
            rest = rest if rest is None or amount is None else less(rest, amount)
        return rest


@dataclass(frozen=True)
class Reconciliation:
    """What a reconciliation found."""

    output: str
    against: str
    """The source, without the password."""
    counts: Mapping[str, int]
    """How many windows and keys are equal, different, missing in the results, or extra there."""
    rows: pa.Table
    """Those that are not equal, the largest gap first, with both sides' numbers."""
    gaps: Sequence[Gap]
    explained: bool
    """Whether the whole gap is explained."""
    notes: Sequence[str] = ()
    scales: Mapping[str, int] = field(default_factory=dict)
    """How many digits after the point each column of numbers has in the output."""

    @property
    def equal(self) -> bool:
        return all(not self.counts[change] for change in CHANGES if change != EQUAL)

    @property
    def totals(self) -> pa.Table:
        """One row an aggregate: results, source, gap, percent, where the gap is, and the unexplained rest."""
        columns: dict[str, list[Number | None]] = {
            "results": [gap.results for gap in self.gaps],
            "source": [gap.source for gap in self.gaps],
            "gap": [gap.gap for gap in self.gaps],
            "percent": [gap.percent for gap in self.gaps],
            **{kind: [gap.known.get(kind) for gap in self.gaps] for kind in KINDS},
            "unexplained": [gap.unexplained for gap in self.gaps],
        }
        names = pa.array([gap.aggregate for gap in self.gaps], pa.string())
        numbers = {name: _exact(values) for name, values in columns.items()}
        # One scale for all columns, at least that of the compared types.
        digits = [*numbers["results"], *numbers["source"]]
        digits += [
            _shortest(each) for name, values in numbers.items() if name != "percent" for each in values
        ]
        exponents = [int(value.as_tuple().exponent) for value in digits if value is not None]
        scale = max(-min(exponents, default=0), 0)
        scales = dict.fromkeys(numbers, scale) | {"percent": PERCENT_SCALE}
        return pa.table(
            {"aggregate": names} | {name: _decimals(values, scales[name]) for name, values in numbers.items()}
        )


def total(values: Sequence[Number | None]) -> Number:
    """The sum of the values that are not null, exact unless one of them is a float."""
    present = [value for value in values if value is not None]
    if any(isinstance(value, float) for value in present):
        return float(sum(map(float, present)))
    with localcontext(prec=100):
        return sum((Decimal(value) for value in present), Decimal(0))


def less(one: Number, other: Number) -> Number:
    """One number less another, exact unless one of them is a float."""
    if isinstance(one, float) or isinstance(other, float):
        return float(one) - float(other)
    with localcontext(prec=100):
        return one - other


def _exact(values: Sequence[Number | None]) -> list[Decimal | None]:
    """Numbers of several units in one column: exact ones as they are, others to nine digits after the point."""
    with localcontext(prec=400):
        return [
            value
            if value is None or isinstance(value, Decimal)
            else Decimal(value).quantize(Decimal("1e-9"))
            if math.isfinite(value)
            else None
            for value in values
        ]


def _shortest(value: Decimal | None) -> Decimal | None:
    with localcontext(prec=100):
        return None if value is None else value.normalize()


def _decimals(values: Sequence[Decimal | None], scale: int) -> pa.Array:
    shortest = list(map(_shortest, values))
    try:
        return pa.array(shortest, pa.decimal128(38, scale))
    except pa.ArrowInvalid:  # large amounts in one unit beside small ones in another
        return pa.array(shortest, pa.decimal256(76, scale))
