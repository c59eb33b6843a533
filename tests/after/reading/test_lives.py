"""The newest windows with all their panes, from panes that were made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from after.story.story_kit import Story, new_story, second, shown
from latecomer.after.reading import lives as module
from latecomer.after.reading.lives import Lives, lives
from latecomer.after.reading.reader import Reader


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Three windows, each published, then taken back and corrected in a later batch."""
    story = new_story(tmp_path)
    windows = [(minute * 60, minute * 60 + 60) for minute in range(3)]
    story.panes("totals", 0, [shown(window, 0, 100, 1) for window in windows])
    corrected = [
        pane
        for window in windows
        for pane in (shown(window, 0, 100, 1, "LATE", "retract"), shown(window, 1, 140, 2, "LATE"))
    ]
    story.panes("totals", 1, corrected)
    return story


def asked(story: Story, most: int = 50, skip: int = 0) -> Lives:
    return lives(Reader(story.pipeline), "totals", most=most, skip=skip)


def starts(found: Lives) -> list[int]:
    return [(each.start - second(0)) // 60_000_000 for each in found.windows]


def test_the_newest_windows_come_first_with_all_panes(story: Story) -> None:
    found = asked(story, most=2)
    assert (starts(found), found.more, list(found.notes)) == ([2, 1], True, [])
    assert [len(each.panes) for each in found.windows] == [3, 3]
    rest = asked(story, most=2, skip=2)
    assert (starts(rest), rest.more) == ([0], False)


def test_a_window_of_which_not_all_panes_are_read_is_not_shown(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second window would stand at a number that has been corrected since."""
    monkeypatch.setattr(module, "MOST_PANES", 4)
    found = asked(story)
    assert [(each.values, len(each.panes)) for each in found.windows] == [({"paise": 140, "payments": 2}, 3)]
    assert found.notes == ["1 window shown: more would have over 4 panes; ask for one window or key"]


def test_one_window_is_shown_however_many_panes_it_has(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PANES", 1)
    found = asked(story, most=1)
    assert (starts(found), found.more, list(found.notes)) == ([2], True, [])
    assert [len(each.panes) for each in found.windows] == [3]
