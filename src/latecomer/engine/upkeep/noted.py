"""The note in a store of when its last upkeep was: a run that starts again counts from there."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from latecomer.store.files import Location, read_text, replace_text

UPKEEP = "upkeep.json"


@dataclass(frozen=True)
class UpkeepNote:
    """A moment, in seconds since the epoch."""

    at: float
    done: bool
    """Whether upkeep was done then; if not, a run began to count there."""


def read_upkeep_note(store: Location) -> UpkeepNote | None:
    """The note; None where there is none that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads(read_text(store / UPKEEP))
        return UpkeepNote(float(note["at"]), bool(note["done"]))
    return None


def write_upkeep_note(store: Location, noted: UpkeepNote) -> None:
    replace_text(store / UPKEEP, json.dumps(asdict(noted)))
