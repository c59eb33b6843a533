"""What happens in a Python worker of Spark's: a kernel is called, and what comes of it goes back."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

from latecomer.errors import LatecomerError, StoreError
from latecomer.spark.base import Buckets

_Part = tuple[int, Any]
"""Something that a task has made, and which task that was."""


@dataclass(frozen=True)
class Done:
    """What came of a task or a bucket, and how long it took."""

    result: Any
    seconds: float
    error: Exception | None = None
    """What went wrong, where that is not Spark's to try again."""
    of_bucket: bool = False


def done(kernel: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Done]:
    """Call a kernel for each task. What latecomer itself says, or the operating system, is handed back as it is.
    Anything else fails the task, and Spark tries it again."""
    for task in tasks:
        began = time.perf_counter()
        try:
            result, error = kernel(task), None
        except (LatecomerError, OSError) as raised:
            result, error = None, _portable(raised)
        yield Done(result, time.perf_counter() - began, error)


def by_bucket(kernel: Callable[[Any], Any], nth: int, tasks: Iterable[Any]) -> Iterator[tuple[int, _Part]]:
    """What a kernel makes of a task, by bucket; its own result goes with the first. `nth` says which task it is."""
    for each in done(kernel, tasks):
        parted = each.result
        yield 0, (nth, each if each.error is not None else replace(each, result=parted.result))
        if each.error is None:
            yield from ((bucket, (nth, part)) for bucket, part in parted.parts.items())


def merged(buckets: Buckets, nth: int, found: Iterable[tuple[int, _Part]]) -> Iterator[Done]:
    """What comes of a bucket; with the first, the results of the tasks. A shuffle hands over whatever is there first:
    the parts are put into the order of tasks, so that every attempt does the same."""
    parts = []
    for _, each in sorted((part for _, part in found), key=itemgetter(0)):
        if isinstance(each, Done):
            yield each
        else:
            parts.append(each)
    for each in done(partial(_of_bucket, buckets.kernel, parts), [buckets.tasks[nth]]):
        yield replace(each, of_bucket=True)


def _of_bucket(kernel: Callable[[Any, list[Any]], Any], parts: list[Any], task: Any) -> Any:
    return kernel(task, parts)


def in_one(kernel: Callable[[Any], Any], buckets: Buckets, tasks: Iterable[Any]) -> Iterator[Done]:
    """The same where one task does all of it: nothing is shuffled."""
    return merged(buckets, 0, by_bucket(kernel, 0, tasks))


def _portable(error: Exception) -> Exception:
    """An error that another process can raise."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # whatever a class does in its constructor
        return StoreError(str(error))
    return error
