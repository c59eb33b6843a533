"""Where values end that were written one behind another."""

from __future__ import annotations

import json
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from avro_data import number
from avro_messages import EXTRA, messages, schemas
from examples_kit import drawn
from latecomer.schemas.avro import parse_schema
from latecomer.schemas.avro.ends import Ends

TREE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "left", "type": ["null", "Node"]}, {"name": "right", "type": ["null", "Node"]}],
}


def found(ends: Ends, data: bytes) -> list[int | None]:
    """The ends of the values in some data, up to one that has none."""
    at: int | None = 0
    every = []
    while at is not None and at < len(data):
        at = ends.after(data, at)
        every.append(at)
    return every


@given(st.integers(0, 2**32))
@drawn(40)
def test_every_value_ends_where_the_next_begins(seed: int) -> None:
    reader, writers = schemas(seed, 3)
    for text in (reader, *writers):
        written = [each for each in messages(text, seed, 20, damaged=0) if each]
        assert found(Ends(parse_schema(text)), b"".join(written)) == list(accumulate(map(len, written)))


@given(st.integers(0, 2**32))
@drawn(40)
def test_damage_is_no_crash_and_goes_nowhere_beyond_the_data(seed: int) -> None:
    _, (text,) = schemas(seed, 1)
    ends = Ends(parse_schema(text))
    for data in messages(text, seed, 20, damaged=1):
        for start in range(len(data)):
            end = ends.after(data, start)
            assert end is None or start <= end <= len(data)


@pytest.mark.parametrize("kind", EXTRA, ids=str)
def test_what_is_cut_off_has_no_end(kind: object) -> None:
    text = json.dumps({"type": "record", "name": "P", "fields": [{"name": "a", "type": kind}]})
    ends = Ends(parse_schema(text))
    for data in messages(text, 7, 20, damaged=0):
        assert ends.after(data, 0) == len(data)
        assert all(ends.after(data[:size], 0) is None for size in range(len(data)))


def test_items_whose_size_is_said_are_passed_over() -> None:
    ends = Ends(parse_schema('{"type": "array", "items": "string"}'))
    block = number(-2) + number(6) + b"\4ab\4cd"
    assert ends.after(block + number(1) + b"\4ef" + number(0), 0) == len(block) + 5
    assert ends.after(number(-2) + number(-6), 0) is None


def test_values_without_bytes_and_records_that_hold_themselves() -> None:
    nothing = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}
    empty = Ends(parse_schema(json.dumps({"type": "array", "items": nothing})))
    many = number(2**62) + number(0)
    assert empty.after(many, 0) == len(many), "a list of so many takes no time"
    tree = Ends(parse_schema(json.dumps(TREE)))
    deep = number(1) * 5000 + number(0) * 5002
    assert tree.after(deep, 0) == len(deep)
    assert tree.after(number(1) * 1_000_000, 0) is None, "deeper than any value is"


def test_a_large_record_is_one_step() -> None:
    fields = [{"name": f"f{nth}", "type": "long"} for nth in range(40)]
    text = json.dumps(
        {
            "type": "record",
            "name": "Both",
            "fields": [
                {"name": "a", "type": {"type": "record", "name": "Large", "fields": fields}},
                {"name": "b", "type": {"type": "map", "values": "Large"}},
            ],
        }
    )
    random = Random(3)
    large = b"".join(number(random.choice([1, -300, 2**40])) for _ in range(40))
    twice = "".join(random.choices("abc", k=4)).encode()
    data = (
        b"".join(number(random.choice([1, -300, 2**40])) for _ in range(40))
        + number(1)
        + number(4)
        + twice
        + large
    )
    assert Ends(parse_schema(text)).after(data + number(0), 0) == len(data) + 1
