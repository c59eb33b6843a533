"""Stories whose numbers are read as of a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from after.story.story_kit import Story, new_story, second
from cli.cli_kit import pane


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return new_story(tmp_path)


@pytest.fixture
def played(story: Story) -> Story:
    """A number published at 12:02, corrected at 12:04; another window beside it at 12:04. All of it arrived within
    a minute, hours before."""
    story.watermarks(0, [{"tick": 1, "at": second(-7200)}])
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=5, fired_at=second(-7200))])
    story.published(0, second(120))
    story.watermarks(1, [{"tick": 3, "at": second(-7140), "kind": "drain"}])
    replaced = [
        pane(0, 0, "retract", "LATE", merchant="a", paise=5, fired_at=second(-7140)),
        pane(0, 1, timing="LATE", merchant="a", paise=9, fired_at=second(-7140)),
        pane(1, 0, merchant="a", paise=1, fired_at=second(-7140)),
    ]
    story.panes("totals", 1, replaced)
    story.published(1, second(240))
    return story


@pytest.fixture
def caught_up(story: Story) -> Story:
    """A month in one batch: a window that closed on its first day and one that closed on its last."""
    story.watermarks(0, [{"tick": 1, "at": second(95)}, {"tick": 2, "at": second(30 * 86_400)}])
    panes = [
        pane(0, 0, merchant="a", paise=5, fired_at=second(95)),
        pane(0, 0, "retract", "LATE", merchant="a", paise=5, fired_at=second(200)),
        pane(0, 1, timing="LATE", merchant="a", paise=9, fired_at=second(200)),
        pane(1, 0, merchant="a", paise=1, fired_at=second(30 * 86_400)),
    ]
    story.panes("totals", 0, panes)
    story.published(0, second(31 * 86_400))
    return story
