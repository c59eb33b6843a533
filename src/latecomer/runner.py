"""What runs kernels: Spark (`spark/runner.py`), or this process, for tests and for verbs on small stores.

A runner has one method. It takes a kernel and tasks, and gives what the kernel makes of each, in their order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

_Value = TypeVar("_Value")
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Runner(Protocol):
    """Runs kernels."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    def run(self, what: str, kernel: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """What a kernel makes of each task; `what` is for people who watch."""


class InProcess:
    """Runs kernels in this process, one task after the other."""

    cores = 1

    def run(self, what: str, kernel: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        return [kernel(task) for task in tasks]


class Shared(Generic[_Value]):
    """A value that all tasks of a run share, such as the pipeline: it is pickled once, and made once in each worker."""

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
    return Shared(pickle.loads(pickled))  # noqa: S301 - it is this run's own


def shared_out(tasks: Iterable[_Task], size: Callable[[_Task], int], parts: int) -> list[list[_Task]]:
    """Things to do in at most so many parts of about one size, in order within each: the largest are handed out first.

    >>> shared_out([5, 1, 4, 2], lambda each: each, 2)
    [[5, 1], [4, 2]]
    """
    every = list(enumerate(tasks))
    groups: list[list[tuple[int, _Task]]] = [[] for _ in range(min(parts, len(every)))]
    sizes = [0] * len(groups)
    for nth, task in sorted(every, key=lambda each: -size(each[1])):
        least = sizes.index(min(sizes))
        groups[least].append((nth, task))
        sizes[least] += size(task) + 1
    return [[task for _, task in sorted(group, key=lambda each: each[0])] for group in groups]
