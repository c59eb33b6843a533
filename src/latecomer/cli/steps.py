"""The step under way, shown within a second, and warnings: on standard error, never on standard output.

The library says what it does through `logging`: `LOG.info("starting Spark")` begins a step, `LOG.warning(...)`
warns. Records that differ only in their values (`"replaying batch %d of %d"`) are news of one step. On a terminal the
step is one live line with the time it has taken, which is cleared before anything else is printed. Elsewhere it is a
plain line if it takes longer than a moment, with news now and then.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from latecomer.cli.terminal import harmless_lines, shielded

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner

LOGGER = logging.getLogger("latecomer")
"""The parent of the loggers of all modules."""
MOMENT = 0.3
"""A step is shown if it takes longer than this, in seconds."""
NEWS = 15.0
"""The seconds between two lines with news of a step; on a terminal, news is shown at once."""
STILL = 60.0
"""A step without news is shown again after so many seconds, then after twice as many, and so on."""


def current() -> Display:
    """The display of the command that runs."""
    displays = (each.display for each in LOGGER.handlers if isinstance(each, DisplayHandler))
    return next(displays, None) or Display(sys.stderr)


class DisplayHandler(logging.Handler):
    """Shows the records of the library on the display."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.INFO)
        self.display = display

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.display.warn(record.getMessage(), **getattr(record, "latecomer", {}))
        else:
            self.display.show(record.getMessage(), str(record.msg))


class Display:
    """Shows what is being done now. A `line` stays; the step itself is cleared in the end."""

    def __init__(self, stream: TextIO, quiet: bool = False) -> None:
        self.stream = stream
        self.quiet = quiet
        self.live: Live | None = None
        self.status: Callable[[], str] = str
        """The text below the step on a terminal; called for each drawing."""
        self.watermark: Callable[[], str] = str
        """How far the watermark is, for a step that lasts; called for each line."""
        self._lock = threading.RLock()
        self._text, self._step, self._began = "", "", 0.0
        self._printed, self._printed_step, self._printed_at, self._patience = "", "", -NEWS, STILL
        self._resting = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def on_terminal(self) -> bool:
        return self.stream.isatty()

    def show(self, text: str, step: str | None = None) -> None:
        """Show what is being done from now on; `step` is the same for all news of a step."""
        with self._lock:
            if (step or text) != self._step:
                self._step, self._began, self._patience = step or text, time.monotonic(), STILL
            self._text = text
            if self._thread is None and not self.quiet:
                self._resting.clear()
                shown = self._on_terminal if self.on_terminal else self._in_lines
                self._thread = threading.Thread(target=shown, name="latecomer-progress", daemon=True)
                self._thread.start()

    def line(self, text: str) -> None:
        """Print a line that stays."""
        with self._lock:
            if self.live is None:
                print(text, file=self.stream, flush=True)
            else:
                self.live.console.print(harmless_lines(text), markup=False, highlight=False, soft_wrap=True)

    def warn(self, message: str, **_: Any) -> None:
        """Print a warning. Its fields are for programs."""
        self.line(f"warning: {message}")

    def rest(self) -> None:
        """Show nothing until the next step."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._resting.set()
            thread.join()

    def _in_lines(self) -> None:
        while not self._resting.wait(MOMENT / 2):
            with self._lock:
                now = time.monotonic()
                took, since = now - self._began, now - self._printed_at
                news = self._text != self._printed and (since >= NEWS or self._step != self._printed_step)
                still = since >= self._patience
                if took >= MOMENT and (news or still):
                    self.line(self._text if took < NEWS else self._still(took))
                    self._printed, self._printed_step, self._printed_at = self._text, self._step, now
                    self._patience *= 2 if still else 1

    def _still(self, took: float) -> str:
        watermark = self.watermark()
        return f"{self._text} ({took:.0f} s)" + (f", {watermark}" if watermark else "")

    def _on_terminal(self) -> None:
        if self._resting.wait(MOMENT):
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
            self._resting.wait()
            with self._lock:
                self.live = None

    def _rendered(self, spinner: Spinner) -> Spinner:
        from rich.text import Text

        with self._lock:
            lines = [f"{self._text}  {time.monotonic() - self._began:.0f} s", *self.status().splitlines()]
        spinner.update(text=Text(harmless_lines("\n".join(lines))))
        return spinner


@contextmanager
def own_stderr() -> Iterator[TextIO]:
    """Standard error under a descriptor of its own: descriptors 1 and 2 are redirected while the JVM starts."""
    try:
        number = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # it is captured, and not a file
        yield sys.stderr
        return
    sys.stderr.flush()
    with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as stream:
        yield shielded(stream)


class GivingWay:
    """A stream that clears the live line before it writes."""

    def __init__(self, stream: TextIO, display: Display) -> None:
        self._stream = stream
        self._display = display

    def write(self, text: str) -> int:
        self._display.rest()
        return self._stream.write(text)

    @property
    def rich_proxied_file(self) -> GivingWay:
        """The stream that Rich draws on: the terminal itself, which clears the live line as well."""
        return GivingWay(getattr(self._stream, "rich_proxied_file", self._stream), self._display)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
