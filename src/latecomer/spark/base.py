"""What runs kernels: Spark (`spark/runner.py`), or this process, for tests and for verbs on small stores.

A runner's `run` calls a kernel with each task, and gives the results in the order of the tasks. With buckets, the
kernel also gives parts for some of them, and a second kernel is called with the parts of each bucket.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from latecomer.model.counting import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Value = TypeVar("_Value")
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Parted(Generic[_Result]):
    """The result of a task, and its parts for buckets."""

    result: _Result
    parts: Mapping[int, Any] = field(default_factory=dict)
    """Bucket → what this task gives it."""


@dataclass(frozen=True)
class Buckets:
    """The buckets, and the kernel that is called with each."""

    kernel: Callable[[Any, list[Any]], Any]
    """Called with a bucket's own task, and the parts that all tasks gave it."""
    tasks: Sequence[Any]
    """One for each bucket."""


@dataclass(frozen=True)
class JobResults:
    """The results of all tasks and of all buckets, each in order."""

    tasks: list[Any]
    buckets: list[Any]


@dataclass
class TaskTotals:
    """What Spark's tasks have done for a run; all 0 without Spark."""

    jobs: int = 0
    tasks: int = 0
    seconds: float = 0.0
    """Spent in kernels, all tasks together."""
    rows: int = 0
    """How many rows of sources tasks have read."""

    def __add__(self, other: TaskTotals) -> TaskTotals:
        return TaskTotals(*map(add, astuple(self), astuple(other)))

    @property
    def in_words(self) -> str:
        """As a report shows it.

        >>> TaskTotals(2, 4, 1.234, 60_000).in_words
        'Spark ran 2 jobs with 4 tasks, which read 60,000 rows and took 1.2 s'
        """
        return (
            f"Spark ran {counted(self.jobs, 'job')} with {counted(self.tasks, 'task')}, which read "
            f"{counted(self.rows, 'row')} and took {self.seconds:,.1f} s"
        )


class Runner(Protocol):
    """Runs kernels."""

    work: TaskTotals

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    @property
    def spark(self) -> SparkSession:
        """A session, for what users have written in SQL."""

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> JobResults:
        """Run a kernel on tasks, and that of the buckets on these; `what` describes the job for people."""


class InProcess:
    """Runs kernels in this process, one task after the other."""

    cores = 1

    def __init__(self, spark: SparkSession) -> None:
        """`spark` is one that starts when it is needed (`spark/when_needed.py`), where it may not be needed at all."""
        self.spark = spark
        self.work = TaskTotals()

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> JobResults:
        results = [kernel(task) for task in tasks]
        if buckets is None:
            return JobResults(results, [])
        of_buckets = [
            buckets.kernel(task, [each.parts[nth] for each in results if nth in each.parts])
            for nth, task in enumerate(buckets.tasks)
        ]
        return JobResults([each.result for each in results], of_buckets)


class Shared(Generic[_Value]):
    """A value that all tasks of a run share, such as the pipeline: pickled once, and unpickled once in each worker."""

    pickler: ClassVar[Callable[[Any], bytes]] = pickle.dumps

    def __init__(self, value: _Value) -> None:
        self.value = value
        self._pickled: bytes | None = None

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        if self._pickled is None:
            self._pickled = Shared.pickler(self.value)
        return _restored, (self._pickled,)


@lru_cache(maxsize=32)
def _restored(pickled: bytes) -> Shared[Any]:
    return Shared(pickle.loads(pickled))  # noqa: S301 - pickled by this run


def task_count(size: int, least: int, most: int, cores: int) -> int:
    """How many tasks to make for a size: each between `least` and `most` if possible, and as many on each core.

    >>> [task_count(size, 4, 128, 2) for size in (1, 5, 8, 100, 257)]
    [1, 2, 2, 2, 4]
    """
    rounds = -(-size // (most * cores))
    return max(min(-(-size // least), rounds * cores), 1)


def in_turn_together(
    tasks: Iterable[_Task], size: Callable[[_Task], int], most: int
) -> Iterator[list[_Task]]:
    """Tasks in order, in groups of no more than `most` in size; a larger task is a group of its own.

    >>> list(in_turn_together([3, 1, 2, 9, 1], lambda each: each, 4))
    [[3, 1], [2], [9], [1]]
    """
    group, total = list[_Task](), 0
    for task in tasks:
        if group and total + size(task) > most:
            yield group
            group, total = [], 0
        group.append(task)
        total += size(task)
    if group:
        yield group


def shared_out(tasks: Iterable[_Task], size: Callable[[_Task], int], parts: int) -> list[list[_Task]]:
    """Tasks in at most so many groups of similar size, in order within each: the largest are assigned first.

    >>> shared_out([5, 1, 4, 2], lambda each: each, 2)
    [[5, 1], [4, 2]]
    """
    numbered = list(enumerate(tasks))
    groups: list[list[tuple[int, _Task]]] = [[] for _ in range(min(parts, len(numbered)))]
    sizes = [0] * len(groups)
    for nth, task in sorted(numbered, key=lambda each: -size(each[1])):
        least = sizes.index(min(sizes))
        groups[least].append((nth, task))
        sizes[least] += size(task) + 1
    return [[task for _, task in sorted(group, key=lambda each: each[0])] for group in groups]
