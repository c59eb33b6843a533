"""What a run writes down about several sources, for the next run.

The turn: the source whose batch is being logged, or the parts of sources that are read together. A batch that was
interrupted in the log has a number, but no place on the timeline yet. Under that number only the same rows may be
handed in again: any others would be taken for logged.

The sources that are away: those that did not answer, and have not been read since up to their last position. None of
their partitions counts as silent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import NamedTuple

from latecomer.errors import StoreError
from latecomer.model.source_order import BegunSlices, ReadTo
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.holding.fences import rewrite

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
    """How far each source is read with this turn."""

    @property
    def sources(self) -> set[str]:
        return {self.source, *(part.source for part in self.parts)} - {""}


def take_turn(root: Location, turn: Turn) -> None:
    """Write, durably, what the next batch is made of, unless that is written already."""
    if files.exists(root / SOURCES / TURN) and whose_turn(root) == turn:
        return
    content = {"source": turn.source} if turn.source else {"parts": turn.parts, "read_to": turn.read_to}
    files.make_folder(root / SOURCES)
    rewrite(root / SOURCES / TURN, json.dumps(content, default=asdict) + "\n")


def whose_turn(root: Location) -> Turn:
    """What the last batch was made of."""
    try:
        written = json.loads(files.read_text(root / SOURCES / TURN))
        if "source" in written:
            return Turn(str(written["source"]))
        read_to = {
            name: ReadTo(batch, BegunSlices(**begun)) for name, (batch, begun) in written["read_to"].items()
        }
        return Turn(parts=[TurnPart(*each) for each in written["parts"]], read_to=read_to)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"store {root}: {SOURCES}/{TURN} cannot be read ({error}), and a batch that was interrupted is made of "
            "what it names; restore it"
        ) from None


def write_away(root: Location, sources: frozenset[str]) -> None:
    """Write, durably, which sources are away."""
    files.make_folder(root / SOURCES)
    rewrite(root / SOURCES / AWAY, json.dumps(sorted(sources)) + "\n")


def sources_away(root: Location) -> frozenset[str]:
    """The sources that are away; none where that cannot be read: then their silence counts too early, at worst."""
    try:
        return frozenset(map(str, json.loads(files.read_text(root / SOURCES / AWAY))))
    except (OSError, ValueError, TypeError):
        return frozenset()
