"""The newest windows with all their panes, from panes that were made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from after.story.story_kit import Story, new_story, second, shown
from latecomer.after.reading import lives as module
from latecomer.after.reading.lives import Lives, Stage, lives
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


def test_no_window_is_skipped_where_few_have_many_panes(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PANES", 4)
    seen, skip, more = list[int](), 0, True
    while more:
        found = asked(story, skip=skip)
        seen += starts(found)
        skip, more = skip + found.with_panes, found.more
    assert (seen, skip) == ([2, 1, 0], 3)


@pytest.mark.parametrize(("watermark", "stage"), [(59, Stage.OPEN), (60, Stage.PUBLISHED)])
def test_a_window_may_close_with_its_early_pane_as_the_last(
    tmp_path: Path, watermark: int, stage: Stage
) -> None:
    story = new_story(tmp_path)
    story.watermarks(0, [{"tick": 0, "at": second(90), "watermark": second(watermark)}])
    story.panes("totals", 0, [shown((0, 60), 0, 100, 1, "EARLY")])
    (before,) = asked(story).windows
    assert before.stage is Stage.OPEN, "the batch is not complete: another pane of it may follow"
    story.published(0, second(100))
    (after,) = asked(story).windows
    assert (after.stage, after.values) == (stage, {"paise": 100, "payments": 1})


def test_an_early_number_that_was_taken_back_does_not_stand(tmp_path: Path) -> None:
    """As of a session that has grown: its panes have another end now."""
    story = new_story(tmp_path)
    panes = [shown((0, 40), 0, 100, 1, "EARLY"), shown((0, 40), 0, 100, 1, "EARLY", "retract")]
    story.panes("visits", 0, [*panes, shown((0, 60), 0, 140, 2, "EARLY")])
    found = lives(Reader(story.pipeline), "visits").windows
    assert [(each.stage, each.values) for each in found] == [
        (Stage.OPEN, {"paise": 140, "payments": 2}),
        (Stage.WITHDRAWN, None),
    ]


def test_one_window_is_shown_however_many_panes_it_has(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PANES", 1)
    found = asked(story, most=1)
    assert (starts(found), found.more, list(found.notes)) == ([2], True, [])
    assert [len(each.panes) for each in found.windows] == [3]
