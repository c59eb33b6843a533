"""Equal keys are in one bucket, whatever their bits; files are known by their buckets."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.windowing.buckets import bucket_name, bucket_of, may_hold

KEYS = st.lists(
    st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.one_of(st.none(), st.integers(-3, 3))),
    max_size=30,
)
POWERS = st.integers(0, 5).map(lambda power: 1 << power)


def of(keys: list[tuple[str | None, int | None]], count: int) -> list[int]:
    rows = pa.table(
        {
            "name": pa.array([name for name, _ in keys], pa.string()),
            "nth": pa.array([nth for _, nth in keys], pa.int64()),
        }
    )
    return bucket_of(rows, ["name", "nth"], count).tolist()


@given(KEYS, POWERS)
def test_equal_keys_are_in_one_bucket(keys: list[tuple[str | None, int | None]], count: int) -> None:
    found = of(keys, count)
    assert all(0 <= each < count for each in found)
    assert of(keys[::-1], count) == found[::-1]
    assert of(keys + keys, count) == found + found


@given(KEYS, POWERS, POWERS)
def test_a_file_is_read_by_the_buckets_that_its_keys_are_in(
    keys: list[tuple[str | None, int | None]], then: int, now: int
) -> None:
    for written, wanted in zip(of(keys, then), of(keys, now), strict=True):
        name = bucket_name(written, then, "token")
        assert may_hold(name, wanted, now)[0]
        held = [nth for nth in range(now) if may_hold(name, nth, now)[0]]
        assert held == [wanted] or may_hold(name, wanted, now)[1]


def test_numbers_that_are_equal_are_in_one_bucket_whatever_their_bits() -> None:
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    found = bucket_of(pa.table({"x": [0.0, -0.0, float("nan"), odd]}), ["x"], 64)
    assert found[0] == found[1]
    assert found[2] == found[3]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.binary(),
        pa.int32(),
        pa.decimal128(12, 2),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.bool_(),
    ],
)
def test_keys_of_every_type_have_a_bucket(kind: pa.DataType) -> None:
    values = pa.array([None, 0, 1, 1]).cast(pa.int32())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        column = values.cast(pa.string()).cast(kind)
    elif pa.types.is_timestamp(kind):
        column = values.cast(pa.int64()).cast(kind)
    else:
        column = values.cast(kind)
    found = bucket_of(pa.table({"k": column}), ["k"], 16)
    assert found.dtype == np.int64
    assert found[2] == found[3]


def test_buckets_stay_where_they_are() -> None:
    """Files of a store are named for them."""
    found = bucket_of(pa.table({"k": ["a", "b", "c", None], "n": [1, 2, 3, 4]}), ["k", "n"], 256)
    assert found.tolist() == [158, 117, 208, 222]
