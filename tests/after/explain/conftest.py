"""Stories whose numbers are explained."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from after.explain.explain_kit import MINUTE
from after.story.story_kit import Story, new_story, paid, second, shown


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return new_story(tmp_path)


@pytest.fixture(scope="session")
def story_once(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Two payments on time, one late, one too late, one sent twice, and others that are none of ours."""
    story = new_story(tmp_path_factory.mktemp("told"))
    story.logged(0, 20, None, [paid(10, 100), paid(15, 50, merchant="bata"), paid(20, 200)])
    story.logged(1, 95, 65, [paid(70, 1), paid(30, 40, source_partition="t2")])
    story.repeated(1, 95, [paid(20, 200)])
    story.logged(2, 500, 400, [paid(50, 7), paid(450, 2)])
    story.panes("totals", 1, [shown(MINUTE, 0, 300, 2), shown(MINUTE, 0, 50, 1, merchant="bata")])
    late = [
        shown(MINUTE, 0, 300, 2, "LATE", "retract"),
        shown(MINUTE, 1, 340, 3, "LATE", watermark=second(65)),
    ]
    story.panes("totals", 2, late)
    too_late = {"window_start": second(0), "window_end": second(60), "verdict": "too_late"}
    story.set_aside("totals", 2, {**paid(50, 7), **too_late}, 0)
    for batch, clock in ((0, 3600), (1, 7200), (2, 7201)):
        story.published(batch, second(clock))
    return story


@pytest.fixture
def played(story_once: Story, tmp_path: Path) -> Story:
    """The same, for a test to change."""
    shutil.copytree(story_once.file.parent, tmp_path, dirs_exist_ok=True)
    return Story(tmp_path / story_once.file.name)
