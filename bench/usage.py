"""What a process and those below it use."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor

import psutil


class Memory:
    """The most memory that a process and those below it held together, sampled; this process unless said."""

    def __init__(self, pid: int | None = None) -> None:
        self.peak = self.now = 0
        self._pid = pid
        self._done = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def stop(self) -> int:
        """The peak so far; it is no longer sampled."""
        self._done.set()
        return self.peak

    def _sample(self) -> None:
        while not self._done.wait(0.1):
            try:
                top = psutil.Process(self._pid)
                family = [top, *top.children(recursive=True)]
                self.now = sum(process.memory_info().rss for process in family)
                self.peak = max(self.peak, self.now)
            except psutil.NoSuchProcess:
                continue


def processor_seconds(but: Collection[int] = ()) -> float:
    """What this process and the JVM below it have used so far: steadier than the clock on a busy machine.

    `but` are processes below it that do somebody else's work.
    """
    me = psutil.Process()
    times = [each.cpu_times() for each in (me, *me.children(recursive=True)) if each.pid not in but]
    return sum(each.user + each.system for each in times)


def gain_of_two() -> float:
    """How much more two processes get done on this machine than one, at plain arithmetic."""
    with ProcessPoolExecutor(2) as pool:
        alone = min(pool.submit(_arithmetic).result() for _ in range(3))
        both = min(
            max(each.result() for each in [pool.submit(_arithmetic) for _ in range(2)]) for _ in range(3)
        )
    return 2 * alone / both


def _arithmetic() -> float:
    began = time.perf_counter()
    sum(number * number for number in range(10_000_000))
    return time.perf_counter() - began
