"""How tests ask what stood at a moment."""

from __future__ import annotations

from typing import Any

from after.story.story_kit import Story
from latecomer.after.reading.reader import Reader


def amounts(story: Story, **asked: Any) -> list[int]:
    found: list[int] = Reader(story.pipeline).results("totals", **asked)["paise"].to_pylist()
    return found
