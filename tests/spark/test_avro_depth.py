"""How deep Avro data is, in Java: as the model says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyspark
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from latecomer.spark.avro_depth import depth_check
from pyspark.sql import SparkSession

from avro_data import DataMaker, SizedBlocks, leading_to_each_other, number
from avro_kit import schemas
from latecomer.model.avro import Bounded, bounded, canonical_form, schema_of
from latecomer.model.avro.namespaces import in_namespaces
from spark_kit import quick_start


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


CLUSTER = """
import pyarrow as pa
from latecomer.spark.avro_depth import is_shallow
from latecomer.spark.session import build_session, own_session

spark = own_session(build_session("cluster"))
assert spark.sparkContext.master.startswith("local-cluster")
rows = spark.createDataFrame(pa.table({"data": pa.array([b"\\x02" * n + b"\\0" for n in (1, 2, 3)])})).repartition(1)
schema = '{"type": "record", "name": "R", "fields": [{"name": "more", "type": ["null", "R"]}]}'
found = rows.select(rows["data"], is_shallow(spark, rows["data"], schema, 3).alias("fine")).toArrow().to_pylist()
assert sorted((len(row["data"]), row["fine"]) for row in found) == [(2, True), (3, True), (4, False)], found
"""


@pytest.mark.long
def test_executors_of_their_own_get_the_class(tmp_path: Path) -> None:
    """In other processes than the driver's, without any Python."""
    for each in Path(pyspark.__file__).parent.iterdir():  # they write into the folder of Spark
        (tmp_path / each.name).symlink_to(each)
    cluster = {"LATECOMER_MASTER": "local-cluster[1,1,1024]", "SPARK_HOME": str(tmp_path)}
    environment = {**os.environ, **quick_start(), **cluster}
    ended = subprocess.run(
        [sys.executable, "-c", CLUSTER], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
