"""Random readings of three sources, in random files: read at once, in small slices or in instalments, they are judged
as they were when they came.

Each example is several runs on real Spark, so there are few of them here; the same property runs over many examples
without Spark in tests/model/test_merging.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.engine.running import run
from sources_kit import Folders, Reading
from spark_kit import many_on_spark, on_spark

SOURCES = ("near", "far", "rare")


@st.composite
def readings(draw: st.DrawFn) -> list[Reading]:
    """In the order of arrival, some of them late; one source is often silent."""
    now, read = 0.0, list[Reading]()
    for source in draw(
        st.lists(st.sampled_from(("near", "near", "far", "far", "rare")), min_size=5, max_size=60)
    ):
        now += draw(st.sampled_from((0.5, 1, 7, 20, 90)))
        behind = draw(st.sampled_from((0, 0, 1, 1, 30, 75, 300)))
        read.append(Reading(source, now - behind, now))
    return read


@st.composite
def watermarks(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    every = draw(st.sampled_from(("1s", "10s", "event")))
    return {
        source: {
            "delay": draw(st.sampled_from(("0s", "10s", "1m"))),
            "idle_after": draw(st.sampled_from((None, "30s", "3m"))),
            "every": every,
        }
        for source in SOURCES
    }


Example = tuple[list[Reading], dict[str, dict[str, Any]], int, int, int]
EXAMPLES: st.SearchStrategy[Example] = st.tuples(
    readings(), watermarks(), st.integers(1, 20), st.integers(1, 3), st.integers(1, 3)
)
"""Readings, watermarks, how many readings a file has, how many files a slice, and in how many runs they are read."""


def run_and_compare(spark: SparkSession, example: Example) -> None:
    read, delays, each, slices, instalments = example
    with tempfile.TemporaryDirectory() as folder:
        folders, size = Folders(Path(folder), delays, slices), -(-len(read) // instalments)
        for begin in range(0, len(read), size):
            folders.deliver(read[begin : begin + size], each)
            run(folders.pipeline, once=True, spark=spark)
        assert (folders.too_late(), folders.standing()) == folders.as_they_came()


@given(EXAMPLES)
@settings(on_spark, max_examples=3)
def test_history_is_judged_as_it_was_when_it_came(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, example)


@pytest.mark.long
@given(EXAMPLES)
@settings(many_on_spark, max_examples=20)
def test_many_histories_are_judged_as_they_were_when_they_came(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, example)
