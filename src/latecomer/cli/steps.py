"""The step under way, shown within a second, and warnings: on standard error, never on standard output.

The library says what it does through `logging`: `LOG.info("starting Spark")` begins a step, `LOG.warning(...)`
warns. A record whose message is the same but for its values (`"replaying batch %d of %d"`) is news of the same
step. On a terminal the step is one live line with the time it has taken; elsewhere it is a plain line where it
takes longer than a moment, with news now and then. Before a verb prints its answer, the live line is gone.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner

LOGGER = logging.getLogger("latecomer")
"""Above the loggers of all modules."""
MOMENT = 0.3
"""A step that takes no longer than so many seconds is not shown."""
NEWS = 15.0
"""Elsewhere than on a terminal, news of a step comes no more often."""
STILL = 60.0
"""And a step without news is shown again after so long."""


@contextmanager
def reporting(quiet: bool) -> Iterator[None]:
    """For the whole command: warnings are printed, and steps while a verb is `working`; not where `quiet`."""
    level, handler = LOGGER.level, _Handler(quiet)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


@contextmanager
def working(step: str) -> Iterator[Display]:
    """Show what is being done, from here to the end of the block; `step` is what it begins with."""
    handlers = [each for each in LOGGER.handlers if isinstance(each, _Handler)]
    with _own_stderr() as stream:
        display = Display(stream, quiet=any(each.quiet for each in handlers))
        display.show(step)
        for each in handlers:
            each.display = display
        try:
            yield display
        finally:
            for each in handlers:
                each.display = None
            display.end()


class _Handler(logging.Handler):
    """Takes what the library says to the display of the verb that is at work."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(logging.INFO)
        self.quiet = quiet
        self.display: Display | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            line = f"warning: {record.getMessage()}"
            if self.display is None:
                print(line, file=sys.stderr, flush=True)
            else:
                self.display.line(line)
        elif self.display is not None:
            self.display.show(record.getMessage(), str(record.msg))


class Display:
    """What is being done now. Lines printed through it stay; the step itself is gone in the end."""

    def __init__(self, stream: TextIO, quiet: bool = False) -> None:
        self.stream = stream
        self.quiet = quiet
        self.live: Live | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._text, self._step, self._began = "", "", 0.0
        self._printed, self._printed_step, self._printed_at = "", "", -NEWS
        shown = self._on_terminal if stream.isatty() else self._in_lines
        self._thread = threading.Thread(target=shown, name="latecomer-progress", daemon=True)
        if not quiet:
            self._thread.start()

    def show(self, text: str, step: str | None = None) -> None:
        """What is being done from now on; `step` is the same for news of the same step."""
        with self._lock:
            if (step or text) != self._step:
                self._step, self._began = step or text, time.monotonic()
            self._text = text

    def line(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            if self.live is None:
                print(text, file=self.stream, flush=True)
            else:
                self.live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Leave the screen to the answer."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _in_lines(self) -> None:
        while not self._ended.wait(MOMENT / 2):
            with self._lock:
                now = time.monotonic()
                took, since = now - self._began, now - self._printed_at
                news = self._text != self._printed and (since >= NEWS or self._step != self._printed_step)
                if took >= MOMENT and (news or since >= STILL):
                    self.line(self._text if took < NEWS else f"{self._text} ({took:.0f} s)")
                    self._printed, self._printed_step, self._printed_at = self._text, self._step, now

    def _on_terminal(self) -> None:
        if self._ended.wait(MOMENT):
            return
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        spinner = Spinner("dots")
        live = Live(
            console=Console(file=self.stream),
            get_renderable=lambda: self._rendered(spinner),
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with live:
            with self._lock:
                self.live = live
            self._ended.wait()
            with self._lock:
                self.live = None

    def _rendered(self, spinner: Spinner) -> Spinner:
        from rich.text import Text

        with self._lock:
            first, *more = self._text.splitlines() or [""]
            took = time.monotonic() - self._began
        spinner.update(text=Text("\n".join([f"{first}  {took:.0f} s", *more])))
        return spinner


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Standard error under a descriptor of its own: while the JVM starts, 1 and 2 are lent to it."""
    try:
        number = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # not a file: somebody captures it
        yield sys.stderr
        return
    sys.stderr.flush()
    with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as stream:
        yield stream
