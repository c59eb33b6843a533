"""Spark's errors, in few words."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from latecomer.errors import StoreError, shortened
from latecomer.errors.system import refused, refused_in_words, refused_sentence

SPARK_ERRORS = (PySparkException, Py4JJavaError)
LONGEST = 300
SAME_PACKAGES = (
    "give executors the driver's packages: latecomer cluster pack makes an archive of them and prints what to pass to "
    "Spark (docs/cluster.md)"
)
_TRACEBACK = "Traceback (most recent call last):"
_NO_WORKER = "Error from python worker:"
_JAVA_SCRATCH = "/tmp"  # noqa: S108 - where Spark writes unless it is set otherwise
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def explained(doing: str) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """A decorator: errors of Spark and of files become one sentence."""

    def decorated(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @functools.wraps(function)
        def explaining(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            try:
                return function(*args, **kwargs)
            except (*SPARK_ERRORS, OSError, pa.ArrowException) as error:
                places = list(_folders_in((*args, *kwargs.values())))
                raise StoreError(f"{doing} failed: {in_words(error, places)}") from error

        return explaining

    return decorated


def in_words(error: Exception, written: Iterable[Path]) -> str:
    """What went wrong: what the operating system refused, in one of the folders `written` or in Spark's own; else the
    root cause."""
    if (sentence := refusal(error, written)) is not None:
        return sentence
    *_, innermost = [first_line(error), *causes(error)]
    return innermost


def refusal(error: Exception, written: Iterable[Path]) -> str | None:
    """What the operating system refused, where, and what to do; None for any other error."""
    places = [*written, *scratch_folders()]
    if not isinstance(error, SPARK_ERRORS):
        return refused_sentence(error, places)
    chain = list(causes(error))
    for cause in reversed(chain):
        if (sentence := refused_sentence(cause, places)) is not None:
            return sentence
    if any(cause.startswith("IOException") for cause in chain):
        # Hadoop gives no reason where it could not make a folder or rename a file.
        return next((refused_in_words(reason, place) for place, reason in refused(places)), None)
    return None


def scratch_folders() -> list[Path]:
    """The folders of this machine in which Spark shuffles and spills."""
    named = os.environ.get("SPARK_LOCAL_DIRS", _JAVA_SCRATCH)
    return [Path(folder) for folder in named.split(",") if folder]


def _folders_in(arguments: Iterable[Any]) -> Iterator[Path]:
    """The stores and folders among a function's arguments."""
    for argument in arguments:
        if isinstance(argument, Path):
            yield argument
        elif hasattr(argument, "store_path"):
            yield argument.store_path
        elif hasattr(argument, "store"):
            yield argument.store.root


def first_line(error: BaseException) -> str:
    """Spark's message, without the plan and the trace after it."""
    message = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    return _line(str(message).strip() or type(error).__name__)


def causes(error: BaseException) -> Iterator[str]:
    """The Java exceptions behind an error, each with its kind and message, the innermost last."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while java is not None:
        yield _line(f"{java.getClass().getSimpleName()}: {java.getMessage()}")
        java = java.getCause()


def _line(text: str) -> str:
    """The first line; of a Python traceback the last line, which has the error. Where an executor's Python does not
    start, what it said."""
    if said := text.partition(_NO_WORKER)[2].strip():
        return f"an executor's Python does not start ({shortened(said.splitlines()[0], LONGEST)}); {SAME_PACKAGES}"
    lines = text.strip().split("\n\n")[0].splitlines()
    line = lines[-1] if any(_TRACEBACK in each for each in lines) else lines[0]
    return shortened(line, LONGEST)
