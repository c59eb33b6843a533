"""Numbers in text: the one grammar for all text columns of numbers.

    number   = [sign] (whole [decimal_sign [digits]] | decimal_sign digits) [exponent]
    whole    = digits, or with a thousands sign groups of three (1.234.567), or of two before the last three (12,34,567)
    exponent = (e or E) [sign] digits

Digits are 0 to 9, a sign is + or -. The decimal sign is a point and there is no thousands sign, unless the pipeline
sets others. Nothing else is a number: `1,5` is refused where the point is the decimal sign, and is never read as 15.

`1e3000000` has ten bytes, and three million digits when written out: casting it takes seconds, and with a few more
digits minutes. So a decimal column takes an exponent of at most three digits, in at most LONGEST characters. Within
that, a number is rounded to the column's scale (`1e-999` is 0). A number that does not fit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from latecomer.model.base import Model

LONGEST = 1_000
_EXPONENT = "([eE][+-]?[0-9]+)?"
_SHORT_EXPONENT = "([eE][+-]?0*[0-9]{1,3})?"


class Signs(Model):
    """The signs of numbers in a text."""

    decimal_sign: Literal[".", ","] = Field(".", description="stands before the digits after the point")
    thousands_sign: Literal[",", ".", " ", "'", "’", "_", "\u00a0", "\u202f"] | None = Field(
        None, description="stands between groups of digits; without it, a number with one is a dead letter"
    )

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if self.decimal_sign == self.thousands_sign:
            raise ValueError(f"has {self.decimal_sign!r} for both signs; write two different signs")
        return self

    def plain(self, text: str) -> str | None:
        """A number with a point and without thousands signs; None where the text is no number.

        >>> Signs(decimal_sign=",", thousands_sign=".").plain("1.234,56"), Signs().plain("1,5")
        ('1234.56', None)
        """
        if len(text) > LONGEST or _written(self.decimal_sign, self.thousands_sign).fullmatch(text) is None:
            return None
        return text.replace(self.thousands_sign or "", "").replace(self.decimal_sign, ".")

    def pattern(self, exponent: str = _EXPONENT) -> str:
        """The grammar as a pattern. It has no backslash, which Spark would remove, and no lookahead, which Arrow does
        not support."""
        point, apart = f"[{self.decimal_sign}]", f"[{self.thousands_sign}]"
        grouped = (
            f"[0-9]{{1,3}}({apart}[0-9]{{3}})+|[0-9]{{1,2}}({apart}[0-9]{{2}})+{apart}[0-9]{{3}}|"
            if self.thousands_sign
            else ""
        )
        return f"[+-]?(({grouped}[0-9]+)({point}[0-9]*)?|{point}[0-9]+){exponent}"


POINT = Signs()


class Numbers(Signs):
    """The signs of the numbers in a source, and of columns with other signs."""

    columns: Mapping[str, Signs] = Field(
        default_factory=dict,
        description="column of the source: its signs, where they differ from those of the others",
    )

    def of(self, column: str) -> Signs:
        """The signs of a column, by its name in the source."""
        signs = self.columns.get(column, self)
        return Signs(decimal_sign=signs.decimal_sign, thousands_sign=signs.thousands_sign)


AS_USUAL = Numbers()


@lru_cache(maxsize=64)
def _written(decimal_sign: Any, thousands_sign: Any) -> re.Pattern[str]:
    return re.compile(Signs(decimal_sign=decimal_sign, thousands_sign=thousands_sign).pattern())


PATTERN = POINT.pattern(_SHORT_EXPONENT)
_SHORT = re.compile(PATTERN)


def written_number(text: str, signs: Signs = POINT) -> Decimal | None:
    """The number in a text; None where a decimal column would not take it.

    >>> written_number("1000.50"), written_number("1,5"), written_number("1e-3000000"), written_number("١")
    (Decimal('1000.50'), None, None, None)
    """
    plain = signs.plain(text)
    return None if plain is None or _SHORT.fullmatch(plain) is None else Decimal(plain)


def fits(number: Decimal, whole_digits: int) -> bool:
    """Whether a number has at most this many digits before the point. The number is never written out for that."""
    return number.is_finite() and (not number or number.adjusted() < whole_digits)
