"""What was known at a moment, and what was valid at one."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from after.story.story_kit import PIPELINE, Story, new_story, second
from cli.cli_kit import MINUTE, NOON, Lake, at, pane
from examples_kit import drawn
from latecomer.after.reading.reader import Reader
from latecomer.cli import app
from latecomer.cli.options import WrongUsage
from latecomer.errors import PipelineError
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.panes import Op, Pane, Place, Timing, summed, surviving

Step = tuple[int, str | None, Op]
BATCHES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(("x", None)), st.sampled_from(tuple(Op))), max_size=4
        ),
    ),
    min_size=1,
    max_size=5,
)
"""For each batch, for how many seconds it went on, and what it published."""


def history(batches: list[tuple[int, list[Step]]]) -> list[tuple[int, list[Pane]]]:
    """Batches as they can happen, with their ends: sequences grow, a retract takes back the last insert."""
    last: dict[tuple[int, str | None], tuple[int, bool]] = {}
    clock, told = 0, []
    for seconds, steps in batches:
        clock += seconds
        panes = []
        for minute, key, op in steps:
            sequence, stands = last.get((minute, key), (-1, False))
            if op is Op.RETRACT and not stands:
                continue
            sequence += op is Op.INSERT
            last[minute, key] = sequence, op is Op.INSERT
            start = NOON + minute * MINUTE
            values = {"paise": sequence + 1, "payments": 1}
            panes.append(Pane(start, start + MINUTE, (key,), values, sequence, Timing.LATE, op))
        told.append((clock, panes))
    return told


def stored(lake: Lake, output: str, batch: int, panes: list[Pane]) -> None:
    rows = [
        pane(
            (each.window_start - NOON) // MINUTE,
            each.sequence,
            each.op,
            each.timing,
            merchant=each.key[0],
            # When the window closed says nothing of when the batch ended.
            fired_at=NOON - MINUTE,
            **each.values,
        )
        for each in panes
    ]
    lake.panes(output, batch, rows)


def placed(rows: list[dict[str, Any]]) -> dict[Place, dict[str, Any]]:
    return {
        (to_micros(row["window_start"]), to_micros(row["window_end"]), (row["merchant"],)): row
        for row in rows
    }


@drawn(8)
@given(BATCHES, st.sampled_from(("totals", "successes", "parts")))
def test_as_of_a_batchs_end_stands_what_the_model_says_of_the_panes_so_far(
    batches: list[tuple[int, list[Step]]], output: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = new_story(Path(folder))
        told = history(batches)
        for batch, (end, panes) in enumerate(told):
            story.watermarks(
                batch, [{"tick": batch, "at": second(0)}, {"tick": batch + 1, "at": second(end)}]
            )
            stored(story, output, batch, panes)
        reader, rules = Reader(story.pipeline), story.pipeline.outputs[output]
        for end in {end for end, _ in told}:
            known = [each for until, panes in told if until <= end for each in panes]
            for moment in (to_moment(second(end)), to_moment(second(end) + 999_999)):
                found = placed(reader.results(output, as_of=moment).to_pylist())
                if output == "parts":
                    expected = summed(known, rules.aggregates)
                    assert {
                        p: {"paise": r["paise"], "payments": r["payments"]} for p, r in found.items()
                    } == (expected)
                else:
                    stands = {place: one.sequence for place, one in surviving(known).items()}
                    assert {place: row["sequence"] for place, row in found.items()} == stands
        now = reader.results(output)
        assert reader.results(output, as_of=datetime(9999, 1, 1, tzinfo=UTC)) == now


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return new_story(tmp_path)


@pytest.fixture
def told(story: Story) -> Story:
    """A number published by 12:02, corrected by 12:04; another window beside it by 12:04."""
    story.watermarks(0, [{"tick": 1, "at": second(60)}, {"tick": 2, "at": second(120)}])
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=5, fired_at=second(60))])
    story.watermarks(1, [{"tick": 3, "at": second(240), "kind": "drain"}])
    replaced = [
        pane(0, 0, "retract", "LATE", merchant="a", paise=5),
        pane(0, 1, timing="LATE", merchant="a", paise=9),
        pane(1, 0, merchant="a", paise=1),
    ]
    story.panes("totals", 1, replaced)
    return story


def amounts(story: Story, **asked: Any) -> list[int]:
    found: list[int] = Reader(story.pipeline).results("totals", **asked)["paise"].to_pylist()
    return found


def test_a_pane_is_known_when_its_batch_has_ended_not_when_its_window_closed(told: Story) -> None:
    assert amounts(told, as_of=at(1)) == []
    assert amounts(told, as_of=at(1, 59)) == []
    assert amounts(told, as_of=at(2)) == [5]
    assert amounts(told, as_of=at(3, 59)) == [5]
    assert amounts(told, as_of=at(4)) == [9, 1]


def test_a_batch_that_the_timeline_does_not_know_goes_by_when_it_fired(told: Story) -> None:
    told.panes("totals", 2, [pane(5, 0, merchant="a", paise=7, fired_at=second(600))])
    assert amounts(told, as_of=at(9, 59)) == [9, 1]
    assert amounts(told, as_of=at(10)) == [9, 1, 7]


def test_without_a_timeline_everything_goes_by_when_it_fired(story: Story) -> None:
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=7, fired_at=second(60))])
    assert amounts(story, as_of=at(0, 59)) == []
    assert amounts(story, as_of=at(1)) == [7]


def test_valid_at_keeps_the_windows_that_hold_the_moment(told: Story) -> None:
    assert amounts(told, valid_at=at(0)) == [9]
    assert amounts(told, valid_at=at(0, 59)) == [9]
    assert amounts(told, valid_at=at(1)) == [1]
    assert amounts(told, valid_at=at(2)) == []


def test_both_together(told: Story) -> None:
    assert amounts(told, as_of=at(2), valid_at=at(0)) == [5]
    assert amounts(told, as_of=at(2), valid_at=at(1)) == []
    assert amounts(told, as_of=at(4), valid_at=at(1)) == [1]


def test_a_moment_without_zone_is_utc(told: Story) -> None:
    assert amounts(told, as_of=datetime(2026, 4, 25, 12, 2)) == [5]
    assert amounts(told, as_of=at(2) - timedelta(microseconds=1)) == []


def test_valid_at_holds_for_open_windows_too(told: Story) -> None:
    for minute in (2, 3):
        told.partials("totals", minute, [pane(minute, None, merchant="a", paise=minute)])
    reader = Reader(told.pipeline)
    shown = reader.results("totals", include_open=True, valid_at=at(3)).to_pylist()
    assert [(row["paise"], row["timing"]) for row in shown] == [(3, "OPEN")]


def test_open_windows_have_no_past(told: Story) -> None:
    with pytest.raises(PipelineError, match=r"as_of: open windows are known only as they are now .*\n.*fix"):
        Reader(told.pipeline).results("totals", include_open=True, as_of=at(2))


# The clock


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
    return story


def test_by_the_arrival_clock_a_pane_counts_from_what_fired_it(caught_up: Story) -> None:
    assert amounts(caught_up, as_of=at(5)) == []
    for moment, known in ((at(1, 34), []), (at(1, 35), [5]), (at(3, 20), [9]), (at(5), [9])):
        assert amounts(caught_up, as_of=moment, clock="arrival") == known
    month = at(0) + timedelta(days=30)
    assert amounts(caught_up, as_of=month, clock="arrival") == amounts(caught_up, as_of=month) == [9, 1]


def test_a_pane_of_which_is_not_known_what_fired_it_counts_from_its_batch(story: Story) -> None:
    story.watermarks(0, [{"tick": 1, "at": second(120)}])
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=5, fired_at=None)])
    assert amounts(story, as_of=at(1), clock="arrival") == []
    assert amounts(story, as_of=at(2), clock="arrival") == [5]


def test_another_clock_is_told_with_those_there_are(told: Story) -> None:
    with pytest.raises(PipelineError, match=r"clock: there is no such clock \(value: 'wall'\)\n.*arrival"):
        amounts(told, as_of=at(2), clock="wall")


def test_explain_tells_both_clocks(caught_up: Story) -> None:
    asked = ["explain", caught_up.file, "totals", "--window", "2026-04-25T12:00", "--clock", "arrival"]
    text = said(*asked)
    assert "  fired at 2026-04-25T12:01:35Z, published by batch 0, at 2026-05-25T12:00:00Z, under" in text
    panes = json.loads(said(*asked, "-f", "json"))["panes"]
    assert [each["known_at"] for each in panes][::2] == ["2026-04-25T12:01:35Z", "2026-04-25T12:03:20Z"]


# The command line


def said(*arguments: object) -> str:
    ended = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout


def test_results_as_of_and_valid_at_on_the_command_line(told: Story) -> None:
    asked = ["results", told.file, "totals", "-f", "json"]
    assert [row["paise"] for row in json.loads(said(*asked, "--as-of", "2026-04-25T12:02:00Z"))] == [5]
    assert [row["paise"] for row in json.loads(said(*asked, "--as-of", "2026-04-25T17:34:00+05:30"))] == [
        9,
        1,
    ]
    assert [row["paise"] for row in json.loads(said(*asked, "--valid-at", "2026-04-25T12:01"))] == [1]
    both = said(*asked, "--as-of", "2026-04-25T12:02", "--valid-at", "2026-04-25T12:00:30")
    assert [row["paise"] for row in json.loads(both)] == [5]


def test_results_by_key_and_window_and_clock_on_the_command_line(caught_up: Story) -> None:
    caught_up.panes("totals", 1, [pane(0, 0, merchant="b", paise=7)])
    caught_up.partials("totals", 1, [pane(2, None, merchant=each, paise=4) for each in ("a", "b")])
    asked = ["results", caught_up.file, "totals", "-f", "json"]

    def paise(*options: str) -> list[int]:
        return [row["paise"] for row in json.loads(said(*asked, *options))]

    assert paise("--key", "merchant=a") == [9, 1]
    assert paise("--key", "merchant=a", "--window", "2026-04-25T12:00") == [9]
    assert paise("--key", "merchant=b", "--open") == [7, 4]
    assert paise("--key", "merchant=", "--open") == []
    assert paise("--as-of", "2026-04-25T12:02", "--clock", "arrival") == [5, 7]
    for option in (["--serving"], ["--prefer", "live"]):
        assert paise("--key", "merchant=a", "--window", "2026-04-25T12:00", *option) == [9]
    assert said("results", caught_up.file, "totals", "--key", "merchant=c") == (
        "no window for merchant=c has a number; --open shows those still open\n"
    )
    with pytest.raises(PipelineError, match="the output has no such key column"):
        said(*asked, "--key", "shop=a")


def test_no_row_says_why(told: Story) -> None:
    asked = ["results", told.file, "totals"]
    assert said(*asked, "--as-of", "2026-04-25T12:01Z") == "no window had a number by 2026-04-25T12:01Z\n"
    none = said(*asked, "--valid-at", "2020-01-01")
    assert none == "no window that holds 2020-01-01 has a number; --open shows those still open\n"
    both = said(*asked, "--as-of", "2026-04-25T12:02Z", "--valid-at", "2026-04-25T12:01Z")
    assert both == "no window that holds 2026-04-25T12:01Z had a number by 2026-04-25T12:02Z\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--as-of", "yesterday"], r"--as-of 'yesterday' is not a moment\n    fix: write ISO-8601"),
        (["--valid-at", "25:00"], r"--valid-at '25:00' is not a moment\n    fix: write ISO-8601"),
        (["--clock", "arrival"], r"--clock 'arrival' has no meaning without --as-of\n    fix: say --as-of"),
        (
            ["--window", "2026-04-25", "--valid-at", "2026-04-25"],
            r"--window '2026-04-25' means the same as --valid-at\n    fix: say one of the two",
        ),
        (["--window", "soon"], r"--window 'soon' is not a moment"),
        (["--limit", "few"], r"--limit 'few' is not a number of rows\n    fix: write a number such as 20"),
        (
            ["--as-of", "2026-04-25", "--open"],
            r"--as-of '2026-04-25' cannot be asked .*\n    fix: leave --open out",
        ),
    ],
)
def test_wrong_moments_are_told(told: Story, options: list[str], reason: str) -> None:
    with pytest.raises(WrongUsage, match=reason):
        said("results", told.file, "totals", *options)


def test_the_kits_pipeline_has_every_accumulation(story: Story) -> None:
    """The property above is about three rules of what stands; it would be about one if the file changed."""
    modes = {story.pipeline.outputs[name].accumulation for name in ("totals", "successes", "parts")}
    assert len(modes) == 3
    assert "discarding" in PIPELINE
