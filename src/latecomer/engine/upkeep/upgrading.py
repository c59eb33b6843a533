"""A store of an earlier version, brought to the format of this one: by the numbered steps of `store/migrations.py`.

Every run takes these steps; here they are taken, or only listed, without a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from latecomer.engine.upkeep.copies import require_store
from latecomer.store.files import Location, read_text
from latecomer.store.holding.lock import BRIEFLY, exclusive
from latecomer.store.migrations import FORMAT, MEANINGS, STEPS, upgraded
from latecomer.store.pins import PINS, write_pins


@dataclass(frozen=True)
class FormatStep:
    """One step, from a format to the next."""

    before: int
    what: str
    changes: int
    """How many entries of `pipeline.json` are added or changed."""


def upgrade(root: Location, *, dry_run: bool = False) -> list[FormatStep]:
    """Take the steps that a store lacks, or only list them."""
    require_store(root)
    with exclusive(root, holder=BRIEFLY) if not dry_run else nullcontext():
        written = json.loads(read_text(root / PINS))
        steps = list(_steps(written))
        if steps and not dry_run:
            write_pins(root, upgraded(written))
    return steps


def _steps(written: Mapping[str, Any]) -> list[FormatStep]:
    before, steps = dict(written), []
    for number in range(written["format"], FORMAT):
        after = STEPS[number](before)
        steps.append(FormatStep(number, MEANINGS[number], _differences(before, after)))
        before = after
    return steps


def _differences(before: Any, after: Any) -> int:
    """How many values only one of the two has, or both have with different contents."""
    if isinstance(before, dict) and isinstance(after, dict):
        return sum(_differences(before.get(key), after.get(key)) for key in before.keys() | after.keys())
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return sum(map(_differences, before, after))
    return int(before != after)
