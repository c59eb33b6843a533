"""The arguments of a replay of dead letters, from the command line or from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from latecomer.after.letters.choosing import Choice
from latecomer.after.letters.texts import Texts, parsed_texts, texts_of
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
            written = Path(given).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            fix = "name a file of corrected texts"
            problem = Problem("text", f"cannot be read: {reason}", str(given), fix, place)
            raise PipelineError([problem]) from None
        return parsed_texts(written, place)
    if isinstance(given, Sequence):
        return texts_of(given, place)
    fix = "give a file of corrected texts, or a list of them"
    raise PipelineError([Problem("text", "has the wrong kind of value", given, fix, place)])
