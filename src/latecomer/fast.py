"""The fast path: a batch that is small enough is computed in this process, without a job of Spark's (ADR 0056).

It knows the common case, and that exactly. Whatever is not in it raises `Declined`, and the same step is done by Spark
SQL, which has the same result. `LATECOMER_FAST=off` has Spark do all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

VARIABLE = "LATECOMER_FAST"
MOST_ROWS = 1_000_000
"""So many rows of a batch, or of open states, are held in this process."""
MOST_READ = 256 << 20
"""So many bytes of files are read in this process for a batch."""
MOST_JUDGED = 10_000_000
"""So many rows of the log are judged again in this process, a part at a time."""
MOST_AT_ONCE = 250_000
"""So many of them are held at a time."""
_TOLD = 3
_Result = TypeVar("_Result")


class Declined(Exception):
    """This is not the common case: Spark does it. The message is the reason, in words."""


@dataclass(frozen=True)
class LeftToSpark:
    """What came of a step that is not the common case."""

    reason: str


def attempted(step: Callable[[], _Result]) -> _Result | LeftToSpark:
    """What the fast path makes of a step, if it can."""
    try:
        return step()
    except Declined as declined:
        return LeftToSpark(str(declined))
    except pa.ArrowException as error:  # what Arrow cannot do is not in the common case
        return LeftToSpark(f"Arrow says: {str(error).partition(chr(10))[0]}")


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            return column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def is_on() -> bool:
    """Whether the fast path may be used."""
    return os.environ.get(VARIABLE, "on").strip().lower() not in ("off", "0", "false", "no")


class Choice:
    """Which way the steps of a run went, and why not the fast one."""

    def __init__(self) -> None:
        self.fast: dict[str, int] = {}
        """How often each step went the fast way."""
        self.declined: dict[str, dict[str, int]] = {}
        """How often each step was left to Spark, by reason."""

    def in_words(self) -> str | None:
        """How much went the fast way, and why the rest did not; None where nothing was done.

        >>> choice = Choice()
        >>> choice.take("log", lambda: 1, lambda: 2)
        1
        >>> choice.in_words()
        'all 1 steps without Spark'
        """
        here, reasons = sum(self.fast.values()), self._reasons()
        left = sum(reasons.values())
        if not left:
            return f"all {here} steps without Spark" if here else None
        often = sorted(reasons, key=lambda reason: -reasons[reason])
        return f"{here} of {here + left} steps without Spark; Spark for {', '.join(often[:_TOLD])}"

    def _reasons(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for reasons in self.declined.values():
            for reason, count in reasons.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def take(self, step: str, fast: Callable[[], _Result], spark: Callable[[], _Result]) -> _Result:
        """What the fast path makes of a step, or what Spark does."""
        done = attempted(fast) if is_on() else LeftToSpark(f"{VARIABLE} is off")
        if isinstance(done, LeftToSpark):
            self.leave(step, done)
            return spark()
        self.fast[step] = self.fast.get(step, 0) + 1
        return done

    def leave(self, step: str, left: LeftToSpark) -> None:
        """Note that a step, or a part of one, is Spark's."""
        reasons = self.declined.setdefault(step, {})
        reasons[left.reason] = reasons.get(left.reason, 0) + 1
