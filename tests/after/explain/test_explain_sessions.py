"""A session that swallowed others: its panes in order, and each compared with what it replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from after.explain.explain_kit import asked, times
from after.story.story_kit import PIPELINE, Story, new_story, paid, printed, second, shown
from cli.cli_kit import at
from latecomer.after.reading.reader import Reader
from latecomer.model.windows import Window

MINUTES = (
    PIPELINE.partition("outputs:")[0]
    + """outputs:
  visits:
    window: {session: 10m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 2h
    late: retract
"""
)


def pane(start: int, end: int, payments: int, *more: Any, **rest: Any) -> dict[str, Any]:
    """A pane of a session from minute to minute after two o'clock; each payment is of one paisa."""
    return {**shown((60 * start, 60 * end), 0, payments, payments, *more), **rest}


def click(minute: int, who: str = "ann") -> dict[str, Any]:
    return paid(60 * minute, 1, who)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Ann at minutes 0 and 20, bob at 60; then ann at 6 and 12, which makes one session of her two."""
    story = new_story(tmp_path, MINUTES)
    story.logged(0, 10, None, [click(0), click(20), click(60, "bob")])
    story.logged(1, 3700, 3600, [])
    story.panes("visits", 1, [pane(0, 10, 1, merchant="ann"), pane(20, 30, 1, merchant="ann")])
    story.logged(2, 3800, 3600, [click(6), click(12)])
    merged = [
        pane(0, 30, 4, "LATE", merchant="ann"),
        pane(0, 10, 1, "LATE", "retract", merchant="ann"),
        pane(20, 30, 1, "LATE", "retract", merchant="ann"),
    ]
    story.panes("visits", 2, merged)
    return story


def test_what_is_taken_back_is_read_before_what_replaces_it(story: Story) -> None:
    rows = Reader(story.pipeline).panes("visits").to_pylist()
    assert [(row["op"], row["payments"]) for row in rows] == [
        ("insert", 1),
        ("insert", 1),
        ("retract", 1),
        ("retract", 1),
        ("insert", 4),
    ]


def test_a_merged_session_is_compared_with_all_that_it_swallowed(story: Story) -> None:
    found = asked(story, "visits", at(5), merchant="ann")
    first, other, *_, merged = found.panes
    assert (first.before, other.before) == (None, None)
    assert merged.before == {"paise": 2, "payments": 2}
    assert merged.differences == {"paise": 2, "payments": 2}
    assert times(merged.took) == [360, 720]
    assert (found.reconciled, found.notes, list(merged.lost)) == (True, [], [])


def test_the_text_says_by_how_much_it_grew(story: Story) -> None:
    asking = ["explain", str(story.file), "visits", "--window", "2026-04-25T12:05Z", "--key", "merchant=ann"]
    text = printed(*asking)
    assert "0 LATE insert  paise 4, payments 4  (paise +2, payments +2)" in text
    assert "0 ON_TIME insert  paise 1, payments 1  [2026-04-25T12:20:00Z to 2026-04-25T12:30:00Z]" in text


def test_what_cannot_be_added_up_is_not_compared(tmp_path: Path) -> None:
    story = new_story(tmp_path, MINUTES.replace("payments: count(*)}", "payments: avg(paise)}"))
    story.panes("visits", 0, [pane(0, 10, 1), pane(20, 30, 1)])
    merged = [pane(0, 10, 1, "LATE", "retract"), pane(20, 30, 1, "LATE", "retract"), pane(0, 30, 4, "LATE")]
    story.panes("visits", 1, merged)
    last = asked(story, "visits", at(5)).panes[-1]
    assert last.before == {"paise": 2, "payments": None}
    assert last.differences == {"paise": 2}


def test_of_a_session_that_was_cut_in_two_the_one_asked_for_is_shown(story: Story) -> None:
    """A rebuild has found that the two were never one."""
    cut = [
        pane(0, 30, 4, "CORRECTION", "retract", merchant="ann"),
        pane(0, 10, 1, "CORRECTION", sequence=1, merchant="ann"),
        pane(20, 30, 3, "CORRECTION", sequence=1, merchant="ann"),
    ]
    story.panes("visits", 3, cut)
    for moment, start, payments in ((at(5), 0, 1), (at(25), 20, 3)):
        found = asked(story, "visits", moment, merchant="ann")
        assert found.window == Window(second(60 * start), second(60 * (start + 10)))
        assert found.stands == {"paise": payments, "payments": payments}
