"""What is drawn can be read: nothing covers a label, and every moment that matters has room."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from after.explain.explain_kit import MINUTE
from after.story.story_kit import PIPELINE, Story, new_story, paid, second, shown
from cli.cli_kit import at
from latecomer.after.explain.explain import explain
from latecomer.after.explain.picture import Box, Labels, picture
from latecomer.after.explain.picture_axis import APART, TimeAxis
from latecomer.after.reading.choices import Clock
from latecomer.after.reading.reader import Reader
from latecomer.model.durations import UNITS

DAY = UNITS["d"]
MOMENTS = st.lists(st.integers(0, 400 * DAY), min_size=1, max_size=12, unique=True).map(sorted)
PAPER = st.tuples(st.integers(0, 300), st.integers(0, 120))


@given(MOMENTS, st.lists(st.integers(0, 400 * DAY), min_size=2, max_size=6), st.integers(1, 30))
def test_time_never_runs_backwards_and_stays_on_paper(
    moments: list[int], others: list[int], crowd: int
) -> None:
    axis = TimeAxis(moments, {moments[-1]: crowd} if crowd > 1 else {}, 100, 800)
    inside = sorted(each for each in {*others, *moments} if moments[0] <= each <= moments[-1])
    places = [axis(each) for each in inside]
    assert places == sorted(places)
    assert places[0] >= 100
    assert axis(moments[-1], crowd - 1) <= 800.1
    for one, other in pairwise(moments):
        assert axis(other) - axis(one) >= APART / 5
    dates = [tick.x for tick in axis.ticks()]
    assert all(abs(one - other) >= 44 for one, other in combinations(dates, 2))


def test_parts_of_a_second_are_written_where_they_tell_moments_apart() -> None:
    """A day of events ends at no whole second, and its axis has no room for six digits that nobody needs."""
    day = [0, 9_242_684_088, 85_145_050_620, DAY]
    assert [tick.time for tick in TimeAxis(day, {}, 100, 800).ticks()] == [
        "00:00:00",
        "02:34:02",
        "23:39:05",
        "00:00:00",
    ]
    close = [0, 200_000, 500_000]
    assert {len(tick.time) for tick in TimeAxis(close, {}, 100, 800).ticks()} == {len("00:00:00.000")}


@given(st.lists(st.tuples(PAPER, st.integers(1, 10)), max_size=25))
def test_no_label_covers_a_dot_or_another_label(dots: list[tuple[tuple[int, int], int]]) -> None:
    paper = Box(-20, -20, 320, 140)
    labels = Labels(paper, [Box.around(x, y, 5) for (x, y), _ in dots])
    placed = [labels.place(x, y, "9" * letters, 5) for (x, y), letters in dots]
    boxes = labels.boxes[len(dots) :]
    assert len(boxes) == len([place for place in placed if place is not None])
    assert all(box.inside(paper) for box in boxes)
    assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    assert not any(box.meets(dot) for box in boxes for dot in labels.boxes[: len(dots)])


class Drawn:
    """A picture that was read back."""

    def __init__(self, story: Story, output: str = "successes", clock: Clock = Clock.PUBLISHED) -> None:
        found = explain(Reader(story.pipeline), output, at(0, 30), {}, clock)
        self.root = ET.fromstring(picture(found))

    def dots(self) -> list[tuple[float, float]]:
        """The dots of the first panel."""
        name = "{http://www.w3.org/2000/svg}"
        found = [each for each in self.root.iter(f"{name}circle") if each.find(f"{name}title") is not None]
        where = [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in found]
        return where[: len(where) // 2]

    def band(self) -> tuple[float, float]:
        _, band, *_ = self.root.iter("{http://www.w3.org/2000/svg}rect")
        return float(band.get("x", "")), float(band.get("width", ""))

    def words(self) -> list[str]:
        return ["".join(each.itertext()) for each in self.root.iter("{http://www.w3.org/2000/svg}text")]


BY_COLUMN = ", order_by: arrival_time}"


@pytest.fixture
def caught_up(tmp_path: Path) -> Story:
    """A month of arrivals in one batch: a window that closed on its first day, and one late event."""
    return month_in_a_batch(tmp_path, PIPELINE.replace(BY_COLUMN, "}"))


def month_in_a_batch(folder: Path, pipeline: str) -> Story:
    story = new_story(folder, pipeline)
    ticks = [(20, None), (95, 65), (200, 120), (30 * 86_400, 29 * 86_400)]
    met = [
        {"tick": tick, "at": second(when), "watermark": mark and second(mark)}
        for tick, (when, mark) in enumerate(ticks)
    ]
    story.watermarks(0, met)
    story.panes(
        "successes",
        0,
        [
            shown(MINUTE, 0, 100, 1, fired_at=second(95)),
            shown(MINUTE, 1, 140, 2, "LATE", fired_at=second(200)),
        ],
    )
    return story


def test_panes_that_share_a_moment_stand_beside_one_another(caught_up: Story) -> None:
    drawn = Drawn(caught_up)
    (first, _), (other, _) = drawn.dots()
    assert other - first == APART
    _, width = drawn.band()
    assert width > 50  # a minute, although the axis is a month long
    assert "29d" in drawn.words()
    assert any(word.endswith("its batch had ended; long gaps are shortened") for word in drawn.words())


def test_with_an_arrival_column_panes_stand_where_they_were_fired(tmp_path: Path) -> None:
    """Such a source may be read years after: then the end of a batch says nothing of when a pane could be known."""
    assert BY_COLUMN in PIPELINE
    drawn = Drawn(month_in_a_batch(tmp_path, PIPELINE))
    (first, _), (other, _) = drawn.dots()
    left, width = drawn.band()
    assert left + width < first < other - 200
    assert any(word.endswith("what fired it had arrived") for word in drawn.words())


def test_by_the_arrival_clock_panes_stand_where_they_were_fired(caught_up: Story) -> None:
    drawn = Drawn(caught_up, clock=Clock.ARRIVAL)
    (first, _), (other, _) = drawn.dots()
    left, width = drawn.band()
    assert left + width < first < other - 200
    assert any(word.endswith("what fired it had arrived") for word in drawn.words())


def test_the_number_that_stands_has_a_label_among_many(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    total = 0
    for batch in range(30):
        story.logged(batch, 20 + 7 * batch, None, [paid(10 + batch, 1_000_000)])
        total += 1_000_000
        story.panes("successes", batch, [shown(MINUTE, batch, total, batch + 1, "EARLY")])
    words = Drawn(story).words()
    assert {"30,000,000", "30"} <= set(words)


def test_long_names_are_shortened(tmp_path: Path) -> None:
    name = "the_sum_of_all_paise_that_were_paid_by_anyone_anywhere"
    text = PIPELINE.replace(
        "where: \"status = 'OK'\"\n    aggregates: {paise",
        f"where: \"status = 'OK'\"\n    aggregates: {{{name}",
    )
    story = new_story(tmp_path, text)
    merchant = "a merchant with a long name, " * 5
    story.panes("successes", 0, [{**shown(MINUTE, 0, 1, 1, merchant=merchant), name: 5}])
    words = Drawn(story).words()
    assert name not in words
    assert any(word.startswith("the_sum_of_all_paise") and "…" in word for word in words)
    assert max(map(len, words)) <= 90
