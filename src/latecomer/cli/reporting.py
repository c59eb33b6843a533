"""What a command reports while it runs: steps and warnings, on standard error, as text or, with `run --log json`, as
one JSON object a line, for programs that collect logs."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, TextIO, cast

from latecomer.cli.steps import LOGGER, Display, DisplayHandler, GivingWay, own_stderr
from latecomer.errors.redacting import without_secrets


@contextmanager
def reporting(quiet: bool = False, as_json: bool = False) -> Iterator[Display]:
    """For a whole command: steps are shown and warnings printed; where `quiet`, warnings alone."""
    with ExitStack() as stack:
        stream = stack.enter_context(own_stderr())
        display = Display(stream, quiet)
        if as_json:
            display = as_lines = JsonDisplay(stream, quiet)
            stack.enter_context(redirect_stderr(cast(TextIO, JsonLines(as_lines))))
        stack.callback(display.rest)
        if not as_json and stream.isatty():
            stack.enter_context(redirect_stdout(cast(TextIO, GivingWay(sys.stdout, display))))
            stack.enter_context(redirect_stderr(cast(TextIO, GivingWay(sys.stderr, display))))
        handler, level = DisplayHandler(display), LOGGER.level
        stack.callback(LOGGER.setLevel, level)
        stack.callback(LOGGER.removeHandler, handler)
        LOGGER.addHandler(handler)
        LOGGER.setLevel(logging.INFO)
        yield display


# As JSON


class LogFormat(StrEnum):
    """The format of what a run writes on standard error."""

    TEXT = "text"
    JSON = "json"


_LEVELS = {"error: ": "error", "unexpected: ": "error", "warning: ": "warning", "note: ": "info"}


def is_wanted(arguments: list[str]) -> bool:
    """Whether a command line asks for JSON. It is known before the command line is parsed, which may fail.

    >>> is_wanted(["run", "file", "--log", "json"]), is_wanted(["run", "file", "--log=json"]), is_wanted(["run"])
    (True, True, False)
    """
    pairs = pairwise(arguments)
    return "run" in arguments and ("--log=json" in arguments or ("--log", "json") in pairs)


class JsonDisplay(Display):
    """Writes everything as JSON. Each object has `time`, `level` and `event`; most have a `message`."""

    def __init__(self, stream: TextIO, quiet: bool = False) -> None:
        super().__init__(stream, quiet)
        self._writing = threading.Lock()
        self._shown = ""

    @property
    def on_terminal(self) -> bool:
        return False

    def say(self, level: str, event: str, message: str | None = None, **fields: Any) -> None:
        """One line."""
        if self.quiet and level == "info":
            return
        text = {} if message is None else {"message": message}
        record = {"time": _now(), "level": level, "event": event, **text, **fields}
        line = json.dumps(_without_secrets(record), default=str)
        with self._writing:
            print(line, file=self.stream, flush=True)

    def show(self, text: str, step: str | None = None) -> None:
        """Log a step once, without its news: batches show those."""
        if (step or text) != self._shown:
            self._shown = step or text
            self.say("info", "step", text)

    def warn(self, message: str, **fields: Any) -> None:
        self.say("warning", fields.pop("event", "warning"), message, **fields)

    def line(self, text: str) -> None:
        """A line that was meant for people."""
        prefix = next((each for each in _LEVELS if text.startswith(each)), "")
        level = _LEVELS.get(prefix, "info")
        self.say(level, "message" if level == "info" else level, text.removeprefix(prefix))

    def rest(self) -> None:
        """JSON has no live line to remove."""


class JsonLines:
    """Replaces standard error: what one call prints becomes one object."""

    encoding = "utf-8"

    def __init__(self, display: JsonDisplay) -> None:
        self._display = display
        self._begun = ""

    def write(self, text: str) -> int:
        self._begun += text
        if self._begun.endswith("\n"):
            self.flush()
        return len(text)

    def flush(self) -> None:
        text, self._begun = self._begun.rstrip("\n"), ""
        if text.strip():
            self._display.line(text)

    def isatty(self) -> bool:
        return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {key: _without_secrets(each) for key, each in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, list | tuple) else value
