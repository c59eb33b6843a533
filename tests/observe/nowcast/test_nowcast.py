"""The nowcast of a store: what windows will be, how that was measured, and why it is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import latecomer
from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake
from latecomer.model.durations import to_micros
from latecomer.model.nowcast.estimating import LEAST
from latecomer.observe.nowcast import arrivals
from latecomer.observe.nowcast.report import Nowcast
from observe.nowcast.nowcast_kit import Story, tell

BUSY = Story(minutes=70, rate=30, merchants=("amul", "bata", "cred"))


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Seventy minutes of three merchants, in the middle of a minute."""
    return tell(tmp_path_factory.mktemp("nowcast") / "busy", BUSY, 69.5)


@pytest.fixture(scope="module")
def found(busy: Lake) -> Nowcast:
    return latecomer.nowcast(busy.pipeline, "minute_totals")


def truth(story: Story) -> Counter[tuple[int, str]]:
    """How many events each window and merchant has in the end."""
    events = story.events()
    return Counter(
        (NOON + int(time) // MINUTE * MINUTE, story.merchants[who])
        for time, who in zip(events["time"], events["merchant"], strict=True)
    )


def place(row: dict[str, Any]) -> tuple[int, str]:
    return to_micros(row["window_start"]), row["merchant"]


def test_open_and_recently_closed_windows_are_estimated(found: Nowcast) -> None:
    rows = found.rows.to_pylist()
    assert found.refused is None
    assert {row["timing"] for row in rows} == {"OPEN", "ON_TIME"}
    newest = [row for row in rows if to_micros(row["window_start"]) == NOON + 69 * MINUTE]
    assert [row["merchant"] for row in newest] == ["amul", "bata", "cred"]
    for row in newest:
        assert row["age"].total_seconds() == 30
        assert row["complete"] < 0.5
        assert row["payments"] <= row["payments_low"] <= row["payments_estimate"] <= row["payments_high"]
        assert 20 <= row["payments_estimate"] <= 40
        assert isinstance(row["paise_estimate"], Decimal)
        assert (row["past_of"], row["reason"]) == ("key", None)
        assert row["past_numbers"] >= LEAST
    ages = {to_micros(row["window_start"]): row["complete"] for row in rows}
    settled = [row for row in rows if row["timing"] == "ON_TIME"]
    assert all(row["payments_low"] >= row["payments"] for row in settled)
    assert sorted(ages.values()) == [ages[start] for start in sorted(ages, reverse=True)], "older is fuller"


def test_what_became_of_the_numbers_lay_in_their_intervals(tmp_path: Path) -> None:
    """The same source, told up to several moments, and held against what came in the end."""
    story = Story(minutes=60, rate=25, merchants=tuple(f"m{nth}" for nth in range(12)))
    final, held = truth(story), []
    for minute in (47.3, 52.5, 57.8):
        rows = latecomer.nowcast(tell(tmp_path / str(minute), story, minute).pipeline, "minute_totals").rows
        for row in rows.to_pylist():
            if row["payments"] < final[place(row)]:
                held.append(row["payments_low"] <= final[place(row)] <= row["payments_high"])
    assert len(held) > 60
    assert 0.8 <= np.mean(held) <= 0.98


def test_calibration_is_measured_and_said(found: Nowcast) -> None:
    assert found.calibration.keys() == {"paise", "payments"}
    assert all(each.trials >= 50 for each in found.calibration.values())
    assert found.stationary is True
    first, *others = found.notes
    assert first.startswith(f"nowcast with intervals of 90 %, from {found.windows} past windows")
    assert "99.9 % of the events have come" in first
    each = found.calibration["payments"]
    share = f"{each.held} of {each.trials} held-back numbers ({100 * each.coverage:.0f} %)"
    said = f"calibration of payments: {share} lay in"
    assert any(note.startswith(said) for note in others)
    assert "held-back numbers" in repr(found)


def test_a_source_that_became_slower_is_said_to_be_no_guide(tmp_path: Path) -> None:
    story = Story(minutes=120, delay=lambda minute: 15.0 if minute < 85 else 75.0)
    found = latecomer.nowcast(tell(tmp_path / "slow", story, 119.5).pipeline, "minute_totals")
    assert found.stationary is False
    assert any(
        each.startswith("not stationary: windows fill slower than they did") for each in found.warnings
    )
    assert set(found.warnings) <= set(found.notes)


def test_a_short_history_is_refused_with_its_reason_and_the_numbers_are_still_there(tmp_path: Path) -> None:
    found = latecomer.nowcast(tell(tmp_path / "short", Story(minutes=20), 19.5).pipeline, "minute_totals")
    assert found.refused is not None
    assert "past windows are whole and were watched from their start, and 30 are needed" in found.refused
    rows = found.rows.to_pylist()
    assert {row["timing"] for row in rows} >= {"OPEN"}
    assert all(row["payments"] > 0 and row["payments_estimate"] is None for row in rows)
    assert {row["reason"] for row in rows} == {found.refused}
    assert found.notes == [f"no nowcast: {found.refused}"]
    assert found.stationary is None


def test_what_came_all_at_once_tells_nothing_of_how_windows_fill(tmp_path: Path) -> None:
    """A backlog: an hour of events that arrived in its last minute."""
    story = Story(minutes=60)
    events = story.events()
    events["came"] = np.sort(events["came"]) // 60 + 59 * MINUTE

    class Backlog(Story):
        def events(self) -> dict[str, Any]:
            return events

    found = latecomer.nowcast(tell(tmp_path / "backlog", Backlog(minutes=60)).pipeline, "minute_totals")
    assert found.refused is not None
    assert found.refused.startswith(("0 past windows", "1 past windows"))


def test_one_key_and_one_window(busy: Lake, found: Nowcast) -> None:
    moment = datetime(2026, 4, 25, 13, 9, 15, tzinfo=UTC)
    one = latecomer.nowcast(busy.pipeline, "minute_totals", window=moment, key={"merchant": "bata"})
    (row,) = one.rows.to_pylist()
    assert row == next(each for each in found.rows.to_pylist() if place(each) == place(row))


def test_a_part_of_the_log_is_enough(
    busy: Lake, found: Nowcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that hold only old events are left out, and what they hold is not missed."""
    lake = tell(tmp_path / "files", BUSY, 69.5, files=12)
    monkeypatch.setattr(arrivals, "ENOUGH_EVENTS", 10)
    monkeypatch.setattr(arrivals, "ENOUGH_WINDOWS", 55)
    part = latecomer.nowcast(lake.pipeline, "minute_totals")
    assert part.refused is None
    assert LEAST <= part.windows < found.windows
    estimated = {place(row): row for row in part.rows.to_pylist()}
    for row in found.rows.to_pylist():
        there = estimated.get(place(row))
        assert there is not None
        assert there["payments"] == row["payments"]
        assert abs(there["payments_estimate"] - row["payments_estimate"]) <= 4


def test_events_that_come_very_late_have_more_of_the_log_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrives tells how late events come, whatever window it is for: no window of the newest files is whole."""
    slow = Story(minutes=100, rate=20, delay=lambda _: 100.0)
    monkeypatch.setattr(arrivals, "ENOUGH_EVENTS", 10)
    monkeypatch.setattr(arrivals, "ENOUGH_WINDOWS", 8)
    found = latecomer.nowcast(tell(tmp_path / "slow", slow, 99.5, files=12).pipeline, "minute_totals")
    assert found.refused is None
    assert found.windows >= LEAST + 20
    assert found.share == 0.999
    assert (found.whole_after or 0) > 6 * MINUTE


def pipeline(output: str, columns: str = "") -> str:
    """The pipeline with another output."""
    head, _, rest = PIPELINE.partition("  everything:")
    return f"{head}  other:\n{output}\n  everything:{rest}".replace("watermark:", f"{columns}watermark:")


def other(tmp_path: Path, output: str, columns: str = "") -> Nowcast:
    text = pipeline(output, columns)
    story = Story(minutes=80, merchants=("amul", "bata"), text=text)
    return latecomer.nowcast(tell(tmp_path / "other", story, 79.5, files=2).pipeline, "other")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("    window: {session: 5m}\n    aggregates: {n: count(*)}", "a session ends when its events do"),
        (
            "    window: {global: true}\n    aggregates: {n: count(*)}\n    trigger: {early: {every: 1m}}",
            "its window never ends",
        ),
        (
            "    window: {tumbling: 1m}\n    where: merchant rlike 'a'\n    aggregates: {n: count(*)}",
            "only Spark can evaluate where: merchant rlike 'a'",
        ),
    ],
    ids=["session", "global", "where"],
)
def test_what_cannot_be_estimated_says_why(tmp_path: Path, output: str, reason: str) -> None:
    found = other(tmp_path, output)
    assert found.refused is not None
    assert found.refused.startswith(reason)
    assert found.notes[0] == f"no nowcast: {found.refused}"


def test_where_and_derived_columns_are_computed_without_spark(tmp_path: Path) -> None:
    output = (
        "    window: {sliding: 2m, every: 1m}\n    by: [big]\n    where: paise < 500\n"
        "    columns: {big: paise >= 250}\n    aggregates: {n: count(*), most: max(paise), km: sum(km)}"
    )
    found = other(tmp_path, output)
    assert found.refused is None
    assert found.windows == 38, "windows that do not overlap: one of two"
    assert "most: not estimated, for only counts and sums grow" in " ".join(found.notes)
    assert "km: not estimated; some amounts are negative" in " ".join(found.notes)
    assert found.calibration.keys() == {"n"}
    assert "no window is open or has closed recently" in found.notes[-1], "the kit publishes another output"


def test_an_average_is_told_how_complete_it_is(tmp_path: Path) -> None:
    found = other(tmp_path, "    window: {tumbling: 1m}\n    aggregates: {mean: avg(paise)}")
    assert found.refused is None
    assert found.calibration.keys() == {"the number of events"}
    assert found.rows.schema.names[-5:] == ["age", "complete", "past_numbers", "past_of", "reason"]


def test_no_column_is_there_twice(tmp_path: Path) -> None:
    output = "    window: {tumbling: 1m}\n    aggregates: {age: count(*), age_low: count(paise), complete: max(paise)}"
    names = other(tmp_path, output).rows.schema.names
    assert len(names) == len(set(names))
    assert {"age", "age_low", "age_low_", "age_", "complete_"} <= set(names)


def test_no_two_columns_differ_in_capitals_alone(tmp_path: Path) -> None:
    output = "    window: {tumbling: 1m}\n    aggregates: {Complete: count(*)}"
    assert {"Complete", "complete_"} <= set(other(tmp_path, output).rows.schema.names)


def test_events_that_came_too_late_are_mentioned(tmp_path: Path) -> None:
    lake = tell(tmp_path / "late", Story(minutes=60), 59.5)
    line = {"output": "minute_totals", "unit": "assignments"}
    lake.ledger(5, [{**line, "received": Decimal(100), "side_output": Decimal(100)}])
    found = latecomer.nowcast(lake.pipeline, "minute_totals")
    assert any("of all events came too late for this output" in note for note in found.notes)


def test_a_window_for_which_nothing_has_come_is_named(tmp_path: Path) -> None:
    story = Story(minutes=60)
    events = {name: values[story.events()["time"] < 59 * MINUTE] for name, values in story.events().items()}

    class Silent(Story):
        def events(self) -> dict[str, Any]:
            return events

    found = latecomer.nowcast(tell(tmp_path / "silent", Silent(minutes=60), 59.5).pipeline, "minute_totals")
    assert any(
        "nothing has come yet for the window that starts at 2026-04-25T12:59:00Z" in note
        for note in found.notes
    )


def test_it_can_be_printed(found: Nowcast) -> None:
    title, heads, first, *_ = str(found).splitlines()
    assert title == f"nowcast of minute_totals: {found.rows.num_rows} numbers"
    assert {"window_start", "payments_estimate"} <= set(heads.split())
    assert str(found.rows["window_start"][0].as_py().isoformat())[:16] in first
    assert found.notes[0] in str(found)
    assert "_estimate" not in repr(found), "which is short"


def test_it_shows_itself_in_a_notebook(found: Nowcast) -> None:
    page = found._repr_html_()
    assert "payments_estimate" in page
    assert "calibration of payments" in page


def test_a_notebook_shows_characters_that_change_the_direction_of_text_as_escapes(found: Nowcast) -> None:
    page = replace(found, rows=pa.table({"merchant": ["\u202eluma"]}))._repr_html_()
    assert "\u202e" not in page
    assert "\\u202eluma" in page


HOURLY = PIPELINE.replace("window: {tumbling: 1m}", "window: {tumbling: 1h}", 1).replace(
    "allowed_lateness: 5m", "allowed_lateness: 12h", 1
)


def on_sundays(minute: float) -> float:
    """The story begins at noon on a Saturday: events of Sundays come an hour late, others after two minutes."""
    return 3600.0 if (minute + 12 * 60) // (24 * 60) % 7 == 1 else 120.0


def test_a_sunday_is_held_against_sundays(tmp_path: Path) -> None:
    """Four weeks of hours, up to the evening of the fifth Sunday."""
    until = 4 * 7 * 24 * 60 + 31 * 60 + 30
    story = Story(until, 1.5, ("amul",), on_sundays, text=HOURLY, length=60 * MINUTE)
    found = latecomer.nowcast(tell(tmp_path / "weeks", story, until).pipeline, "minute_totals")
    assert found.windows > 600, "more than the newest 300: weeks are asked for"
    rows = {row["window_start"].isoformat(): row for row in found.rows.to_pylist()}
    last = rows["2026-05-24T18:00:00+00:00"]
    assert last["past_of"] == "key, same weekday"
    assert LEAST <= last["past_numbers"] <= 5 * 24
    assert last["complete"] < 0.85, "on a weekday it would be nearly whole"
    assert last["payments_low"] <= 90 <= last["payments_high"]
    assert found.stationary is True, "that it is Sunday is no drift"
