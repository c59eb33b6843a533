"""What runs in Spark's Python workers: kernels are called, and their results are sent back."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from latecomer.errors import LatecomerError, StoreError
from latecomer.spark.base import Buckets

_Part = tuple[int, Any]
"""The number of a task, and something that it made."""


@dataclass(frozen=True)
class TaskResult:
    """The result of a task or a bucket, and how long it took."""

    result: Any
    seconds: float
    error: Exception | None = None
    """An error that Spark must not retry."""
    of_bucket: bool = False


def run_kernel(kernel: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[TaskResult]:
    """Call a kernel for each task. Errors of latecomer and of the operating system are sent back. Any other error
    fails the task, and Spark retries it."""
    for task in tasks:
        began = time.perf_counter()
        try:
            result, error = kernel(task), None
        except (LatecomerError, OSError) as raised:
            result, error = None, _portable(raised)
        yield TaskResult(result, time.perf_counter() - began, error)


def by_bucket(kernel: Callable[[Any], Any], nth: int, tasks: Iterable[Any]) -> Iterator[tuple[int, _Part]]:
    """What a kernel makes of task `nth`, by bucket. The task's own result goes with bucket 0."""
    for each in run_kernel(kernel, tasks):
        parted = each.result
        yield 0, (nth, each if each.error is not None else replace(each, result=parted.result))
        if each.error is None:
            yield from ((bucket, (nth, part)) for bucket, part in parted.parts.items())


def merged(buckets: Buckets, nth: int, found: Iterable[tuple[int, _Part]]) -> Iterator[TaskResult]:
    """The result of a bucket; with bucket 0, the results of the tasks, too. A shuffle gives the parts in any order:
    they are sorted by task, so that every attempt does the same."""
    parts = []
    for _, each in sorted((part for _, part in found), key=itemgetter(0)):
        if isinstance(each, TaskResult):
            yield each
        else:
            parts.append(each)
    for each in run_kernel(lambda task: buckets.kernel(task, parts), [buckets.tasks[nth]]):
        yield replace(each, of_bucket=True)


def in_one(kernel: Callable[[Any], Any], buckets: Buckets, tasks: Iterable[Any]) -> Iterator[TaskResult]:
    """The same in one task, without a shuffle."""
    return merged(buckets, 0, by_bucket(kernel, 0, tasks))


def _portable(error: Exception) -> Exception:
    """The error, if it can be pickled; else a `StoreError` with its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled right here
    except Exception:  # a constructor may raise anything
        return StoreError(str(error))
    return error
