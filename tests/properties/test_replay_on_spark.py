"""Whatever came in, a replay of the log says what the store says, batch by batch and in one shot."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import Replay, replay
from latecomer.config.outputs import Output
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.panes import Accumulation
from latecomer.model.strategies import Strategy
from latecomer.model.windows import Session
from scenarios import out_of_step, watermarks
from spark_kit import PAYLOAD, Bench, many_on_spark, on_spark
from window_kit import any_outputs, quiet_batches

Batches = Sequence[list[Arrival] | Heartbeat]
OUTPUTS = st.tuples(any_outputs(), any_outputs())
QUIET = quiet_batches().filter(lambda batches: isinstance(batches[0], list))
"""With a batch of data at least: there must be something to replay."""


def differences(found: Replay) -> list[object]:
    return [
        (name, what, getattr(output, what).rows.to_pylist()[:3])
        for name, output in found.outputs.items()
        for what in ("panes", "results", "late", "ledger")
        if getattr(output, what).rows.num_rows
    ]


def run_and_replay(
    spark: SparkSession, batches: Batches, strategy: Strategy, both: tuple[Output, Output], drain: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), strategy, {"one": both[0], "other": both[1]}, PAYLOAD)
        bench.run(batches, drain=drain)
        found = replay(bench.pipeline, spark=spark)
        assert differences(found) == []
        assert found.exact
        assert found.equal


@pytest.mark.long
@given(QUIET.map(lambda batches: batches[:5]), watermarks(), OUTPUTS, st.booleans())
@settings(on_spark, max_examples=1)
def test_a_replay_repeats_what_happened(
    spark: SparkSession, batches: Batches, strategy: Strategy, both: tuple[Output, Output], drain: bool
) -> None:
    run_and_replay(spark, batches, strategy, both, drain)


@pytest.mark.long
@given(out_of_step().filter(bool).map(lambda batches: batches[:4]), watermarks(), OUTPUTS)
@settings(on_spark, max_examples=1)
def test_a_replay_repeats_partitions_read_out_of_step(
    spark: SparkSession, batches: list[list[Arrival]], strategy: Strategy, both: tuple[Output, Output]
) -> None:
    run_and_replay(spark, batches, strategy, both, drain=False)


def in_one_shot(
    spark: SparkSession, batches: Batches, strategy: Strategy, both: tuple[Output, Output]
) -> None:
    """Verdicts (ledger and side output), ON_TIME panes and finals are those of the stream.

    Which panes a session had on the way depends on where batches were cut.
    """
    named = {"one": both[0], "other": both[1]}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), strategy, named, PAYLOAD)
        bench.run(batches, drain=True)
        found = replay(bench.pipeline, one_shot=True, to=Path(folder, "shot"), spark=spark)
        for name, output in found.outputs.items():
            rules = named[name]
            for difference in (output.late, output.ledger):
                assert difference.rows.to_pylist() == []
            results = output.results.rows.to_pylist()
            silent = rules.emit_empty and strategy.idle_after is not None and strategy.on_idle == "advance"
            if silent:
                # Silence had closed windows that no event came for, and is not in the log.
                results = [row for row in results if row["change"] != "missing" or row["rows"]]
            assert results == []
            # Where an early pane may stand for the ON_TIME one, it depends on the cuts which of them there is.
            depends = rules.accumulation is Accumulation.DISCARDING or rules.closes_silently
            if not depends and not isinstance(rules.window, Session):
                shot, stream = (on_time(Reader(each), name) for each in (found.pipeline, bench.pipeline))
                if silent:
                    shot, stream = ([row for row in each if row["rows"]] for each in (shot, stream))
                assert shot == stream


def on_time(reader: Reader, output: str) -> list[dict[str, object]]:
    panes = reader.panes(output)
    kept = panes.filter((pc.field("timing") == "ON_TIME") & (pc.field("op") == "insert"))
    said = kept.drop_columns(["sequence", "batch", "fired_at", "published_at", "watermark", "is_last"])
    return said.sort_by([(name, "ascending") for name in said.column_names]).to_pylist()


@pytest.mark.long
@given(QUIET.map(lambda batches: batches[:4]), watermarks(), OUTPUTS)
@settings(on_spark, max_examples=1)
def test_one_shot_says_what_the_stream_said(
    spark: SparkSession, batches: Batches, strategy: Strategy, both: tuple[Output, Output]
) -> None:
    in_one_shot(spark, batches, strategy, both)


@pytest.mark.long
@given(QUIET, watermarks(), OUTPUTS, st.booleans())
@many_on_spark
def test_a_replay_repeats_what_happened_on_many_examples(
    spark: SparkSession, batches: Batches, strategy: Strategy, both: tuple[Output, Output], drain: bool
) -> None:
    run_and_replay(spark, batches, strategy, both, drain)


@pytest.mark.long
@given(QUIET, watermarks(), OUTPUTS)
@many_on_spark
def test_one_shot_says_what_the_stream_said_on_many_examples(
    spark: SparkSession, batches: Batches, strategy: Strategy, both: tuple[Output, Output]
) -> None:
    in_one_shot(spark, batches, strategy, both)
