"""Garbage collection, paused while many small objects are at hand."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Python does not look for reference cycles meanwhile. Records and messages have none, and they are so many that
    the search would take half of the time or more."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
