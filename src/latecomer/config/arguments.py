"""Checks of arguments in Python: a wrong one raises `PipelineError` with its name, its value and what to give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from latecomer.config.models import Pipeline
from latecomer.config.places import why_no_path
from latecomer.errors import PipelineError, Problem
from latecomer.model.durations import to_micros

Kinds = type | tuple[type, ...]
Refused = Callable[[str, str, str], Exception]
"""The error for an argument, by its name, what is wrong with it, and the fix."""


def refused_argument(
    call: str, name: str, reason: str, fix: str | None = None, value: object = None
) -> PipelineError:
    """The error for an argument of a function."""
    return PipelineError([Problem(name, reason, value, fix, f"{call}()")])


def require_kind(call: str, kinds: Kinds, wanted: str, **given: object) -> None:
    """Refuse arguments that have none of these types; `wanted` is what to give instead."""
    problems = [
        Problem(name, "has the wrong kind of value", value, f"give {wanted}", f"{call}()")
        for name, value in given.items()
        if not isinstance(value, kinds)
    ]
    if problems:
        raise PipelineError(problems)


def path_of(call: str, name: str, written: str | Path) -> Path:
    """The path in an argument, with ~ as the home folder."""
    if (wrong := why_no_path(str(written))) is not None:
        message, fix = wrong
        raise PipelineError([Problem(name, message, str(written), fix, call)])
    return Path(written).expanduser()


def require_pipeline(call: str, pipeline: object) -> None:
    require_kind(
        call, Pipeline, 'a Pipeline, such as load_pipeline("pipeline.yaml") returns', pipeline=pipeline
    )


def require_flags(call: str, **given: object) -> None:
    require_kind(call, bool, "True or False", **given)


def require_moments(call: str, **given: object) -> None:
    """Refuse arguments that are neither moments nor None."""
    wanted = "a datetime, UTC unless it has a zone, such as datetime(2026, 4, 25, 14, tzinfo=UTC)"
    require_kind(call, (datetime, type(None)), wanted, **given)


def require_order(
    since: datetime | None, until: datetime | None, shown: str, name: str, refused: Refused
) -> None:
    """Refuse a range that is empty. `shown` is what `since` is called, `name` what `until` is called."""
    if since is not None and until is not None and to_micros(since) >= to_micros(until):
        raise refused(name, f"is not after {shown}", "exchange them")


def require_key(call: str, key: object) -> None:
    """Refuse a key that is neither None nor columns with their values as text."""
    require_kind(call, (Mapping, type(None)), 'columns and their values, such as {"merchant": "m1"}', key=key)
    if isinstance(key, Mapping):
        wanted = "text, as the results show it, or None for null"
        require_kind(call, (str, type(None)), wanted, **{f"key {name}": value for name, value in key.items()})
