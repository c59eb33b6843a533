"""The same transcripts through the engine: what they state, and everything the oracle says besides.

As written they are in `make test`. Every row its own batch, all rows in one, and a replay of each log
are in `make test-long`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.testing import load_transcript, run_transcript

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.yaml"))
every_transcript = pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)


def holds(file: Path, spark: SparkSession, cut: str, replayed: bool = False) -> None:
    found = run_transcript(load_transcript(file), on="spark", spark=spark, cuts=[cut], replayed=replayed)
    assert not found, "\n\n".join(map(str, found))


@every_transcript
def test_spark_says_so(file: Path, spark: SparkSession) -> None:
    holds(file, spark, "as written")


@pytest.mark.long
@pytest.mark.parametrize("cut", ["one by one", "all in one"])
@every_transcript
def test_spark_says_so_under_another_cut(file: Path, spark: SparkSession, cut: str) -> None:
    holds(file, spark, cut)


@pytest.mark.long
@every_transcript
def test_a_replay_in_one_shot_says_the_same(file: Path, spark: SparkSession) -> None:
    holds(file, spark, "as written", replayed=True)
