"""What is published without any new event, at the far end of the calendar: nothing is left waiting after a drain."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from after.story.story_kit import PIPELINE, new_story, shown
from latecomer.config.outputs import Output
from latecomer.log.timeline.keeper import Section, Step
from latecomer.model.durations import to_micros
from latecomer.model.timeline import Row
from latecomer.model.verdicts import END_OF_TIME
from latecomer.store.data_files import DataFile
from latecomer.store.layout import TIMESTAMP
from latecomer.store.private_columns import SINCE, WAITING_EVENTS
from latecomer.windowing.firing.clocks import settled_at, settled_by
from latecomer.windowing.firing.closing import places_to_close
from latecomer.windowing.firing.private_columns import PaneLane
from latecomer.windowing.firing.sessions import SessionLogic
from latecomer.windowing.firing.silence import has_news, silence_publishes

WINDOW_END = datetime(9997, 12, 31, tzinfo=UTC)
LATER = to_micros(datetime(9998, 12, 31, tzinfo=UTC))
NOTHING: Any = None


def output(window: dict[str, str]) -> Output:
    """Late events may come for longer than the calendar lasts, and are published ten at a time."""
    return Output(
        window=window,
        by=("key",),
        aggregates={"rows": "count(*)"},
        allowed_lateness="1200d",
        late="update",
        trigger={"late": {"count": 10}},
    )


def reaching(watermark: int) -> Section:
    return Section([(1, Row(0, 0, watermark))])


@pytest.mark.parametrize(("watermark", "publishes"), [(LATER, False), (END_OF_TIME, True)])
def test_late_events_that_wait_are_published_when_time_ends(watermark: int, publishes: bool) -> None:
    bounds = {"window_end": WINDOW_END}
    file = DataFile(f"data/000000000000-0a-{PaneLane.WAITING}/part.parquet", 1, 1, bounds, bounds)
    found = silence_publishes(
        output({"tumbling": "1m"}),
        NOTHING,
        [file],
        reaching(watermark),
        has_news,
        lambda files, section: False,
    )
    assert found is publishes


@pytest.mark.parametrize("per", [{}, {"per": "batch"}])
@pytest.mark.parametrize(("seconds", "publishes"), [(59, False), (61, True)])
def test_an_early_pane_fires_in_silence_when_its_clock_has_passed(
    per: dict[str, str], seconds: int, publishes: bool
) -> None:
    window_end = {"window_end": WINDOW_END}
    file = DataFile("data/000000000000-0a/part.parquet", 1, 1, window_end, {**window_end, SINCE: 3})
    made = Output(
        window={"tumbling": "1d"},
        by=("key",),
        aggregates={"rows": "count(*)"},
        trigger={"early": {"every": "1m", **per}},
    )
    section = Section([(1, Row(0, seconds * 1_000_000, 0))], before=Step(0, 1))
    found = silence_publishes(made, NOTHING, [file], section, has_news, lambda files, section: False)
    assert found is publishes


@pytest.mark.parametrize(("watermark", "publishes"), [(LATER, False), (END_OF_TIME, True)])
def test_late_events_of_sessions_that_wait_are_published_when_time_ends(
    watermark: int, publishes: bool
) -> None:
    columns = {"window_end": pa.array([WINDOW_END], TIMESTAMP), SINCE: [3], WAITING_EVENTS: [3]}
    logic = cast(SessionLogic, SimpleNamespace(output=output({"session": "30s"})))
    found = SessionLogic.has_news(logic, pa.RecordBatch.from_pydict(columns), reaching(watermark))
    assert found is publishes


@pytest.mark.parametrize(("watermark", "closed"), [(LATER, 0), (END_OF_TIME, 1)])
def test_windows_get_their_closing_pane_when_time_ends(tmp_path: Path, watermark: int, closed: int) -> None:
    story = new_story(tmp_path, PIPELINE.replace("allowed_lateness: 5m", "allowed_lateness: 1200d"))
    span = {"window_start": to_micros(WINDOW_END) - 60_000_000, "window_end": to_micros(WINDOW_END)}
    story.panes("totals", 0, [{**shown((0, 60), 0, 100, 1), **span}])
    places = places_to_close(
        story.tables("totals").panes, story.pipeline.outputs["totals"], reaching(watermark)
    )
    assert len(places) == closed


@pytest.mark.parametrize("watermark", [LATER, END_OF_TIME - 1, END_OF_TIME])
def test_windows_have_settled_by_the_watermark_at_which_they_settle(watermark: int) -> None:
    made, ends = output({"tumbling": "1m"}), np.array([to_micros(WINDOW_END), END_OF_TIME - 1, END_OF_TIME])
    assert (watermark >= settled_at(made, ends)).tolist() == (ends <= settled_by(made, watermark)).tolist()
