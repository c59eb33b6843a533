"""The same transcripts through the engine: what they state, and everything the oracle says besides.

As written they are in `make test`, but for those about the timeline alone and those whose rule another test
shows on Spark. Those, every row its own batch, all rows in one, and a replay of each log are in `make test-long`.
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

ABOUT_THE_TIMELINE = ("Watermark", "Silence", "Several sources", "Strategies")
"""Sections of docs/semantics.md whose rules the pure timeline decides. What Spark adds, the summary of a
tick, tests/engine/test_strategies_on_spark.py compares with the oracle for each strategy."""

ABOUT_THE_ENGINE_TOO = {
    "a_drain_closes_every_window",
    "a_partition_with_more_to_read_is_never_idle",
    "a_heartbeat_that_fires_nothing_leaves_no_trace",
    "a_restart_changes_nothing",
    "a_second_drain_does_nothing",
    "a_strategy_may_be_ones_own",
    "a_tick_that_a_batch_cut_keeps_its_watermark",
    "a_watermark_may_be_put_by_hand",
    "an_empty_batch_is_a_batch",
    "late_is_late_by_the_watermark_of_all_sources",
    "what_is_read_out_of_step_meets_the_watermark_in_force",
    "when_all_is_silent_the_watermark_follows_the_clock",
}

SHOWN_ELSEWHERE = {
    "engine/test_windows_on_spark.py": (
        "a_day_in_kolkata_starts_at_18_30_utc",
        "a_day_may_last_23_hours",
        "a_day_may_last_25_hours",
        "a_window_that_holds_a_repeated_hour_is_longer",
        "hours_divide_the_day_of_a_zone",
        "months_have_lengths_of_their_own",
        "quarters_and_years_follow_the_calendar",
        "shorter_windows_of_a_zone_follow_its_wall_clock",
        "tumbling_windows_start_at_an_offset",
        "weeks_start_on_monday",
    ),
    "engine/test_aggregates_on_spark.py": (
        "aggregates_leave_nulls_out",
        "decimals_are_exact",
        "exact_counts_go_by_every_value",
        "first_and_last_go_by_event_time",
    ),
    "engine/test_seeds_on_spark.py": (
        "every_output_has_its_own_policy",
        "five_minutes_with_an_hour_of_lateness",
        "late_at_the_source_is_not_late_at_the_window",
        "late_drop_counts_what_it_drops",
        "late_retract_takes_back_the_pane_it_replaces",
        "late_side_output_keeps_the_event",
        "late_update_publishes_the_whole_number_again",
    ),
    "engine/test_sessions_on_spark.py": (
        "a_rejected_event_leaves_no_session_behind",
        "a_session_that_grows_takes_back_what_was_told",
        "sessions_are_cut_at_multiples_of_max",
        "sessions_of_different_keys_never_meet",
        "three_sessions_become_one",
        "late_events_of_a_session_may_wait_too",
        "a_discarding_session_that_swallowed_others_tells_everything_once",
        "an_event_that_touches_a_final_session_is_too_late",
    ),
    "properties/test_options_on_spark.py": (
        "a_session_may_be_final_a_gap_later",
        "a_session_has_a_closing_pane_too",
        "an_event_at_the_end_of_a_closed_session_may_join_it",
        "sessions_a_gap_apart_may_join",
        "a_closing_pane_says_that_the_number_is_final",
        "a_discarding_window_says_that_it_closed",
        "no_on_time_pane_where_nothing_is_new",
        "early_panes_by_the_watermark_count_from_the_windows_start",
        "a_count_means_the_same_early_and_late",
        "a_drain_tells_the_late_events_that_wait",
        "a_heartbeat_fires_an_early_pane",
        "a_heartbeat_publishes_the_closing_pane",
        "a_key_told_early_alone_is_known_to_emit_empty",
        "a_late_count_is_reached_with_the_last_of_so_many",
        "a_late_event_fills_an_empty_window",
        "a_window_of_late_events_alone_has_no_on_time_pane",
        "a_window_without_news_is_not_told_early",
        "accumulating_panes_hold_everything",
        "an_event_is_in_every_sliding_window_that_holds_it",
        "discarding_panes_hold_what_is_new",
        "early_panes_follow_the_arrival_clock",
        "early_panes_may_follow_the_count",
        "early_panes_may_follow_the_watermark",
        "emit_empty_learns_no_keys_from_late_events",
        "emit_empty_tells_windows_without_events",
        "late_events_may_wait_for_the_clock",
        "late_events_may_wait_for_their_number",
        "null_is_a_key_like_any_other",
        "retracting_takes_back_early_panes_too",
        "several_late_events_of_a_batch_are_one_pane_even_with_a_count_of_one",
        "sliding_windows_need_not_divide",
        "the_on_time_pane_holds_the_on_time_events_alone",
        "too_late_is_dropped_where_the_output_says_so",
        "with_sliding_windows_an_event_may_be_partly_late",
        "without_allowed_lateness_a_closed_window_takes_nothing",
    ),
}
"""Test → the transcripts whose rule it holds against the oracle or the model, batch by batch."""


def about_the_timeline_alone() -> set[str]:
    sections = re.split(r"^## (.+)$", SEMANTICS.read_text("utf-8"), flags=re.MULTILINE)[1:]
    texts = dict(zip(sections[::2], sections[1::2], strict=True))
    named = (re.findall(r"transcripts/(\w+)\.yaml", texts[title]) for title in ABOUT_THE_TIMELINE)
    return {name for names in named for name in names} - ABOUT_THE_ENGINE_TOO


TIMELINE_ALONE = about_the_timeline_alone()
LONG = TIMELINE_ALONE.union(*SHOWN_ELSEWHERE.values())
AS_WRITTEN = [
    pytest.param(file, marks=[pytest.mark.long] * (file.stem in LONG), id=file.stem) for file in TRANSCRIPTS
]
every_transcript = pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)


def holds(file: Path, spark: SparkSession, cut: str, replayed: bool = False) -> None:
    found = run_transcript(load_transcript(file), on="spark", spark=spark, cuts=[cut], replayed=replayed)
    assert not found, "\n\n".join(map(str, found))


def test_what_is_left_to_longer_tests_is_there() -> None:
    assert {file.stem for file in TRANSCRIPTS} >= LONG
    assert all((HERE.parent / test).is_file() for test in SHOWN_ELSEWHERE)


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
