"""What the bench says of its own figures: whether a ratio has fallen, and whether a peer's numbers are right."""

from __future__ import annotations

import getpass
import json
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from bench.peers.checking import Truth, json_rows, standing, truth, verdict
from bench.record import KEPT, Found, checked, fallen, load, machine, ratios_of, record, save

HELD = {"throughput": {"1M rows": 2.0, "250k rows": 3.0}, "rebuild": {"cold": 0.5}}


@pytest.mark.parametrize("ratio", [2.0, 2.5, 1.71])
def test_a_ratio_that_has_not_fallen_passes(ratio: float) -> None:
    assert fallen(HELD, {**HELD, "throughput": {"1M rows": ratio, "250k rows": 3.0}}) == {}


def test_a_fallen_ratio_is_named_with_its_case() -> None:
    now = {**HELD, "throughput": {"1M rows": 1.69, "250k rows": 3.0}}
    assert fallen(HELD, now) == {"throughput": ["1M rows: 1.69, and 2.00 is kept (16 % less)"]}


def test_a_ratio_that_was_not_measured_does_not_pass() -> None:
    assert fallen(HELD, {"throughput": HELD["throughput"]}) == {
        "rebuild": ["cold: not measured, and 0.50 is kept"]
    }


def measuring(*rounds: Mapping[str, Mapping[str, float]]) -> Callable[[list[str]], dict[str, Found]]:
    """Measurements that find one after the other."""
    left = iter(rounds)

    def measure(names: list[str]) -> dict[str, Found]:
        found = next(left)
        return {name: Found(ratios=dict(found[name])) for name in names}

    return measure


def test_what_falls_once_is_measured_again() -> None:
    once = {**HELD, "throughput": {"1M rows": 1.0, "250k rows": 3.3}}
    found = ratios_of(checked(HELD, measuring(once, {"throughput": {"1M rows": 2.1, "250k rows": 1.0}})))
    assert found == {**HELD, "throughput": {"1M rows": 2.1, "250k rows": 3.3}}
    assert fallen(HELD, found) == {}


def test_what_falls_twice_has_fallen() -> None:
    low = {**HELD, "rebuild": {"cold": 0.3}}
    assert list(fallen(HELD, ratios_of(checked(HELD, measuring(low, low))))) == ["rebuild"]


def test_a_run_is_written_with_the_machine_and_nothing_that_names_it(tmp_path: Path) -> None:
    written = save(record(1000, {"rebuild": Found(ratios={"cold": 0.5})}), tmp_path / "runs" / "run.json")
    assert load(written)["ratios"] == {"rebuild": {"cold": 0.5}}
    described = load(written)["machine"]
    assert described == machine()
    assert all(described[name] for name in ("cores", "memory_gib", "processor", "python", "java", "spark"))
    assert not {platform.node(), getpass.getuser()} & set(map(str, described.values()))
    assert not [value for value in described.values() if str(value).startswith("/")]


def test_the_kept_run_can_be_checked() -> None:
    assert load(KEPT)["events"]
    assert fallen(load(KEPT)["ratios"], load(KEPT)["ratios"]) == {}


# A peer's numbers. Three events of a merchant: two in the first minute, of which the second comes very late.

TIMES = ["10:00:10", "10:02:50", "10:00:20", "10:05:00"]


@pytest.fixture
def true(tmp_path: Path) -> Truth:
    lines = [
        {"event_time": f"2026-01-01T{time}.000001Z", "merchant": "m", "paise": 10**nth}
        for nth, time in enumerate(TIMES)
    ]
    file = tmp_path / "events.json"
    file.write_text("\n".join(map(json.dumps, lines)))
    return truth([file])


def numbers(*rows: tuple[str, int, int]) -> pl.DataFrame:
    return standing(
        {"window_start": f"2026-01-01 {start}:00", "merchant": "m", "payments": count, "paise": paise}
        for start, count, paise in rows
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("10:00", 2, 101), ("10:02", 1, 10), ("10:05", 1, 1000)], "right"),
        ([("10:00", 1, 1), ("10:00", 2, 101), ("10:02", 1, 10), ("10:05", 1, 1000)], "right"),
        ([("10:00", 1, 1), ("10:02", 1, 10), ("10:05", 1, 1000)], "right, without 1 late events"),
        ([("10:00", 2, 101), ("10:02", 1, 10)], "right; 1 events are in windows still open"),
        ([("10:00", 3, 101), ("10:02", 1, 10)], "WRONG: 1 windows have events that are not there"),
        ([("10:00", 2, 100), ("10:02", 1, 10), ("10:05", 1, 1000)], "WRONG: sums do not fit their counts"),
        ([("10:00", 1, 1), ("10:05", 1, 1000)], "WRONG: 2 events are missing, and 1 can be late"),
        ([("10:04", 1, 1), ("10:05", 1, 1000)], "WRONG: 1 windows have events that are not there"),
    ],
)
def test_a_peers_numbers_are_held_against_a_plain_count(
    true: Truth, rows: list[tuple[str, int, int]], said: str
) -> None:
    assert verdict(numbers(*rows), true) == said


def test_numbers_are_read_as_rows_and_as_changes(tmp_path: Path) -> None:
    one = {"window_start": 60_000_000, "merchant": "m", "payments": 1, "paise": 5}
    two = {**one, "payments": 2}
    changes = [{"after": one, "op": "c"}, {"before": one, "op": "d"}, {"after": two, "op": "c"}]
    for name, rows in (("plain", [one, two]), ("changes", changes)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0").write_text("\n".join(map(json.dumps, rows)))
        (found,) = standing(json_rows(tmp_path / name)).to_dicts()
        assert found == {**two, "window_start": datetime(1970, 1, 1, 0, 1, tzinfo=UTC)}
