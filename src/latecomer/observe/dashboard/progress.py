"""The progress of answers that take long: the last step that was logged, and since when."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Place = tuple[int, str]
"""The number of a pipeline, and the name of the route."""
LOGGER = logging.getLogger("latecomer")


class Progress(logging.Handler):
    """A log handler that keeps the last step of each answer, by the thread that makes it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._making: dict[int, tuple[Place, float, str]] = {}
        """Thread → which answer, since when, and the step."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle log messages until the block ends."""
        level = LOGGER.level
        LOGGER.addHandler(self)
        LOGGER.setLevel(min(LOGGER.getEffectiveLevel(), logging.INFO))
        try:
            yield
        finally:
            LOGGER.setLevel(level)
            LOGGER.removeHandler(self)

    @contextmanager
    def making(self, place: Place) -> Iterator[None]:
        """This thread makes an answer until the block ends."""
        thread = threading.get_ident()
        self._making[thread] = place, time.monotonic(), ""
        try:
            yield
        finally:
            self._making.pop(thread, None)

    def emit(self, record: logging.LogRecord) -> None:
        making = self._making.get(record.thread or 0)
        if making is not None:
            self._making[record.thread or 0] = (*making[:2], record.getMessage())

    def of(self, place: Place) -> dict[str, Any]:
        """The step under way, and for how many seconds the answer has been made; None where none is being made."""
        own = [(began, step) for which, began, step in list(self._making.values()) if which == place]
        if not own:
            return {"step": None, "seconds": None}
        began, step = min(own)
        return {"step": step or None, "seconds": int(time.monotonic() - began)}
