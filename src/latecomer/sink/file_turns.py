"""Sinks of one process use a file one after the other.

This is a module of its own because `latecomer.testing` ends a sink at every line of the sink's own modules: a lock that
is left there would never be free again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


@contextmanager
def turn_at(file: str) -> Iterator[None]:
    """Wait until nobody in this process uses the file. A turn that nobody ends is over when it is collected."""
    with _LOCKS[file]:
        yield
