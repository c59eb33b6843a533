"""What a polled source has answered, in the store: a file for each answer, named by its number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from latecomer.store.files import names, read_text

FOLDER = "offsets"
"""Below the store."""


class Lost(NamedTuple):
    """Offsets that were gone before they were read."""

    partition: str
    since: int
    until: int


def last_answer(root: Path) -> tuple[int, Any]:
    """The last answer that was written down, and its number; -1 and None if there is none."""
    files = _files(root)
    return (int(files[-1].stem), json.loads(read_text(files[-1]))["until"]) if files else (-1, None)


def lost_offsets(root: Path) -> Iterator[Lost]:
    """What the source said was gone, in the order in which it said so."""
    for file in _files(root):
        text = read_text(file)
        until = json.loads(text)["until"] if '"lost"' in text else None
        if isinstance(until, dict) and isinstance(until.get("lost"), dict):
            yield from (Lost(partition, *gap) for partition, gap in until["lost"].items())


def _files(root: Path) -> list[Path]:
    folder = root / FOLDER
    return [folder / name for name in names(folder) if name.endswith(".json") and not name.startswith(".")]
