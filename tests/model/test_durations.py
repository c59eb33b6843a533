"""Durations as people write them, and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from latecomer.model.durations import (
    LONGEST,
    Duration,
    PositiveDuration,
    SignedDuration,
    format_duration,
    iso,
    parse_duration,
    shown_duration,
    to_micros,
    to_moment,
)
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import FOREVER
from scenarios import quick


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("1us", 1),
        ("500ms", 500_000),
        ("30s", 30_000_000),
        ("5m", 300_000_000),
        ("1h", 3_600_000_000),
        ("1d", 86_400_000_000),
        ("1h30m", 5_400_000_000),
        ("-2m30s", -150_000_000),
        (" 5m ", 300_000_000),
        ("0", 0),
        (0, 0),
        ("0s", 0),
        (timedelta(milliseconds=1.5), 1_500),
    ],
)
def test_a_duration_is_a_number_and_a_unit(written: object, micros: int) -> None:
    assert parse_duration(written) == micros


@pytest.mark.parametrize(
    "written", ["", "5", 5, 1.5, "5 m", "m5", "1.5h", "5min", "5M", "--5m", "5m-3s", None, True, False, []]
)
def test_anything_else_is_refused_with_the_fix(written: object) -> None:
    with pytest.raises(ValueError, match="write a number and a unit: 500ms, 30s"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["110000000d", "365243d1us", "-365244d", timedelta.max, timedelta.min])
def test_more_than_a_thousand_years_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="longer than a thousand years; write 365243d or less"):
        parse_duration(written)


def test_a_moment_and_two_durations_fit_into_64_bits() -> None:
    assert FOREVER + LONGEST < 2**63
    assert END_OF_TIME + 2 * LONGEST < 2**63


@given(st.integers(-LONGEST, LONGEST))
@quick
def test_a_duration_is_read_as_it_was_written(micros: int) -> None:
    assert parse_duration(format_duration(micros)) == micros


@pytest.mark.parametrize(
    ("micros", "written"), [(0, "0s"), (90_000_000, "1m30s"), (86_400_000_001, "1d1us"), (-1_000, "-1ms")]
)
def test_a_duration_is_written_without_needless_parts(micros: int, written: str) -> None:
    assert format_duration(micros) == written


@pytest.mark.parametrize(
    ("kind", "allowed", "refused"),
    [(Duration, "0s", "-1us"), (PositiveDuration, "1us", "0s"), (SignedDuration, "-1us", "one")],
)
def test_each_kind_of_duration_has_its_own_bound(kind: Any, allowed: str, refused: str) -> None:
    adapter: TypeAdapter[int] = TypeAdapter(kind)
    assert adapter.dump_python(adapter.validate_python(allowed)) == allowed
    with pytest.raises(ValidationError):
        adapter.validate_python(refused)


def test_a_moment_without_zone_is_utc() -> None:
    assert to_micros(datetime(1970, 1, 1, 0, 0, 1)) == 1_000_000
    kolkata = timezone(timedelta(hours=5, minutes=30))
    assert to_micros(datetime(1970, 1, 1, 5, 30, 1, tzinfo=kolkata)) == 1_000_000


@given(st.datetimes(timezones=st.just(UTC)))
@quick
def test_moments_keep_every_microsecond(moment: datetime) -> None:
    assert to_moment(to_micros(moment)) == moment


def test_iso_is_utc_without_needless_digits() -> None:
    assert iso(None) is None
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(-1) == "1969-12-31T23:59:59.999999Z"


@pytest.mark.parametrize(
    ("micros", "said"),
    [
        (0, "0s"),
        (479, "479us"),
        (1_479, "1ms 479us"),
        (661_788_479, "11m 1s"),
        (661_499_999, "11m 1s"),
        (59_999_999, "59s 999ms"),
        (3_600 * 1_000_000, "1h"),
        (3_599_999_999, "59m 59s"),
        (2 * 3_600_000_000 - 28_000_000, "1h 59m"),
        (90_061 * 1_000_000, "1d 1h"),
        (400 * 86_400_000_000 + 1, "400d"),
        (-661_788_479, "-11m 1s"),
    ],
)
def test_a_measured_duration_is_said_in_two_units(micros: int, said: str) -> None:
    assert shown_duration(micros) == said


@given(st.integers(-LONGEST, LONGEST))
def test_what_is_said_is_near(micros: int) -> None:
    said = parse_duration(shown_duration(micros).replace(" ", ""))
    assert abs(micros) * 23 / 24 - 1 <= abs(said) <= abs(micros)
