"""Values in their usual form are decoded many rows at once; all others row by row."""

from __future__ import annotations


class NotPlain(Exception):
    """Some values are not in their usual form: the rows are decoded one by one."""
