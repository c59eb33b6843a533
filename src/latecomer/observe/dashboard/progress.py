"""What is being worked out for a request that takes long: the last step that was logged, and since when."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Place = tuple[int, str]
"""The number of a pipeline, and what was asked of it."""
LOGGER = logging.getLogger("latecomer")


class Progress(logging.Handler):
    """Hears of the steps of answers, each by the thread that makes it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._making: dict[int, tuple[Place, float, str]] = {}
        """Thread → which answer, since when, and the step."""

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen for as long as this lasts."""
        level = LOGGER.level
        LOGGER.addHandler(self)
        LOGGER.setLevel(min(LOGGER.getEffectiveLevel(), logging.INFO))
        try:
            yield
        finally:
            LOGGER.setLevel(level)
            LOGGER.removeHandler(self)

    @contextmanager
    def made(self, place: Place) -> Iterator[None]:
        """An answer is made by this thread."""
        me = threading.get_ident()
        self._making[me] = place, time.monotonic(), ""
        try:
            yield
        finally:
            self._making.pop(me, None)

    def emit(self, record: logging.LogRecord) -> None:
        making = self._making.get(record.thread or 0)
        if making is not None:
            self._making[record.thread or 0] = (*making[:2], record.getMessage())

    def of(self, place: Place) -> dict[str, Any]:
        """The step that is under way, and since how many seconds; none where nothing is being made."""
        own = [(began, step) for which, began, step in list(self._making.values()) if which == place]
        if not own:
            return {"step": None, "seconds": None}
        began, step = min(own)
        return {"step": step or None, "seconds": int(time.monotonic() - began)}
