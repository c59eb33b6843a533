"""What was known at a moment, and what was valid at one."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from after.reading.as_of_kit import amounts
from after.story.story_kit import PIPELINE, Story, new_story, second
from cli.cli_kit import MINUTE, NOON, Lake, at, pane
from examples_kit import drawn
from latecomer.after.reading.reader import Reader
from latecomer.errors import PipelineError
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.panes import Op, Pane, Place, Timing, summed, surviving
from latecomer.model.publications import publication_time

Step = tuple[int, str | None, Op]
BATCHES = st.lists(
    st.tuples(
        st.integers(-2, 3),
        st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(("x", None)), st.sampled_from(tuple(Op))), max_size=4
        ),
    ),
    min_size=1,
    max_size=5,
)
"""For each batch, by how many seconds the machine's clock went on or was set back, and what it published."""


def history(batches: list[tuple[int, list[Step]]]) -> list[tuple[int, list[Pane]]]:
    """Batches as they can happen, with the machine's clock: sequences grow, a retract takes back the last insert."""
    last: dict[tuple[int, str | None], tuple[int, bool]] = {}
    clock, played = 0, []
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
        played.append((clock, panes))
    return played


def stored(lake: Lake, output: str, batch: int, panes: list[Pane]) -> None:
    rows = [
        pane(
            (each.window_start - NOON) // MINUTE,
            each.sequence,
            each.op,
            each.timing,
            merchant=each.key[0],
            # When the window closed says nothing of when the batch was published.
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
def test_as_of_a_moment_stands_what_the_model_says_of_the_panes_that_had_been_published(
    batches: list[tuple[int, list[Step]]], output: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = new_story(Path(folder))
        played, at, published = history(batches), None, []
        for batch, (clock, panes) in enumerate(played):
            stored(story, output, batch, panes)
            story.published(batch, second(clock))
            at = publication_time(at, second(clock))
            published.append((at, panes))
        reader, rules = Reader(story.pipeline), story.pipeline.outputs[output]
        shown = reader.panes(output)
        assert set(zip(shown["batch"].to_pylist(), shown["published_at"].to_pylist(), strict=True)) == {
            (batch, to_moment(at)) for batch, (at, panes) in enumerate(published) if panes
        }
        for moment in {at + more for at, _ in published for more in (-1, 0, 999_999)}:
            known = [each for at, panes in published if at <= moment for each in panes]
            found = placed(reader.results(output, as_of=to_moment(moment)).to_pylist())
            if output == "parts":
                expected = summed(known, rules.aggregates)
                assert {
                    p: {"paise": r["paise"], "payments": r["payments"]} for p, r in found.items()
                } == expected
            else:
                stands = {place: one.sequence for place, one in surviving(known).items()}
                assert {place: row["sequence"] for place, row in found.items()} == stands
        now = reader.results(output)
        assert reader.results(output, as_of=datetime(9999, 1, 1, tzinfo=UTC)) == now


def test_a_pane_is_known_when_it_was_published_not_when_it_could_have_been(played: Story) -> None:
    assert amounts(played, as_of=at(1, 59)) == []
    assert amounts(played, as_of=at(2)) == [5]
    assert amounts(played, as_of=at(3, 59)) == [5]
    assert amounts(played, as_of=at(4)) == [9, 1]
    assert amounts(played, as_of_arrival=at(0) - timedelta(hours=2)) == [5]
    assert amounts(played, as_of_arrival=at(0) - timedelta(hours=1)) == [9, 1]


def test_without_a_timeline_the_arrival_clock_goes_by_when_a_pane_fired(story: Story) -> None:
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=7, fired_at=second(60))])
    assert amounts(story, as_of_arrival=at(0, 59)) == []
    assert amounts(story, as_of_arrival=at(1)) == [7]


def test_valid_at_keeps_the_windows_that_hold_the_moment(played: Story) -> None:
    assert amounts(played, valid_at=at(0)) == [9]
    assert amounts(played, valid_at=at(0, 59)) == [9]
    assert amounts(played, valid_at=at(1)) == [1]
    assert amounts(played, valid_at=at(2)) == []


def test_both_together(played: Story) -> None:
    assert amounts(played, as_of=at(2), valid_at=at(0)) == [5]
    assert amounts(played, as_of=at(2), valid_at=at(1)) == []
    assert amounts(played, as_of=at(4), valid_at=at(1)) == [1]


def test_a_moment_without_zone_is_utc(played: Story) -> None:
    assert amounts(played, as_of=datetime(2026, 4, 25, 12, 2)) == [5]
    assert amounts(played, as_of=at(2) - timedelta(microseconds=1)) == []


def test_valid_at_holds_for_open_windows_too(played: Story) -> None:
    for minute in (2, 3):
        played.partials("totals", minute, [pane(minute, None, merchant="a", paise=minute)])
    reader = Reader(played.pipeline)
    shown = reader.results("totals", include_open=True, valid_at=at(3)).to_pylist()
    assert [(row["paise"], row["timing"]) for row in shown] == [(3, "OPEN")]


@pytest.mark.parametrize("option", ["as_of", "as_of_arrival"])
def test_open_windows_have_no_past(played: Story, option: str) -> None:
    with pytest.raises(
        PipelineError, match=rf"{option}: open windows are known only as they are now .*\n.*fix"
    ):
        amounts(played, include_open=True, **{option: at(2)})


def test_only_one_clock_can_be_asked(played: Story) -> None:
    with pytest.raises(PipelineError, match=r"as_of: goes by another clock than as_of_arrival .*\n.*fix"):
        amounts(played, as_of=at(2), as_of_arrival=at(2))


# The clock


def test_by_the_arrival_clock_a_pane_counts_from_what_fired_it(caught_up: Story) -> None:
    assert amounts(caught_up, as_of=at(5)) == []
    for moment, known in ((at(1, 34), []), (at(1, 35), [5]), (at(3, 20), [9]), (at(5), [9])):
        assert amounts(caught_up, as_of_arrival=moment) == known
    month, day = at(0) + timedelta(days=30), timedelta(days=1)
    assert amounts(caught_up, as_of_arrival=month) == amounts(caught_up, as_of=month + day) == [9, 1]
    assert amounts(caught_up, as_of=month) == []


def test_a_pane_of_which_is_not_known_what_fired_it_counts_from_the_end_of_its_batch(story: Story) -> None:
    story.watermarks(0, [{"tick": 1, "at": second(120)}])
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=5, fired_at=None)])
    assert amounts(story, as_of_arrival=at(1)) == []
    assert amounts(story, as_of_arrival=at(2)) == [5]


def test_the_old_way_to_choose_a_clock_works_and_names_the_new_one(caught_up: Story) -> None:
    with pytest.warns(DeprecationWarning, match="as_of_arrival=T"):
        assert amounts(caught_up, as_of=at(5), clock="arrival") == [9]
    with pytest.warns(DeprecationWarning, match="clock is deprecated"):
        assert amounts(caught_up, as_of=at(5), clock="published") == []


def test_another_clock_is_told_with_those_there_are(played: Story) -> None:
    with pytest.raises(PipelineError, match=r"clock: there is no such clock \(value: 'wall'\)\n.*arrival"):
        amounts(played, as_of=at(2), clock="wall")


def test_the_kits_pipeline_has_every_accumulation(story: Story) -> None:
    """The property above is about three rules of what stands; it would be about one if the file changed."""
    modes = {story.pipeline.outputs[name].accumulation for name in ("totals", "successes", "parts")}
    assert len(modes) == 3
    assert "discarding" in PIPELINE
