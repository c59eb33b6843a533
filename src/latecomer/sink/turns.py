"""Sinks of one process that take turns at a file."""

from __future__ import annotations

import threading
from collections import defaultdict

_IN_USE: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class Turn:
    """The only one at a file, until it is closed, or nobody has it any more."""

    def __init__(self, file: str) -> None:
        self._held = _IN_USE[file]
        self._held.acquire()
        self._is_over = False

    def close(self) -> None:
        """Let the next one have it."""
        if not self._is_over:
            self._is_over = True
            self._held.release()

    __del__ = close
