"""Columns of written times: many at once are what each is by itself, in text and as fractions of numbers."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.log.moments import micros
from latecomer.model.written_times import written_moment

_DAYS = st.one_of(
    st.dates().map(str),
    st.sampled_from(
        ["2026-02-30", "2028-02-29", "2026-11-31", "1900-02-29", "2026-13-01", "0001-01-01", "9999-12-31"]
    ),
)
_CLOCKS = st.one_of(
    st.times().map(lambda at: at.isoformat()),
    st.sampled_from(
        ["18:30:00.5", "18:30:00.", "18:30", "24:00:00", "23:59:60", "7:05:00", "18:30:00.1234567"]
    ),
)
_ENDS = st.one_of(
    st.just(""),
    st.just("Z"),
    st.from_regex(r"[+-](0[0-9]|1[0-9])(:?[0-5][0-9])?", fullmatch=True),
    st.sampled_from(
        [" UTC", "+5:30", "-18:00", "+18:01", "+05:60", "Asia/Kolkata", "+05:30:10", "z", "-00:00"]
    ),
)
TEXTS = _DAYS | st.builds(
    lambda day, sign, clock, end: day + sign + clock + end, _DAYS, st.sampled_from("T "), _CLOCKS, _ENDS
)


@given(st.lists(st.none() | TEXTS, max_size=12), st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]))
def test_texts_are_read_together_as_one_by_one(texts: list[str | None], zone: str) -> None:
    found = micros(pa.array(texts, pa.string()), "string", None, zone).to_pylist()
    assert found == [None if text is None else written_moment(text, zone) for text in texts]


@pytest.mark.parametrize(
    "end", [" 18:30:00.5+05:30", "T18:30:00-0800", " 18:30:00+00", "T18:30:00Z", " 18:30", ""]
)
def test_one_way_to_write_is_read_all_at_once(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows would take fifteen seconds one by one."""
    texts = [f"2026-11-{day:02d}{end}" for day in range(1, 29)]
    alone = [written_moment(text, "Asia/Kolkata") for text in texts]
    monkeypatch.delattr("latecomer.log.moments.written_moment")
    assert micros(pa.array(texts), "string", None, "Asia/Kolkata").to_pylist() == alone


@given(
    st.lists(
        st.none() | st.floats() | st.floats(-4e9, 4e9) | st.integers(-9, 9).map(lambda n: (n + 0.5) / 1e6)
    ),
    st.sampled_from(["s", "ms", "us"]),
)
def test_fractions_are_rounded_to_the_nearest_microsecond(numbers: list[float | None], unit: str) -> None:
    size = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]

    def rounded(number: float | None) -> int | None:
        if number is None or not Decimal(number * size).is_finite():
            return None
        whole = int(Decimal(repr(number * size)).to_integral_value(ROUND_HALF_UP))
        return whole if -(1 << 63) <= whole < 1 << 63 else None

    found = micros(pa.array(numbers, pa.float64()), "double", unit, "UTC").to_pylist()
    assert found == [rounded(number) for number in numbers]
