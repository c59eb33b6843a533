"""A lock for each file: sinks of one process use a file one after the other."""

from __future__ import annotations

import threading
from collections import defaultdict

_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class Turn:
    """The lock of a file, held until this is closed or collected."""

    def __init__(self, file: str) -> None:
        self._is_over = True  # should waiting be interrupted, there is nothing to release
        self._lock = _LOCKS[file]
        self._lock.acquire()
        self._is_over = False

    def close(self) -> None:
        """Release it."""
        if not self._is_over:
            self._is_over = True
            self._lock.release()

    __del__ = close
