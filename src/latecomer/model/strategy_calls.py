"""Calls the methods of a strategy, which may be user-defined. Its exceptions, and results that make no sense, are
reported as mistakes in the class."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from operator import index
from typing import Any

from latecomer.errors import PipelineError, Problem
from latecomer.model.strategies import State, Strategy, TickSummary
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

_NOTHING_LOST = "the batch is not on the timeline yet, and nothing is lost"


def advanced(strategy: Strategy, state: State, summary: TickSummary) -> State:
    """A partition's state after a tick."""
    own, name = strategy.own(summary.partition)
    return _answer(own.advance, state, summary if own is strategy else replace(summary, partition=name))


def mark_of(strategy: Strategy, state: State, partition: str) -> int:
    """A partition's own watermark; BEGIN_OF_TIME as long as it has none.

    A watermark before BEGIN_OF_TIME counts as none.
    """
    own, name = strategy.own(partition)
    mark = None if state is None else _answer(own.mark, state, name)
    if mark is None:
        return BEGIN_OF_TIME
    whole = _whole(mark)
    if whole is None or whole >= END_OF_TIME:
        fix = f"return microseconds since the epoch, up to the year 9999, or None; {_NOTHING_LOST}"
        raise _refused(
            f"what {_name(own.mark)} returned for partition {partition!r} is not a moment", mark, fix
        )
    return max(whole, BEGIN_OF_TIME)


def lag_of(strategy: Strategy, state: State, partition: str) -> int:
    """How far the watermark stays behind the clock for a partition, once all partitions are silent."""
    own, name = strategy.own(partition)
    lag = _answer(own.lag, state, name)
    whole = _whole(lag)
    if whole is None or whole < 0:
        fix = f"return a number of microseconds, 0 or more; {_NOTHING_LOST}"
        raise _refused(
            f"what {_name(own.lag)} returned for partition {partition!r} is not a duration", lag, fix
        )
    return whole


def storable(state: State, partition: str) -> State:
    """The state; refused if storing it as JSON would change it."""
    if state is None or type(state) is int:
        return state
    try:
        is_storable = json.loads(json.dumps(state, allow_nan=False)) == state
    except (TypeError, ValueError):
        is_storable = False
    if is_storable:
        return state
    fix = "let advance return None, numbers, text, lists, or dicts with text for keys"
    raise _refused(f"the state of partition {partition!r} cannot be stored as JSON", state, fix)


def _answer(method: Callable[..., Any], *given: Any) -> Any:
    try:
        return method(*given)
    except Exception as error:
        if type(method.__self__).__module__ == Strategy.__module__:  # type: ignore[attr-defined]
            raise
        failed = f"{_name(method)} raised {type(error).__name__}: {error}"
        raise _refused(failed, None, f"fix the class and run again: {_NOTHING_LOST}") from error


def _whole(answer: object) -> int | None:
    """The result if it is a whole number of any type, else None."""
    if isinstance(answer, bool) or not hasattr(answer, "__index__"):
        return None
    return index(answer)


def _refused(problem: str, answer: object, fix: str) -> PipelineError:
    return PipelineError([Problem("watermark.strategy", problem, answer, fix)])


def _name(method: Callable[..., Any]) -> str:
    return f"{type(method.__self__).__name__}.{method.__name__}"  # type: ignore[attr-defined]
