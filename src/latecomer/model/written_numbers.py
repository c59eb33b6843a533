"""Numbers as they are written in a text or a JSON file, and which of them a decimal column takes.

`1e3000000` is ten bytes, and three million digits once it is written out: whoever casts it waits for seconds, and
a few digits more make it minutes. So a number is looked at before it is cast.

A decimal column takes digits with a sign, a point and commas between them, then an exponent of at most three digits,
in at most LONGEST characters. Within that, a number is rounded to the column's scale (`1e-999` is 0), and one that
does not fit is refused. Everything else is refused unseen.
"""

from __future__ import annotations

import re
from decimal import Decimal

LONGEST = 1_000
PATTERN = "[+-]?(?=[0-9.,]*[0-9])[0-9,]*([.][0-9,]*)?([eE][+-]?0*[0-9]{1,3})?"
"""Without a backslash, which Spark would eat."""
_WRITTEN = re.compile(PATTERN)


def written_number(text: str) -> Decimal | None:
    """The number that a text means; None where a decimal column would not take it.

    >>> written_number("1,000.50"), written_number("1e-3000000"), written_number("١")
    (Decimal('1000.50'), None, None)
    """
    if len(text) > LONGEST or _WRITTEN.fullmatch(text) is None:
        return None
    return Decimal(text.replace(",", ""))


def fits(number: Decimal, whole_digits: int) -> bool:
    """Whether a number has at most so many digits before the point; compared by its size, never written out."""
    return number.is_finite() and (not number or number.adjusted() < whole_digits)
