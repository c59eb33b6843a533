from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from after.serving.correct_kit import grouped, late, make_lake, publish, reader, rounded, served
from cli.cli_kit import MINUTE, NOON, Lake
from examples_kit import drawn
from latecomer.after.reading.choices import Grain
from latecomer.after.serving import correcting
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import by_grain, check_grain, corrections, serving
from latecomer.errors import PipelineError, StoreInUse
from latecomer.model.durations import to_micros, to_moment
from latecomer.store.failpoints import VARIABLE
from latecomer.store.holding.lock import TABLE, exclusive


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path)


def at(minute: int) -> datetime:
    return to_moment(NOON + minute * MINUTE)


def test_late_events_are_added_up_by_window_key_and_batch(lake: Lake) -> None:
    lake.late("totals", 3, [late(0, "a", paise=5), late(0, "a", paise=7), late(0, None, paise=1)])
    lake.late("totals", 4, [late(0, "a", paise=100), late(1, "a", fee=Decimal("0.10"))])
    when = datetime(2026, 5, 1, tzinfo=UTC)
    rows = correct(reader(lake), "totals", now=when)
    columns = ("batch", "paise", "payments", "fees", "least", "late_events", "corrected_at")
    assert [
        tuple(row[name] for name in ("window_start", "merchant", *columns)) for row in rows.to_pylist()
    ] == [
        (at(0), "a", 3, 12, 2, None, 5, 2, when),
        (at(0), "a", 4, 100, 1, None, 100, 1, when),
        (at(0), None, 3, 1, 1, None, 1, 1, when),
        (at(1), "a", 4, None, 1, Decimal("0.10"), None, 1, when),
    ]
    assert corrections(reader(lake), "totals").equals(rows)


def test_twice_is_once_and_later_batches_are_added(lake: Lake) -> None:
    lake.late("totals", 0, [late(0, "a", paise=5)])
    assert correct(reader(lake), "totals").num_rows == 1
    assert correct(reader(lake), "totals").num_rows == 0
    lake.late("totals", 2, [late(0, "a", paise=6)])
    assert correct(reader(lake), "totals")["paise"].to_pylist() == [6]
    assert correct(reader(lake), "totals").num_rows == 0
    assert corrections(reader(lake), "totals")["paise"].to_pylist() == [5, 6]


def test_a_range_takes_its_windows_and_leaves_the_others_for_later(lake: Lake) -> None:
    lake.late("totals", 0, [late(minute, "a", paise=10**minute) for minute in range(4)])
    assert correct(reader(lake), "totals", since=at(1), until=at(3))["paise"].to_pylist() == [10, 100]
    assert correct(reader(lake), "totals", since=at(2))["paise"].to_pylist() == [1000]
    assert correct(reader(lake), "totals", since=at(1)).num_rows == 0
    lake.late("totals", 1, [late(1, "a", paise=7)])
    assert correct(reader(lake), "totals")["paise"].to_pylist() == [1, 7]
    assert correct(reader(lake), "totals", until=at(9)).num_rows == 0


def test_nothing_is_made_where_nothing_was_late(lake: Lake) -> None:
    rows = correct(reader(lake), "totals")
    assert (rows.num_rows, rows.schema.names[-2:]) == (0, ["late_events", "corrected_at"])
    assert corrections(reader(lake), "totals").num_rows == 0
    assert not (lake.store.root / "outputs" / "totals" / "corrections").exists()


def test_sums_are_exact(lake: Lake) -> None:
    large, fee = 2**62 + 1, Decimal("9999999999999999.99")
    lake.late("totals", 0, [late(0, "a", paise=paise, fee=fee) for paise in (large, -large, 3)])
    (row,) = correct(reader(lake), "totals").to_pylist()
    assert (row["paise"], row["fees"]) == (3, 3 * fee)


def test_late_events_may_add_up_to_more_than_64_bits(lake: Lake) -> None:
    lake.late("totals", 0, [late(0, "a", paise=2**62), late(0, "a", paise=2**62)])
    assert correct(reader(lake), "totals")["paise"].to_pylist() == [2**63]


def test_a_sum_that_outgrows_its_type_in_an_old_store_is_told_and_nothing_is_written(lake: Lake) -> None:
    pins = lake.pipeline.store_path / "pipeline.json"
    kept = {key: value for key, value in json.loads(pins.read_text()).items() if key != "sums"}
    pins.write_text(json.dumps({**kept, "format": 1}))
    lake.late("totals", 0, [late(0, "a", paise=2**62), late(0, "a", paise=2**62)])
    with pytest.raises(PipelineError, match=r"outputs\.totals\.aggregates: paise outgrew its type, int64"):
        correct(reader(lake), "totals")
    assert corrections(reader(lake), "totals").num_rows == 0


def test_a_column_that_the_side_output_had_to_rename_is_found(lake: Lake) -> None:
    lake.late("everything", 0, [late(0, payload_verdict=4, ok=False), late(0, payload_verdict=5, ok=True)])
    (row,) = correct(reader(lake), "everything").to_pylist()
    assert (row["judged"], row["any_ok"]) == (9, True)
    assert "spread" not in row


def test_what_adding_cannot_correct_is_said(lake: Lake) -> None:
    reads = reader(lake)
    correct(reads, "everything")
    (said,) = reads.notes
    assert said == (
        "tokens: approx_count_distinct is empty where there is a correction (Spark alone counts distinct "
        "bytes); to see it, rebuild those windows: latecomer rebuild plan FILE everything --from T"
    )
    correct(reads, "sessions")
    assert "session" in reads.notes[0]


def test_an_event_that_is_late_for_several_windows_is_counted_once(lake: Lake) -> None:
    def missed(position: int, *minutes: int) -> list[dict[str, Any]]:
        return [{**late(minute), "origin": "a.json", "position": position} for minute in minutes]

    lake.late("sliding", 0, [*missed(1, 0, 1), *missed(2, 0, 1), *missed(3, 1)])
    first = correcting.correct_and_count(reader(lake), "sliding", until=at(1))
    assert (first.events, first.assignments) == (2, 2)
    rest = correcting.correct_and_count(reader(lake), "sliding")
    assert (rest.events, rest.assignments, rest.rows["late_events"].to_pylist()) == (3, 3, [3])
    lake.late("sliding", 1, [*missed(1, 0, 1), *missed(4, 3, 4)])
    later = correcting.correct_and_count(reader(lake), "sliding")
    assert (later.events, later.assignments) == (2, 4)
    again = correcting.correct_and_count(reader(lake), "sliding")
    assert (again.events, again.assignments) == (0, 0)


def test_two_calls_at_once_are_refused(lake: Lake) -> None:
    lake.late("totals", 0, [late(0, "a", paise=5)])
    held = exclusive(correcting.corrections_of(reader(lake), "totals").table.root, TABLE)
    with held, pytest.raises(StoreInUse, match=r"corrections is in use by process"):
        correct(reader(lake), "totals")
    assert correct(reader(lake), "totals").num_rows == 1


# Coarser than windows


def test_corrections_by_hour_and_day_of_the_windows_own_zone(lake: Lake) -> None:
    # Noon in UTC is 17:30 in Kolkata; half an hour before, the hour there had just begun.
    rows = [late(minute, paise=10**nth) for nth, minute in enumerate((-30, 0, 30, 12 * 60))]
    lake.late("half_hours", 0, rows[:2])
    lake.late("half_hours", 5, rows[2:])
    added = correct(reader(lake), "half_hours")
    hours = by_grain(reader(lake), "half_hours", added, Grain.HOUR).to_pylist()
    assert [(to_micros(row["window_start"]) - NOON) // MINUTE for row in hours] == [-30, 30, 690]
    assert [row["paise"] for row in hours] == [11, 100, 1000]
    assert (hours[0]["first_batch"], hours[0]["last_batch"], hours[0]["late_events"]) == (0, 0, 2)
    days = by_grain(reader(lake), "half_hours", added, Grain.DAY).to_pylist()
    assert [(row["paise"], row["first_batch"], row["last_batch"]) for row in days] == [
        (111, 0, 5),
        (1000, 5, 5),
    ]
    assert days[1]["window_start"] == datetime(2026, 4, 25, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("output", "grain", "outcome"),
    [
        ("sliding", Grain.DAY, "windows that overlap"),
        ("days", Grain.HOUR, "shorter than the output's windows"),
    ],
)
def test_a_grain_that_makes_no_sense_is_refused(lake: Lake, output: str, grain: Grain, outcome: str) -> None:
    with pytest.raises(PipelineError, match=rf"by: .*{outcome}.*\(value: '{grain}'\)"):
        check_grain(reader(lake), output, grain)
    check_grain(reader(lake), "days", Grain.DAY)
    check_grain(reader(lake), "sessions", Grain.HOUR)


# Killed


SCRIPT = """
import sys
from latecomer.config.load import load_pipeline
from latecomer.after.serving.correcting import correct
from latecomer.after.reading.reader import Reader
correct(Reader(load_pipeline(sys.argv[1])), "totals")
"""


@pytest.mark.parametrize(("place", "left"), [("written", [1]), ("committed", [])])
def test_a_call_killed_at_either_side_of_its_commit(lake: Lake, place: str, left: list[int]) -> None:
    lake.late("totals", 4, [late(0, "a", paise=1)])
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lake.file)],
        env={**os.environ, VARIABLE: f"totals.corrections.{place}@4"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert correct(reader(lake), "totals")["paise"].to_pylist() == left
    assert corrections(reader(lake), "totals")["paise"].to_pylist() == [1]


# Any history


class Killed(BaseException):
    """What SIGKILL is to a process, to one call of it."""


def correct_or_die(lake: Lake, place: str | None, since: datetime | None, until: datetime | None) -> None:
    """A call that is killed at a place, if it gets there."""

    def failpoint(name: str, batch: int) -> None:
        if place is not None and name == f"totals.corrections.{place}":
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correcting, "failpoint", failpoint)
        try:
            correct(reader(lake), "totals", since, until)
        except Killed:
            return


minutes = st.integers(0, 2)
events = st.builds(
    late,
    minutes,
    st.sampled_from(["a", "b", None]),
    paise=st.none() | st.integers(-5, 5) | st.integers(-(2**56), 2**56),
    fee=st.none() | st.decimals("-9.99", "9.99", places=2),
    payer=st.sampled_from(["p", "é", None]),
)
batches = st.tuples(st.sampled_from(["on time", "late", "late"]), st.lists(events, min_size=1, max_size=4))
calls = st.tuples(
    st.sampled_from([None, None, "written", "committed"]),
    st.none() | minutes.map(at),
    st.none() | minutes.map(at),
)


@given(st.lists(st.one_of(batches, calls, st.just("rebuild")), max_size=10))
@drawn(12)
def test_whatever_was_called_base_and_correction_are_a_group_by_over_all_events(
    history: Sequence[Any],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = make_lake(Path(folder))
        outcome: list[Any] = []
        aside: list[Any] = []
        for batch, step in enumerate([*history, (None, None, None)]):
            match step:
                case ("on time", found):
                    outcome += found
                    publish(lake, "totals", batch, outcome)
                case ("late", found):
                    aside += found
                    lake.late("totals", batch, found)
                case "rebuild":
                    outcome, aside = [*outcome, *aside], []
                    publish(lake, "totals", batch, outcome, timing="CORRECTION")
                case place, since, until:
                    correct_or_die(lake, place, since, until)
        names = list(lake.pipeline.outputs["totals"].aggregates)
        found = served(serving(reader(lake), "totals").to_pylist(), *names)
        expected = {}
        for (start, merchant), values in grouped(lake, "totals", [*outcome, *aside]).items():
            values["mean"] = None if values["mean"] is None else rounded(values["mean"])
            expected[(start - NOON) // MINUTE, merchant] = tuple(values[name] for name in names)
        assert found == expected
