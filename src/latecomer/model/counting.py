"""Counts in words."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """A number with what it counts, in the plural where needed.

    >>> counted(1, "dead letter"), counted(1200, "row"), counted(2, "batch")
    ('1 dead letter', '1,200 rows', '2 batches')
    """
    ending = "" if count == 1 else "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{ending}"
