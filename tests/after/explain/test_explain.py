"""The life of a number, told from a log, a timeline and panes that were made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from after.explain.explain_kit import MINUTE, asked, times
from after.story.story_kit import PIPELINE, Story, new_story, paid, second, shown
from latecomer.model.strategies import Bounded
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import Fate
from latecomer.store.rebuilds import RebuildRecord, Rebuilds


def test_each_pane_tells_the_events_that_the_one_before_had_not(played: Story) -> None:
    found = asked(played)
    assert [(each.pane.sequence, each.pane.op, times(each.took)) for each in found.panes] == [
        (0, "insert", [10, 20]),
        (0, "retract", []),
        (1, "insert", [30]),
    ]
    assert found.panes[2].differences == {"paise": 40, "payments": 1}
    assert found.stands == {"paise": 340, "payments": 3}
    assert found.reconciled
    assert found.notes == []


def test_a_pane_has_the_clocks_of_its_batch(played: Story) -> None:
    found = asked(played)
    assert [each.pane.published_at for each in found.panes] == [second(7200), second(7201), second(7201)]
    assert [each.pane.ended_at for each in found.panes] == [second(95), second(500), second(500)]


def test_how_late_an_event_was_and_where_it_came_from(played: Story) -> None:
    (late,) = asked(played).panes[2].took
    event = late.event
    assert (event.partition, event.batch, event.file, event.position) == ("t2", 1, "1.json", 1)
    assert (event.behind, late.past_end) == (35_000_000, 5_000_000)
    assert late.fate is Fate.LATE_ACCEPTED


def test_the_events_that_did_not_get_in_and_why(played: Story) -> None:
    left_out = asked(played).left_out
    (aside,) = left_out[Fate.SIDE_OUTPUT]
    assert times([aside]) == [50]
    assert aside.reason == "late by 5m 40s for its window: allowed are 5m, and too_late is side_output"
    (again,) = left_out[Fate.DUPLICATE]
    assert again.reason == "its id had come before: batch 0, 0.json, position 2"
    assert not left_out[Fate.DROPPED]


def test_of_discarding_panes_the_others_stand_when_the_last_is_taken_back(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100)])
    story.logged(1, 95, 65, [paid(30, 40)])
    story.panes("parts", 0, [shown(MINUTE, 0, 100, 1)])
    story.panes("parts", 1, [shown(MINUTE, 1, 40, 1, "LATE"), shown(MINUTE, 1, 40, 1, "LATE", "retract")])
    assert asked(story, "parts").stands == {"paise": 100, "payments": 1}


def test_a_duplicate_repeats_the_delivery_before_it(story: Story) -> None:
    """Once its id was forgotten, an event is logged again; each duplicate names the last delivery before it."""
    story.logged(0, 20, None, [paid(10, 100), paid(20, 200)])
    story.repeated(1, 25, [paid(20, 200)])
    story.logged(2, 30, None, [paid(20, 200)])
    story.repeated(3, 35, [paid(20, 200)])
    story.watermarks(3, [{"tick": 3, "at": second(35), "watermark": None}])
    again = asked(story).left_out[Fate.DUPLICATE]
    before = {each.event.batch: each.reason for each in again}
    assert (before[1], before[3]) == (
        "its id had come before: batch 0, 0.json, position 1",
        "its id had come before: batch 2, 2.json, position 0",
    )


def test_only_the_files_that_touch_the_window_are_read(played: Story) -> None:
    played.logged(3, 600, 400, [paid(550, 3)])
    assert (asked(played).files, asked(played).files_read) == (4, 3)


@pytest.mark.parametrize(
    ("reached", "reason"),
    [(0, "its id had come before: batch 0, 0.json, position 0"), (1000, "its id had come before")],
)
def test_a_duplicate_does_not_name_a_delivery_whose_id_was_forgotten(
    tmp_path: Path, reached: int, reason: str
) -> None:
    """Meanwhile its id was used by an event of another window, which the duplicate repeats."""
    story = new_story(tmp_path, PIPELINE.partition("  visits:")[0] + "ledger: [paise]\n")
    carry = Timeline(Bounded("0s"), watermark=second(reached), newest=second(reached)).carry()
    story.logged(0, 20, None, [paid(10, 100, event_id="one")])
    story.watermarks(1, [{"tick": 1, "at": second(1000), "watermark": second(reached), "carry": carry}])
    story.logged(2, 1001, reached, [paid(1100, 1, event_id="one" if reached else "other")])
    story.watermarks(3, [{"tick": 3, "at": second(1002), "watermark": second(reached), "carry": carry}])
    story.repeated(4, 1003, [paid(30, 7, event_id="one")])
    (duplicate,) = asked(story).left_out[Fate.DUPLICATE]
    assert duplicate.reason == reason


def test_an_event_late_by_the_timeline_that_no_table_has_was_dropped(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100)])
    story.logged(1, 90, 60, [paid(30, 40)])
    story.panes("dropping", 1, [shown(MINUTE, 0, 100, 1)])
    (dropped,) = asked(story, "dropping").left_out[Fate.DROPPED]
    assert times([dropped]) == [30]
    assert dropped.reason == "late by 0s for its window: allowed are 0s, and too_late is drop"


def test_an_event_that_the_log_holds_twice_is_late_and_names_the_delivery_before_it(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100, event_id="one"), paid(30, 40)])
    story.logged(1, 90, 60, [paid(10, 100, event_id="one")])
    story.panes("dropping", 1, [shown(MINUTE, 0, 140, 2)])
    (dropped,) = asked(story, "dropping").left_out[Fate.DROPPED]
    assert dropped.reason == (
        "late by 0s for its window: allowed are 0s, and too_late is drop; "
        "its id had come before: batch 0, 0.json, position 0"
    )


def test_what_the_predicate_excludes_is_told_apart(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100, status="OK"), paid(11, 1, status="FAILED"), paid(12, 2)])
    story.logged(1, 95, 65, [])
    story.panes("successes", 1, [shown(MINUTE, 0, 100, 1)])
    found = asked(story, "successes")
    assert times(found.panes[0].took) == [10]
    assert times(found.left_out[Fate.FILTERED]) == [11, 12]
    assert (found.filter, found.reconciled, found.notes) == ("applied", True, [])


@pytest.mark.parametrize(("payments", "reconciled"), [(2, True), (1, False)])
def test_a_predicate_that_needs_spark_is_said_and_nothing_guessed(
    story: Story, payments: int, reconciled: bool
) -> None:
    story.logged(0, 20, None, [paid(10, 100, status="ok"), paid(11, 1, status="Ok")])
    story.logged(1, 95, 65, [paid(30, 40, status="OK"), paid(31, 41, status="no")])
    story.panes("lowered", 1, [shown(MINUTE, 0, 101 if payments == 2 else 100, payments)])
    late = {"window_start": second(0), "window_end": second(60), "verdict": "late"}
    story.set_aside("lowered", 1, {**paid(30, 40), **late}, 0)
    found = asked(story, "lowered")
    assert found.filter == "needs_spark"
    assert "can only be evaluated by Spark: the events are shown before the filter" in found.notes[0]
    assert found.reconciled is reconciled
    if reconciled:
        assert (
            found.notes[1] == "every pane has as many events as are shown: the filter excluded none of them"
        )
    else:
        assert "payments is 2 by the log and 1 in the pane; the filter is the likely cause" in found.notes[1]
    # The side output is after the filter, so for late events it does tell.
    assert times(found.left_out[Fate.SIDE_OUTPUT]) == [30]
    assert times(found.left_out[Fate.FILTERED]) == [31]


def test_what_does_not_add_up_is_said(played: Story) -> None:
    played.panes("totals", 3, [shown(MINUTE, 2, 999, 9, "LATE")])
    played.late("totals", 3, [{"window_start": second(0), "window_end": second(60), "merchant": "amul"}])
    found = asked(played)
    assert not found.reconciled
    assert found.panes[3].check.agrees is False
    assert (
        "the side output has 2 events of this window and key, the log and the timeline say 1"
        in found.notes[0]
    )
    assert found.notes[1].startswith(
        "the events of pane 2 (LATE) cannot be reconciled: events is 3 by the log"
    )


def test_early_and_discarding_panes_tell_what_is_new_in_each(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100)])
    story.logged(1, 30, None, [paid(20, 20)])
    story.logged(2, 95, 65, [paid(30, 3)])
    story.panes("parts", 0, [shown(MINUTE, 0, 100, 1, "EARLY")])
    story.panes("parts", 1, [shown(MINUTE, 1, 20, 1)])
    story.panes("parts", 2, [shown(MINUTE, 2, 3, 1, "LATE")])
    found = asked(story, "parts")
    assert [times(each.took) for each in found.panes] == [[10], [20], [30]]
    assert found.reconciled
    assert found.stands == {"paise": 123, "payments": 3}


def test_what_is_accepted_and_not_yet_told(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100)])
    story.partials("totals", 0, [shown(MINUTE, 0, 100, 1)])
    found = asked(story)
    assert (list(found.panes), times(found.in_no_pane), found.stands) == ([], [10], None)


def test_a_correction_tells_what_it_took_in_only_if_the_log_gives_the_same(played: Story) -> None:
    played.panes("totals", 3, [shown(MINUTE, 2, 347, 4, "CORRECTION")])
    found = asked(played)
    assert times(found.panes[3].took) == [50]
    assert not found.left_out[Fate.SIDE_OUTPUT]
    played.panes("totals", 4, [shown(MINUTE, 3, 1, 1, "CORRECTION")])
    wrong = asked(played).panes[4]
    assert (wrong.took, wrong.check.agrees) == ([], False)


def test_a_correction_names_its_rebuild(played: Story) -> None:
    played.panes("totals", 3, [shown(MINUTE, 2, 347, 4, "CORRECTION")])
    found = asked(played)
    assert found.why(found.panes[3]) == "a correction: the number was computed anew"
    rebuilds = Rebuilds(played.pipeline.store_path, "totals")
    rebuild = rebuilds.keep(
        rebuilds.draft(),
        RebuildRecord("totals", 0, 1, 2, 0, 0, 0, {"where": "paise > 1"}, {"assignments": "1"}),
    )
    rebuild.accept(3)
    found = asked(played)
    assert found.why(found.panes[3]) == (
        f"rebuild {rebuild.id}, by the log up to batch 2, under another definition: the number was computed anew"
    )


def test_a_policy_holds_for_the_batches_in_which_it_was_in_force(played: Story) -> None:
    """The late event came under `retract`; that the file now says something else changes nothing of it."""
    played.ledger(2, [{"output": "totals"}])
    changed = PIPELINE.replace("late: retract", "late: side_output", 1)
    played.file.write_text(changed, encoding="utf-8")
    played.store.pin()
    assert times(asked(played).panes[2].took) == [30]


def test_a_null_key_is_a_key(story: Story) -> None:
    story.logged(0, 20, None, [paid(10, 100, merchant=None), paid(11, 1)])
    story.logged(1, 95, 65, [])
    story.panes("totals", 1, [shown(MINUTE, 0, 100, 1, merchant=None)])
    assert times(asked(story, merchant=None).panes[0].took) == [10]
