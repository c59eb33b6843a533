"""The life of a number, told from a log, a timeline and panes that were made by hand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from after.story.story_kit import PIPELINE, Story, new_story, paid, second, shown
from cli.cli_kit import at
from examples_kit import drawn
from latecomer.after.explain.explain import explain
from latecomer.after.explain.explanation import Explanation
from latecomer.after.explain.fates import Event, connected, judged_sessions
from latecomer.after.reading.reader import Reader
from latecomer.cli import app
from latecomer.cli.options import WrongUsage
from latecomer.config.outputs import Output
from latecomer.errors import PipelineError
from latecomer.model.arrivals import Arrival
from latecomer.model.sessions import SessionBook
from latecomer.model.strategies import Bounded
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import END_OF_TIME, Fate, LatePolicy
from latecomer.model.windows import Session, Window
from latecomer.store.rebuilds import Rebuilds, Record

MINUTE = (0, 60)
IN_IT = at(0, 30)


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


def asked(story: Story, output: str = "totals", moment: datetime = IN_IT, **key: str | None) -> Explanation:
    return explain(Reader(story.pipeline), output, moment, key or {"merchant": "amul"})


def times(events: Sequence[Any]) -> list[int]:
    """When events happened, in seconds after noon."""
    return [(each.event.event_time - second(0)) // 1_000_000 for each in events]


# What a pane took in


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
    assert (list(found.panes), times(found.untold), found.stands) == ([], [10], None)


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
        rebuilds.draft(), Record("totals", 0, 1, 2, 0, 0, 0, {"where": "paise > 1"}, {"assignments": "1"})
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


# Sessions


def test_a_session_that_grew_is_one_life(story: Story) -> None:
    story.logged(0, 10, None, [paid(0, 1)])
    story.logged(1, 60, None, [paid(50, 2)])
    story.logged(2, 120, 100, [paid(25, 4), paid(110, 9)])
    story.panes("visits", 1, [shown((0, 30), 0, 1, 1)])
    story.panes("visits", 2, [shown((50, 80), 0, 2, 1)])
    story.watermarks(3, [{"tick": 3, "at": second(121), "watermark": second(101)}])
    grown = [
        shown((0, 30), 0, 1, 1, "LATE", "retract"),
        shown((50, 80), 0, 2, 1, "LATE", "retract"),
        shown((0, 80), 0, 7, 3, "LATE"),
    ]
    story.panes("visits", 3, grown)
    for moment in (at(0, 5), at(0, 40), at(1, 15)):
        found = asked(story, "visits", moment)
        assert [times(each.took) for each in found.panes] == [[0], [50], [], [], [25]]
        assert found.window == Window(second(0), second(80))
        assert (found.reconciled, found.notes, times(found.untold)) == (True, [], [])
        assert found.stands == {"paise": 7, "payments": 3}


def test_an_event_that_a_final_session_turns_away_is_of_its_life(story: Story) -> None:
    story.logged(0, 10, None, [paid(0, 1)])
    story.logged(1, 500, 400, [paid(20, 2), paid(450, 3)])
    story.panes("visits", 1, [shown((0, 30), 0, 1, 1)])
    judged = {"window_start": second(0), "window_end": second(30), "verdict": "too_late"}
    story.set_aside("visits", 1, {**paid(20, 2), **judged}, 0)
    found = asked(story, "visits", at(0, 20))
    assert times(found.left_out[Fate.SIDE_OUTPUT]) == [20]
    assert (found.notes, found.reconciled) == ([], True)


ARRIVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=12)


@drawn(60)
@given(
    ARRIVALS,
    st.integers(0, 10),
    st.sampled_from([LatePolicy.UPDATE, LatePolicy.DROP, LatePolicy.SIDE_OUTPUT]),
    st.sampled_from([None, "12us"]),
    st.sampled_from(["separate", "joins"]),
    st.sampled_from(["at_once", "after_gap"]),
)
def test_sessions_are_judged_as_the_oracle_judges_them(
    arrivals: list[tuple[int, int]],
    lateness: int,
    late: LatePolicy,
    longest: str | None,
    touching: str,
    final: str,
) -> None:
    window = Session("5us", max=longest, touching=touching, final=final)
    output = Output(window=window, aggregates={"n": "count(*)"}, late=late, allowed_lateness=f"{lateness}us")
    book, watermark = SessionBook(output, None, {}), 0
    events, expected = [], []
    for nth, (time, rise) in enumerate(arrivals):
        watermark += 3 * rise
        events.append(Event(time, nth, 0, nth, watermark))
        (judged,) = book.take(0, nth, Arrival(time, nth), watermark, nth)
        expected.append((judged.fate, judged.window, judged.verdict))
    found = judged_sessions(events, [(0, output)], None)
    assert [(each.fate, each.window, each.verdict) for each in found] == expected


@given(st.lists(st.integers(0, 60), max_size=10), st.integers(0, 60))
def test_what_is_connected_is_all_that_touches(moments: list[int], around: int) -> None:
    window = Session("5us")
    events = [Event(moment, 0, 0, 0) for moment in moments]
    low, high = connected(events, Window(around, around + 1), window)
    assert low <= around < high
    for moment in moments:
        span = window.span(moment)
        inside = low <= span.start and span.end <= high
        assert inside or not span.overlaps(Window(low, high))
    ends = {around, around + 1, *moments, *(moment + 5 for moment in moments)}
    assert {low, high} <= ends


# What never was


def test_a_moment_in_no_window_names_the_nearest(played: Story) -> None:
    with pytest.raises(PipelineError) as error:
        asked(played, moment=at(30))
    assert str(error.value) == (
        "pipeline upi: window: no window for merchant=amul holds this moment (value: '2026-04-25T12:30:00Z')\n"
        "    fix: the nearest are 2026-04-25T12:00:00Z to 2026-04-25T12:01:00Z"
    )


def test_a_key_that_never_was_names_the_nearest(played: Story) -> None:
    with pytest.raises(PipelineError) as error:
        asked(played, merchant="amull")
    assert "key: the window has no such key (value: 'merchant=amull')" in str(error.value)
    assert "fix: the nearest in this window: --key merchant=amul" in str(error.value)


def test_a_key_that_was_not_said_is_found_or_asked_for(played: Story) -> None:
    with pytest.raises(
        PipelineError, match=r"the window has 2 keys .*\n.*--key merchant=amul; --key merchant=bata"
    ):
        explain(Reader(played.pipeline), "totals", at(0, 30))
    played.panes("dropping", 1, [shown(MINUTE, 0, 50, 1, merchant="bata")])
    assert explain(Reader(played.pipeline), "dropping", at(0, 30)).key == {"merchant": "bata"}


def test_a_column_that_is_no_key_is_told(played: Story) -> None:
    with pytest.raises(PipelineError, match="the output has no such key column"):
        asked(played, merchnt="a")


def test_of_windows_that_overlap_one_is_named_by_its_start(story: Story) -> None:
    story.logged(0, 100, None, [paid(70, 1)])
    story.panes("sliding", 0, [shown((0, 120), 0, 1, 1), shown((60, 180), 0, 1, 1)])
    with pytest.raises(
        PipelineError, match=r"2 windows hold this moment .*\n.*name one by its start: 2026-04-25T12:00:00Z"
    ):
        asked(story, "sliding", at(1, 10))
    assert asked(story, "sliding", at(1)).window == Window(second(60), second(180))


def test_an_empty_output_says_so(story: Story) -> None:
    with pytest.raises(PipelineError, match="no window has any number yet"):
        asked(story)


# Text, JSON, CSV and the picture


def said(*arguments: object) -> str:
    ended = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout


def command(story: Story, *more: object) -> str:
    key = ("--window", "2026-04-25T12:00Z", "--key", "merchant=amul")
    return said("explain", story.file, "totals", *key, *more)


def test_the_text_tells_the_whole_life(played: Story) -> None:
    text = command(played)
    for line in (
        "totals · 2026-04-25T12:00:00Z to 2026-04-25T12:01:00Z · merchant=amul",
        "stands at paise 340, payments 3",
        "0 ON_TIME insert  paise 300, payments 2",
        "  fired at 2026-04-25T12:01:30Z, published by batch 1 at 2026-04-25T14:00:00Z, arrival clock "
        "2026-04-25T12:01:35Z, under watermark 2026-04-25T12:01:00Z",
        "  took in 2 events (paise 300)",
        "0 LATE retract  paise 300, payments 2",
        "1 LATE insert  paise 340, payments 3  (paise +40, payments +1)",
        "  took in 1 event (paise 40, 1 behind the watermark, by 35s at most)",
        "left out: side output",
        "left out: duplicate",
        "3 of the 3 files of the event log were read",
    ):
        assert line in text.splitlines()


def test_the_document_has_the_keys_that_are_documented(played: Story) -> None:
    whole = json.loads(command(played, "-f", "json"))
    page = (Path(__file__).parents[3] / "docs" / "as-of-and-explain.md").read_text(encoding="utf-8")
    assert set(whole) == set(
        re.findall(r"^\| `(\w+)` \|", page.split("### The document")[1].split("###")[0], re.M)
    )
    pane = whole["panes"][2]
    assert (pane["values"], pane["difference"]) == (
        {"paise": 340, "payments": 3},
        {"paise": 40, "payments": 1},
    )
    assert (pane["published_at"], pane["batch_ended_at"]) == ("2026-04-25T14:00:01Z", "2026-04-25T12:08:20Z")
    (event,) = pane["took_in"]["events"]
    assert (event["behind"], event["past_end"], event["partition"], event["file"]) == (35, 5, "t2", "1.json")
    assert whole["left_out"]["side_output"]["sums"] == {"paise": 7}
    assert whole["log"] == {"files": 3, "files_read": 3}


def test_many_events_are_summed_up(played: Story) -> None:
    some = json.loads(command(played, "-f", "json", "--events", "1"))["panes"][0]["took_in"]
    assert (some["count"], some["sums"], len(some["events"])) == (2, {"paise": 300}, 1)
    assert "  and 1 more; --events all lists them" in command(played, "--events", "1").splitlines()
    every = json.loads(command(played, "-f", "json", "--events", "all"))["panes"][0]["took_in"]
    assert len(every["events"]) == 2


def test_csv_has_a_line_an_event(played: Story) -> None:
    header, *lines = command(played, "-f", "csv").splitlines()
    assert header.startswith("pane,fate,event_time,arrival_time,partition,batch,file,position,event_id")
    fates = [line.split(",")[:2] for line in lines]
    assert fates == [["0", "on_time"]] * 2 + [["1", "late_accepted"], ["", "side_output"], ["", "duplicate"]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--events", "some"], r"--events 'some' is not a number of events\n    fix: write a number"),
        (["--events", "-1"], r"--events '-1' is not a number of events"),
        (["--svg", "/nowhere/at/all.svg"], r"--svg '/nowhere/at/all.svg' cannot be written: No such file"),
    ],
)
def test_wrong_options_are_told(played: Story, options: list[str], reason: str) -> None:
    with pytest.raises(WrongUsage, match=reason):
        command(played, *options)


def test_a_moment_that_is_none(played: Story) -> None:
    with pytest.raises(WrongUsage, match="--window 'noon' is not a moment"):
        said("explain", played.file, "totals", "--window", "noon")


def test_the_picture_has_a_dot_a_pane_and_a_tick_for_each_late_event(played: Story, tmp_path: Path) -> None:
    path = tmp_path / "life.svg"
    command(played, "--svg", path)
    drawn = ET.fromstring(path.read_text(encoding="utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    dots = [each for each in drawn.iter(f"{name}circle") if each.find(f"{name}title") is not None]
    assert [dot.get("fill") for dot in dots] == ["#2563eb", "#d97706"] * 2
    words = ["".join(each.itertext()) for each in drawn.iter(f"{name}text")]
    assert {"late, accepted (1)", "side output (1)", "on time (2)", "paise", "payments", "340"} <= set(words)
    # In each panel two values, and the step from one to the other although the first was taken back.
    steps = [each for each in drawn.iter(f"{name}line") if each.get("stroke-width") == "1.5"]
    assert len([each for each in steps if each.get("stroke") == "#6b7280"]) == 2 * 3
    bands = [each for each in drawn.iter(f"{name}rect") if each.get("fill") == "#dbeafe"]
    assert len(bands) == 2


def test_what_events_bring_cannot_break_the_picture(story: Story, tmp_path: Path) -> None:
    wicked = "<a&\x1b[31m\x00'\">"
    story.logged(0, 20, None, [paid(10, 100, merchant=wicked)])
    story.panes("totals", 0, [shown(MINUTE, 0, 100, 1, merchant=wicked)])
    path = tmp_path / "life.svg"
    text = said("explain", story.file, "totals", "--window", "2026-04-25T12:00Z", "--svg", path)
    ET.fromstring(path.read_text(encoding="utf-8"))
    assert "\x1b" not in text


def test_a_window_of_all_time_can_be_drawn(tmp_path: Path) -> None:
    whole = PIPELINE.replace("window: {tumbling: 1m}", "window: {global: true}", 1)
    story = new_story(tmp_path, whole)
    story.logged(0, 20, None, [paid(10, 100)])
    story.watermarks(1, [{"tick": 9, "at": second(20), "watermark": END_OF_TIME, "kind": "drain"}])
    begin = -62_135_596_800_000_000
    drained = {"window_start": begin, "window_end": END_OF_TIME, "watermark": END_OF_TIME}
    story.panes("totals", 1, [{**shown(MINUTE, 0, 100, 1), **drained}])
    path = tmp_path / "life.svg"
    text = command(story, "--svg", path)
    title = "totals · 0001-01-01T00:00:00Z to end of time · merchant=amul"
    assert text.startswith(f"{title}\n")
    assert "why: the input had ended" in text
    found = explain(Reader(story.pipeline), "totals", at(0), {"merchant": "amul"})
    assert str(found).startswith(f"{title}\n")
    ET.fromstring(path.read_text(encoding="utf-8"))


def test_explaining_starts_no_spark(played: Story) -> None:
    code = (
        "import sys; from latecomer.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as ended: assert ended.code == 0\n"
        "assert 'pyspark' not in sys.modules, 'pyspark'"
    )
    asked = [
        "explain",
        str(played.file),
        "successes",
        "--window",
        "2026-04-25T12:00Z",
        "--key",
        "merchant=amul",
    ]
    subprocess.run([sys.executable, "-c", code, *asked], check=True, capture_output=True, timeout=60)
