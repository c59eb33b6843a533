"""What is written in the usual way is decoded many rows at once; what is not, row by row."""

from __future__ import annotations


class NotPlain(Exception):
    """Some of it is not written in the usual way: it is decoded row by row."""
