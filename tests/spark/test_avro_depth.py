"""How deep Avro data is, in Java: as the model says."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from avro_data import DataMaker, SizedBlocks, leading_to_each_other, number
from avro_kit import schemas
from latecomer.model.avro import Bounded, bounded, canonical_form, schema_of
from latecomer.model.avro.namespaces import in_namespaces
from latecomer.spark.avro_depth import depth_check


def loop(**fields: Any) -> dict[str, Any]:
    more = {**fields, "again": ["null", "Loop"], "more": {"type": "map", "values": "Loop"}}
    return {
        "type": "record",
        "name": "Loop",
        "fields": [{"name": name, "type": kind} for name, kind in more.items()],
    }


def damaged(data: bytes, random: Random) -> bytes:
    """With some bytes that are others, or fewer of them."""
    found = bytearray(data)
    for _ in range(random.randrange(3)):
        found[random.randrange(len(found))] = random.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
    return bytes(found[: random.choice((len(found), random.randrange(len(found))))])


@given(schemas(), st.integers(0, 1000), st.sampled_from([DataMaker, SizedBlocks]), st.integers(1, 6))
def test_java_says_what_the_model_says(
    spark: SparkSession, written: Any, seed: int, kind: type[DataMaker], most: int
) -> None:
    schema = in_namespaces(schema_of(loop(body=written)))
    maker, random = kind(schema, seed, deepest=6), Random(seed)
    assume(maker.is_possible())
    check = depth_check(spark.sparkContext, canonical_form(schema), most)
    for _ in range(3):
        data = maker.datum()
        for each in (data, damaged(data, random), damaged(data, random)):
            found = Bounded(schema, most, is_checked=True).walked(each)
            assert found == "longer" or check.call(each) == (found == "whole"), each


def test_no_data_takes_long(spark: SparkSession) -> None:
    """As much as its bytes, whatever it claims to have."""
    nothing = {"type": "array", "items": {"type": "array", "items": "null"}}
    check = depth_check(spark.sparkContext, canonical_form(schema_of(loop(nothing=nothing))), 100)
    assert check.call(number(1) + number(1000) + bytes(2) + bytes(2))
    assert not check.call(number(1) + number(2**62) + bytes(2) + bytes(2))


def test_a_large_schema_is_gone_through_as_deep_as_the_data_is(spark: SparkSession) -> None:
    schema = schema_of(leading_to_each_other(60))
    check = depth_check(spark.sparkContext, canonical_form(schema), bounded(schema).deepest or 0)
    for times, expected in ((0, True), (99, True), (100, False), (5_000, False)):
        assert check.call(b"\x02" * times + bytes(60 + 59 * times)) == expected
