"""Corrected texts of dead letters, as people write them: JSON, one object for each letter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from latecomer.errors import PipelineError, Problem

Place = tuple[int, str, int]
"""Batch, origin and position, as `latecomer dead-letters` shows them."""
Texts = Mapping[Place, str]
_FIX = (
    "give objects with batch, origin and position, as latecomer dead-letters FILE -f json prints them, and the "
    "corrected text in raw"
)


def parsed_texts(written: str, place: str) -> Texts:
    """The texts in a file: a JSON array of objects, or an object a line."""
    try:
        if written.lstrip().startswith("["):
            rows = json.loads(written)
        else:
            rows = [json.loads(line) for line in written.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise PipelineError([Problem("text", f"is not JSON: {error}", None, _FIX, place)]) from None
    return texts_of(rows, place)


def texts_of(rows: Iterable[Any], place: str) -> Texts:
    """The texts by the dead letter that each belongs to."""
    texts: dict[Place, str] = {}
    for nth, row in enumerate(rows, start=1):
        named = _named(row)
        if named is None:
            raise PipelineError([Problem(f"text {nth}", "does not name a dead letter", row, _FIX, place)])
        letter, raw = named
        if not raw.strip():
            raise PipelineError([Problem(f"text {nth}", "is blank", raw, "leave the letter out", place)])
        if letter in texts:
            raise PipelineError(
                [Problem(f"text {nth}", "is a second one for the same letter", row, "leave one out", place)]
            )
        texts[letter] = raw
    return texts


def _named(row: Any) -> tuple[Place, str] | None:
    if not isinstance(row, Mapping):
        return None
    batch, origin, position, raw = (row.get(name) for name in ("batch", "origin", "position", "raw"))
    if type(batch) is not int or type(position) is not int:
        return None
    if not isinstance(origin, str) or not isinstance(raw, str):
        return None
    return (batch, origin, position), raw
