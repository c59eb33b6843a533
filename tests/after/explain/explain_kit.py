"""How tests ask for the life of a number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from after.story.story_kit import Story, printed, second
from cli.cli_kit import at
from latecomer.after.explain.explain import explain
from latecomer.after.explain.explanation import Explanation
from latecomer.after.reading.reader import Reader

MINUTE = (0, 60)
IN_IT = at(0, 30)


def asked(story: Story, output: str = "totals", moment: datetime = IN_IT, **key: str | None) -> Explanation:
    return explain(Reader(story.pipeline), output, moment, key or {"merchant": "amul"})


def times(events: Sequence[Any]) -> list[int]:
    """When events happened, in seconds after noon."""
    return [(each.event.event_time - second(0)) // 1_000_000 for each in events]


def command(story: Story, *more: object) -> str:
    key = ("--window", "2026-04-25T12:00Z", "--key", "merchant=amul")
    return printed("explain", story.file, "totals", *key, *more)
