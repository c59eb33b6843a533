"""What happens in a Python worker of Spark's: a kernel is called, and what comes of it goes back."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from latecomer.errors import LatecomerError, StoreError


@dataclass(frozen=True)
class Done:
    """What came of a task, and how long it took."""

    result: Any
    seconds: float
    error: Exception | None = None
    """What went wrong, where that is not Spark's to try again."""


def done(kernel: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Done]:
    """Call a kernel for each task. What latecomer itself says, or the operating system, is handed back as it is; anything
    else fails the task, and Spark tries it again."""
    for task in tasks:
        began = time.perf_counter()
        try:
            result, error = kernel(task), None
        except (LatecomerError, OSError) as raised:
            result, error = None, _portable(raised)
        yield Done(result, time.perf_counter() - began, error)


def _portable(error: Exception) -> Exception:
    """An error that another process can raise."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # whatever a class does in its constructor
        return StoreError(str(error))
    return error
