"""What a run keeps in mind of sources, for the one after it.

Whose turn it is: of several sources, the one whose batch is being logged. A batch that was interrupted in the log has a
number and not yet a place on the timeline. Only its own source may hand it in again: what another handed in under that
number would be taken for logged.

Which are away: those that could not be asked, and have not been read since as far as they had come. None of their
partitions is silent.
"""

from __future__ import annotations

import json

from latecomer.errors import StoreError
from latecomer.store import files
from latecomer.store.files import Location

_RECORD = "turn.json"
_AWAY = "away.json"


def take_turn(root: Location, source: str) -> None:
    """Write down, durably, that the next batch is of this source, unless that is written already."""
    if files.exists(root / "sources" / _RECORD) and whose_turn(root) == source:
        return
    files.make_folder(root / "sources")
    files.replace_text(root / "sources" / _RECORD, json.dumps({"source": source}) + "\n")


def whose_turn(root: Location) -> str:
    """The source that the last batch belongs to."""
    try:
        return str(json.loads(files.read_text(root / "sources" / _RECORD))["source"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"store {root}: sources/{_RECORD} cannot be read ({error}), and a batch that was interrupted belongs to "
            "the source it names; restore it"
        ) from None


def keep_away(root: Location, sources: frozenset[str]) -> None:
    """Write down, durably, which sources are away."""
    files.make_folder(root / "sources")
    files.replace_text(root / "sources" / _AWAY, json.dumps(sorted(sources)) + "\n")


def sources_away(root: Location) -> frozenset[str]:
    """Those that are away. Where that cannot be read none is: then silence counts too early, and not never."""
    try:
        return frozenset(map(str, json.loads(files.read_text(root / "sources" / _AWAY))))
    except (OSError, ValueError, TypeError):
        return frozenset()
