"""Problems of a source, with fields under the names that they have where there are several sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from latecomer.config.models import Pipeline
from latecomer.errors import Problem

_PLACES = re.compile(r"\b(source|columns|watermark)(?=\.|: \{)|\bevent\.(?=zone\b|unit\b)")
"""The settings of a source, where there is only one."""


def place_in(source: str, text: str) -> str:
    """A field, or a text that names fields, with the names that they have where there are several sources.

    >>> place_in("app", "add source.files.unit or event.unit"), place_in("", "source.schema")
    ('add sources.app.files.unit or sources.app.unit', 'source.schema')
    """
    if not source:
        return text
    return _PLACES.sub(lambda field: _placed(source, field), text)


def _placed(source: str, field: re.Match[str]) -> str:
    what = field[1]
    return f"sources.{source}" if what == "source" else f"sources.{source}.{what or ''}"


def in_each_source(pipeline: Pipeline, check: Callable[[Pipeline], Iterable[Problem]]) -> list[Problem]:
    """The problems that a check finds in the pipeline's view of each source."""
    return [in_source(name, problem) for name, view in pipeline.views.items() for problem in check(view)]


def in_source(name: str, problem: Problem) -> Problem:
    """A problem found in the view of a source, with the fields of the whole pipeline."""
    if not name:
        return problem
    return replace(
        problem,
        field=place_in(name, problem.field),
        message=place_in(name, problem.message),
        fix=problem.fix and place_in(name, problem.fix),
    )
