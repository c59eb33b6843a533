"""One call for both: a scenario or a transcript through the oracle, or through Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from latecomer.config.models import Pipeline
from latecomer.testing.checking import check, compare, compare_cuts
from latecomer.testing.differences import Difference
from latecomer.testing.oracle import on_oracle
from latecomer.testing.outcome import Outcome
from latecomer.testing.predicates import NeedsSpark
from latecomer.testing.rows import Shape, inferred
from latecomer.testing.scenario import CUTS, Scenario, Step, rows_of
from latecomer.testing.times import Times
from latecomer.testing.transcripts import Transcript

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

On = Literal["oracle", "spark"]


def play(
    pipeline: Pipeline,
    scenario: Scenario | Sequence[Step],
    *,
    on: On = "oracle",
    spark: SparkSession | None = None,
    columns: Mapping[str, str] | None = None,
) -> Outcome:
    """What the pipeline makes of a scenario: by the oracle in milliseconds, on Spark in seconds.

    Its source, store and sinks are not touched. `spark` is your session; without one a local session is
    started. Columns are those of `source.schema`, of `columns`, or what the rows tell.
    """
    steps = scenario.steps if isinstance(scenario, Scenario) else list(scenario)
    clock = scenario.times if isinstance(scenario, Scenario) else Times()
    order_by = pipeline.source.files.order_by
    times = {pipeline.event.time: "string", **({order_by: "string"} if order_by else {})}
    known = pipeline.source.columns or {**times, **inferred(rows_of(steps)), **(columns or {})}
    shape = Shape(pipeline, known, clock)
    for row in rows_of(steps):
        if told := shape.problem(row):
            raise ValueError(told)
    return _played(shape, steps, on, spark)


def run_transcript(
    transcript: Transcript,
    *,
    on: On = "oracle",
    spark: SparkSession | None = None,
    cuts: Sequence[str] = (),
    replayed: bool = False,
) -> list[Difference]:
    """Where the transcript does not hold: as written, and under every cut named.

    On Spark each cut is also compared with the oracle under the same cut, in everything; with
    `replayed`, the log is then replayed in one shot and must say the same as the tables.
    """
    steps, found = transcript.steps, []
    written: Outcome | None = None
    for cut in cuts or (CUTS if on == "oracle" else ("as written",)):
        recut = CUTS[cut](steps)
        oracle = _oracle(transcript, recut, on)
        outcome = (
            oracle
            if oracle is not None and on == "oracle"
            else _played(transcript.shape, recut, on, spark, replayed)
        )
        found += check(transcript, outcome, cut)
        place = str(transcript.file)
        if oracle is not None and outcome is not oracle:
            found += compare(oracle, outcome, ("oracle", f"{on}, {cut}"), place)
        if cut != "as written":
            written = written or _oracle(transcript, steps, on) or _played(transcript.shape, steps, on, spark)
            found += compare_cuts(written, outcome, steps, ("as written", f"{on}, {cut}"), place)
        if outcome.replay:
            found.append(
                Difference(place, f"replayed in one shot, {cut}", outcome.replay, ("stored", "replayed"))
            )
    return found


def _oracle(transcript: Transcript, steps: Sequence[Step], on: On) -> Outcome | None:
    """What the oracle says; None where Spark is at hand and only Spark can evaluate a predicate."""
    try:
        return on_oracle(transcript.shape, steps)
    except NeedsSpark:
        if on == "spark":
            return None
        raise


def _played(
    shape: Shape, steps: Sequence[Step], on: On, spark: SparkSession | None, replayed: bool = False
) -> Outcome:
    if on == "oracle":
        return on_oracle(shape, steps)
    from latecomer.testing.engine import on_spark

    return on_spark(shape, steps, spark, replayed)
