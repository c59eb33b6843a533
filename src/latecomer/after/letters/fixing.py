"""The arguments of a replay of dead letters, from the command line or from Python. Corrected texts are JSON, one object
for each letter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from latecomer.after.letters.choosing import Choice, Place, Texts
from latecomer.config.arguments import path_of
from latecomer.errors import PipelineError, Problem
from latecomer.source.fixes import Fix

COLUMN = "column:"
KEYS = {
    "format": "how the event time is written, a pattern such as dd/MM/yyyy HH:mm:ss",
    "unit": "the unit of an event time that is a number: s, ms, us or ns",
    "column:NAME": "SQL for a column, over the record's columns, each of them text",
    "raw": "SQL for the corrected text of the record, over the columns of the dead letter",
    "text": "a file of corrected texts",
}
"""The keys of a fix."""
_TEXTS_FIX = (
    "give objects with batch, origin and position, as latecomer dead-letters FILE -f json prints them, and the "
    "corrected text in raw"
)


def asked_for(
    where: str | None, fix: Mapping[str, Any], place: str, source: str | None = None
) -> tuple[Choice, Fix]:
    """Which dead letters to replay, and the fix for them. `place` is where the arguments were given, for errors."""
    unknown = [key for key in fix if key not in KEYS and not key.startswith(COLUMN)]
    if unknown:
        known = ", ".join(KEYS)
        raise PipelineError(
            [Problem(key, "is no fix", fix[key], f"write one of {known}", place) for key in unknown]
        )
    texts = None if fix.get("text") is None else _texts(fix["text"], place)
    if texts is not None and fix.get("raw") is not None:
        problem = Problem("raw", "cannot be beside text", fix["raw"], "leave one of them out", place)
        raise PipelineError([problem])
    columns = {key.removeprefix(COLUMN): value for key, value in fix.items() if key.startswith(COLUMN)}
    given = {"where": where, "format": fix.get("format"), "unit": fix.get("unit"), "raw": fix.get("raw")}
    wrong = [
        Problem(name, "has the wrong kind of value", value, "give text", place)
        for name, value in [*given.items(), *((f"{COLUMN}{name}", each) for name, each in columns.items())]
        if not isinstance(value, str) and not (value is None and name in given)
    ]
    if wrong:
        raise PipelineError(wrong)
    return Choice(where, fix.get("raw"), texts, source), Fix(fix.get("format"), fix.get("unit"), columns)


def _texts(given: object, place: str) -> Texts:
    if isinstance(given, str | Path):
        try:
            written = path_of(place, "text", given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            fix = "name a file of corrected texts"
            problem = Problem("text", f"cannot be read: {reason}", str(given), fix, place)
            raise PipelineError([problem]) from None
        return _parsed_texts(written, place)
    if isinstance(given, Sequence):
        return _texts_of(given, place)
    fix = "give a file of corrected texts, or a list of them"
    raise PipelineError([Problem("text", "has the wrong kind of value", given, fix, place)])


def _parsed_texts(written: str, place: str) -> Texts:
    """The texts in a file: a JSON array of objects, or an object a line."""
    try:
        if written.lstrip().startswith("["):
            rows = json.loads(written)
        else:
            rows = [json.loads(line) for line in written.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise PipelineError([Problem("text", f"is not JSON: {error}", None, _TEXTS_FIX, place)]) from None
    return _texts_of(rows, place)


def _texts_of(rows: Iterable[Any], place: str) -> Texts:
    """The texts by the dead letter that each belongs to."""
    texts: dict[Place, str] = {}
    for nth, row in enumerate(rows, start=1):
        named = _named(row)
        if named is None:
            raise PipelineError(
                [Problem(f"text {nth}", "does not name a dead letter", row, _TEXTS_FIX, place)]
            )
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
