"""The same transcripts through the engine: what they state, and everything the oracle says besides.

`make test` has one or two of each kind of rule in Spark's tasks, and those that are about the engine itself. All
others are in `make test-long`, in tasks too, with each once more under another cut (every row its own batch, or all
rows in one) and a replay of the log of every third, in this process. What a transcript says of the pure model is in
`make test` for all of them, and tests/engine and tests/properties hold each window, trigger, policy and strategy
against the oracle.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.testing import load_transcript, run_transcript
from latecomer.testing.playing import On

HERE = Path(__file__).parent
TRANSCRIPTS = sorted([*HERE.glob("*.yaml"), *HERE.glob("spark/*.yaml")])

SOON = {
    "a_derived_column_is_computed_from_the_event",
    "a_drain_closes_every_window",
    "a_heartbeat_that_fires_nothing_leaves_no_trace",
    "a_partition_with_more_to_read_is_never_idle",
    "a_restart_changes_nothing",
    "a_retract_after_a_restart_names_the_pane_before_it",
    "a_session_that_takes_no_late_events_is_final_once_closed",
    "a_tick_that_a_batch_cut_keeps_its_watermark",
    "an_event_outside_the_calendar_is_a_dead_letter",
    "an_event_that_cannot_be_computed_fails_for_its_output",
    "deduplicate_with_aggregate_append",
    "late_is_late_by_the_watermark_of_all_sources",
    "the_global_window_counts_intervals_from_the_first_watermark",
    "three_sessions_become_one",
}
AS_WRITTEN = [
    pytest.param(file, marks=[pytest.mark.long] * (file.stem not in SOON), id=file.stem)
    for file in TRANSCRIPTS
]
CUTS = [
    pytest.param(file, cut, id=f"{file.stem}-{cut}")
    for file, cut in zip(TRANSCRIPTS, itertools.cycle(("one by one", "all in one")), strict=False)
]


def holds(file: Path, on: On, spark: SparkSession, cut: str, replayed: bool = False) -> None:
    found = run_transcript(load_transcript(file), on=on, spark=spark, cuts=[cut], replayed=replayed)
    assert not found, "\n\n".join(map(str, found))


def test_those_that_come_soon_are_there() -> None:
    assert {file.stem for file in TRANSCRIPTS} >= SOON


@pytest.mark.parametrize("file", AS_WRITTEN)
def test_spark_says_so(file: Path, spark: SparkSession) -> None:
    holds(file, "spark", spark, "as written")


@pytest.mark.long
@pytest.mark.parametrize(("file", "cut"), CUTS)
def test_spark_says_so_under_another_cut(file: Path, cut: str, spark: SparkSession) -> None:
    holds(file, "engine", spark, cut)


@pytest.mark.long
@pytest.mark.parametrize("file", TRANSCRIPTS[::3], ids=lambda file: file.stem)
def test_a_replay_in_one_shot_says_the_same(file: Path, spark: SparkSession) -> None:
    holds(file, "engine", spark, "as written", replayed=True)
