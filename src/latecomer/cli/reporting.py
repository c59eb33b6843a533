"""What a command reports while it runs: steps and warnings, as text or as JSON, on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO, cast

from latecomer.cli.json_log import JsonDisplay, JsonLines
from latecomer.cli.steps import LOGGER, Display, DisplayHandler, GivingWay, own_stderr


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
