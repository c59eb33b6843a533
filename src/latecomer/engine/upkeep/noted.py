"""When a store was last kept in shape, as it is written down there: a run that ends and starts again goes by it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from latecomer.store.files import Location, read_text, replace_text

UPKEEP = "upkeep.json"


@dataclass(frozen=True)
class Noted:
    """A moment, in seconds since the epoch."""

    at: float
    done: bool
    """Whether the store was kept in shape then; else a run began to count there."""


def noted_upkeep(store: Location) -> Noted | None:
    """What is written down; None where nothing is that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(read_text(store / UPKEEP))
        return Noted(float(found["at"]), bool(found["done"]))
    return None


def note_upkeep(store: Location, noted: Noted) -> None:
    """Write it down."""
    replace_text(store / UPKEEP, json.dumps(asdict(noted)))
