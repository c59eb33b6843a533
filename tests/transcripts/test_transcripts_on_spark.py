"""The same transcripts through the engine: what they state, and everything the oracle says besides.

As written they are in `make test`, but for those about the timeline alone. Those, every row its own batch,
all rows in one, and a replay of each log are in `make test-long`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.testing import load_transcript, run_transcript

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.yaml"))
SEMANTICS = HERE.parent.parent / "docs" / "semantics.md"

ABOUT_THE_TIMELINE = ("Watermark", "Silence", "Strategies")
"""Sections of docs/semantics.md whose rules the pure timeline decides. What Spark adds, the summary of a
tick, tests/engine/test_strategies_on_spark.py compares with the oracle for each strategy."""

ABOUT_THE_ENGINE_TOO = {
    "a_drain_closes_every_window",
    "a_heartbeat_that_fires_nothing_leaves_no_trace",
    "a_restart_changes_nothing",
    "a_second_drain_does_nothing",
    "a_strategy_may_be_ones_own",
    "a_tick_that_a_batch_cut_keeps_its_watermark",
    "a_watermark_may_be_put_by_hand",
    "an_empty_batch_is_a_batch",
    "what_is_read_out_of_step_meets_the_watermark_in_force",
    "when_all_is_silent_the_watermark_follows_the_clock",
}


def about_the_timeline_alone() -> set[str]:
    sections = re.split(r"^## (.+)$", SEMANTICS.read_text("utf-8"), flags=re.MULTILINE)[1:]
    texts = dict(zip(sections[::2], sections[1::2], strict=True))
    named = (re.findall(r"transcripts/(\w+)\.yaml", texts[title]) for title in ABOUT_THE_TIMELINE)
    return {name for names in named for name in names} - ABOUT_THE_ENGINE_TOO


TIMELINE_ALONE = about_the_timeline_alone()
AS_WRITTEN = [
    pytest.param(file, marks=[pytest.mark.long] if file.stem in TIMELINE_ALONE else [], id=file.stem)
    for file in TRANSCRIPTS
]
every_transcript = pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)


def holds(file: Path, spark: SparkSession, cut: str, replayed: bool = False) -> None:
    found = run_transcript(load_transcript(file), on="spark", spark=spark, cuts=[cut], replayed=replayed)
    assert not found, "\n\n".join(map(str, found))


@pytest.mark.parametrize("file", AS_WRITTEN)
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
