"""What a run keeps in mind of sources, for the one after it.

Whose turn it is: of several sources, the one whose batch is being logged, or the parts of those that are read together.
A batch that was interrupted in the log has a number and not yet a place on the timeline. Only the same may be handed in
again: what else was handed in under that number would be taken for logged.

Which are away: those that could not be asked, and have not been read since as far as they had come. None of their
partitions is silent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, NamedTuple

from latecomer.errors import StoreError
from latecomer.model.merging import Begun, ReadTo
from latecomer.store import files
from latecomer.store.fences import rewrite
from latecomer.store.files import Location

SOURCES = "sources"
TURN = "turn.json"
AWAY = "away.json"


class TurnPart(NamedTuple):
    """A batch of a source, or the part of it that came after a moment and until another."""

    source: str
    batch: int
    after: int | None = None
    until: int | None = None


class Turn(NamedTuple):
    """What the next batch is made of: a batch of one source, or parts of several."""

    source: str = ""
    parts: Sequence[TurnPart] = ()
    read_to: Mapping[str, ReadTo] = MappingProxyType({})
    """How far sources are read with these."""

    @property
    def sources(self) -> set[str]:
        return {self.source, *(part.source for part in self.parts)} - {""}


def take_turn(root: Location, turn: Turn) -> None:
    """Write down, durably, what the next batch is made of, unless that is written already."""
    if files.exists(root / SOURCES / TURN) and whose_turn(root) == turn:
        return
    about = {"source": turn.source} if turn.source else {"parts": turn.parts, "read_to": turn.read_to}
    text = json.dumps(about, default=asdict)
    files.make_folder(root / SOURCES)
    rewrite(root / SOURCES / TURN, text + "\n")


def whose_turn(root: Location) -> Turn:
    """What the last batch was made of."""
    try:
        return _read_turn(json.loads(files.read_text(root / SOURCES / TURN)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"store {root}: {SOURCES}/{TURN} cannot be read ({error}), and a batch that was interrupted is made of "
            "what it names; restore it"
        ) from None


def _read_turn(written: Mapping[str, Any]) -> Turn:
    if "source" in written:
        return Turn(str(written["source"]))
    read_to = {name: ReadTo(batch, Begun(**begun)) for name, (batch, begun) in written["read_to"].items()}
    return Turn(parts=[TurnPart(*each) for each in written["parts"]], read_to=read_to)


def keep_away(root: Location, sources: frozenset[str]) -> None:
    """Write down, durably, which sources are away."""
    files.make_folder(root / SOURCES)
    rewrite(root / SOURCES / AWAY, json.dumps(sorted(sources)) + "\n")


def sources_away(root: Location) -> frozenset[str]:
    """Those that are away. Where that cannot be read none is: then silence counts too early, and not never."""
    try:
        return frozenset(map(str, json.loads(files.read_text(root / SOURCES / AWAY))))
    except (OSError, ValueError, TypeError):
        return frozenset()
