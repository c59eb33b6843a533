"""The answers of a polled source, in the store: a file for each answer, named by its number.

The number of an answer is that of the source's batch that it makes. Once that batch is accepted, only the next answer
needs it. Then earlier answers are removed, except those that report lost offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.holding.fences import write_once


class Lost(NamedTuple):
    """Offsets that were deleted before they were read."""

    partition: str
    since: int
    until: int


class SourceAnswer(NamedTuple):
    """How far the source has come with this answer, and how far it was before."""

    since: Any
    until: Any


@dataclass(frozen=True)
class SourceAnswers:
    """The answers in the store whose folder is `root`."""

    root: Location

    def last(self) -> int:
        """The number of the last answer; -1 if there is none."""
        return max(self.numbers(), default=-1)

    def read(self, number: int) -> SourceAnswer | None:
        """An answer, if there is one of that number."""
        file = self.file(number)
        return _answer_in(file, files.read_bytes(file)) if files.exists(file) else None

    def write(self, number: int, answer: SourceAnswer) -> None:
        """Write an answer down, durably."""
        files.make_folder(self._folder)
        write_once(self.file(number), json.dumps(answer._asdict()) + "\n")

    def forget(self, before: int) -> None:
        """Remove the answers that no batch needs any more."""
        for number in self.numbers():
            if number < before and not self._lost(number):
                files.remove(self.file(number))

    def lost(self) -> Iterator[Lost]:
        """The offsets that the source reported as lost, in that order."""
        for number in self.numbers():
            yield from self._lost(number)

    def _lost(self, number: int) -> list[Lost]:
        file = self.file(number)
        content = files.read_bytes(file)
        until = _answer_in(file, content).until if b'"lost"' in content else None
        if not isinstance(until, dict) or not isinstance(until.get("lost"), dict):
            return []
        with files.as_written(file):
            return [Lost(partition, *gap) for partition, gap in until["lost"].items()]

    def numbers(self) -> list[int]:
        """The numbers of the answers that are kept, in order."""
        stems = (PurePath(name).stem for name in files.names(self._folder) if name.endswith(".json"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def file(self, number: int) -> Location:
        return self._folder / f"{number:012}.json"

    @property
    def _folder(self) -> Location:
        return self.root / "offsets"


def _answer_in(file: Location, content: bytes) -> SourceAnswer:
    with files.as_written(file):
        answer = json.loads(content)
        return SourceAnswer(answer["since"], answer["until"])
