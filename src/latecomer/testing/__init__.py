"""A kit to test a pipeline of your own: docs/testing.md shows each name with an example.

from latecomer.testing import Scenario, assert_panes, play

outcome = play(pipeline, Scenario().event("14:00:10", paise=100).drain())
assert_panes(outcome, "14:00..14:01 ON_TIME paise=100")

Everything runs on the oracle in milliseconds, and with `on="engine"` or `on="spark"` on the real engine. Neither
touches the pipeline's source, store or sinks. The Hypothesis strategies are in
`latecomer.testing.strategies`. `check_sink` checks that a sink of your own keeps the promises of every sink.
"""

from __future__ import annotations

from latecomer.model.oracle.arrivals import Drain, Heartbeat, Partitions, Watermark
from latecomer.model.simple_predicates import NeedsSpark
from latecomer.testing.differences import Difference
from latecomer.testing.outcome import Outcome
from latecomer.testing.playing import (
    assert_balances,
    assert_fates,
    assert_late,
    assert_ledger,
    assert_panes,
    assert_results,
    assert_same_for_all_cuts,
    assert_transcript,
    assert_watermark,
    play,
    run_transcript,
)
from latecomer.testing.rows import Row
from latecomer.testing.scenario import Batch, Restart, Scenario
from latecomer.testing.sinks import check_sink
from latecomer.testing.times import ManualClock, Times
from latecomer.testing.transcripts import Transcript, load_transcript

__all__ = [
    "Batch",
    "Difference",
    "Drain",
    "Heartbeat",
    "ManualClock",
    "NeedsSpark",
    "Outcome",
    "Partitions",
    "Restart",
    "Row",
    "Scenario",
    "Times",
    "Transcript",
    "Watermark",
    "assert_balances",
    "assert_fates",
    "assert_late",
    "assert_ledger",
    "assert_panes",
    "assert_results",
    "assert_same_for_all_cuts",
    "assert_transcript",
    "assert_watermark",
    "check_sink",
    "load_transcript",
    "play",
    "run_transcript",
]
