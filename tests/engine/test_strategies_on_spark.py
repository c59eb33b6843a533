"""Every strategy on real Spark, batch by batch through a restart, held against the oracle."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.engine.running import run
from latecomer.errors import PipelineError
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.strategies import (
    Adaptive,
    Bounded,
    Needs,
    Percentile,
    Punctuated,
    State,
    Strategy,
    TickSummary,
)
from scenarios import HOUR, SECOND, clock, cut
from spark_kit import PAYLOAD, Bench, assert_same

NOON = clock("12:00:00")
OUTPUTS = {
    "minutes": Output(
        window={"tumbling": "1m"},
        aggregates={"paise": "sum(paise)", "rows": "count(*)"},
        allowed_lateness="2m",
        late="update",
    )
}
COLUMNS = {**PAYLOAD, "until": "bigint", "batch": "boolean"}
"""`batch` is also a column of the envelope: the log keeps it under another name."""


class Median(Strategy):
    """The median of the newest tick, and no further than the newest mark allows."""

    patience: int = 2 * SECOND

    @property
    def needs(self) -> Needs:
        return Needs(resolution=SECOND, where="batch")

    def advance(self, state: State, summary: TickSummary) -> State:
        before = state or {"marked": None, "median": None}
        times = sorted(time for time, events in summary.times.items() for _ in range(events))
        marked = before["marked"] if summary.marked is None else max(summary.marked, before["marked"] or 0)
        return {"marked": marked, "median": times[len(times) // 2]}

    def mark(self, state: State, partition: str) -> int | None:
        return None if state["marked"] is None else min(state["marked"], state["median"]) - self.patience


def five_minutes(towers: str = "ab", seed: int = 4) -> list[Arrival]:
    """From these towers, most payments prompt, some behind, some marked, and one from six hours ahead."""
    rng = random.Random(seed)
    read = []
    for number in range(360):
        arrived = NOON + number * SECOND * 5 // 6
        behind = rng.choice((0, 0, 0, 1, 2, 5, 45, 130)) * SECOND + rng.randrange(SECOND)
        if number == 100:
            behind = -6 * HOUR
        marked = number % 30 == 29
        payload = {
            "key": "k",
            "paise": number,
            "ok": marked or None,
            "until": arrived - 20 * SECOND if marked else None,
            "batch": marked,
        }
        read.append(Arrival(arrived - behind, arrived, rng.choice(towers), payload, number))
    return read


STRATEGIES = {
    "bounded with delays": Bounded("5s", delays={"b": "50s"}, max_future="7h"),
    "percentile": Percentile(0.9, of=40, delay="5s", max_future="7h", idle_after="1m"),
    "percentile by the event": Percentile(0.9, of=40, delays={"a": "9s"}, every="event", max_future="7h"),
    "adaptive": Adaptive(0.95, of=60, at_most="1m", resolution="500ms", max_future="7h"),
    "punctuated by a predicate": Punctuated(where="batch and paise > 40", delay="3s", max_future="7h"),
    "punctuated by a flag": Punctuated(marker="batch", max_future="7h"),
    "punctuated by times": Punctuated(marker="until", delay="1s", max_future="7h"),
    "one's own": Median(max_future="7h", every="10s"),
}


SOON = ("percentile by the event", "one's own")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in SOON)) for name in STRATEGIES]
)
def test_spark_says_what_the_oracle_says(spark: SparkSession, tmp_path: Path, name: str) -> None:
    batches = cut(five_minutes(), [70, 130])
    bench = Bench(spark, tmp_path, STRATEGIES[name], OUTPUTS, COLUMNS)
    store = bench.run(batches, drain=True, restart=True)
    some = name == "punctuated by a predicate"
    outcome = bench.oracle(
        batches, drain=True, marks=lambda row: row["batch"] and (not some or row["paise"] > 40)
    )
    assert_same(bench, store, outcome, batches)
    assert len({event.watermark for event in outcome.judged["minutes"]}) > 5


@pytest.mark.parametrize(
    ("strategy", "hour", "dead"),
    [
        pytest.param(Bounded("5s", max_future="off"), 18, 0, marks=pytest.mark.long),
        pytest.param(Bounded("5s"), 12, 1, marks=pytest.mark.long),  # both are transcripts
        (Percentile(0.9, of=40, delay="5s", max_future="off"), 12, 0),
    ],
    ids=["bounded is poisoned", "bounded with max_future", "percentile"],
)
def test_one_event_six_hours_in_the_future(
    spark: SparkSession, tmp_path: Path, strategy: Strategy, hour: int, dead: int
) -> None:
    store = Bench(spark, tmp_path, strategy, OUTPUTS, COLUMNS).run([five_minutes("a")])
    (furthest,) = store.watermarks.query("select max(watermark) as mark from t").to_pylist()
    assert furthest["mark"].hour == hour
    (line,) = store.ledger.query("select dead_letter from t where unit = 'events'").to_pylist()
    assert line["dead_letter"] == dead


def test_a_changed_strategy_starts_anew_without_going_back(spark: SparkSession, tmp_path: Path) -> None:
    read = [event for event in five_minutes() if event.event_time <= event.arrival_time]
    first, second = read[:200], read[200:]
    bench = Bench(spark, tmp_path, Bounded("5s"), OUTPUTS, COLUMNS)
    before = bench.run([first]).watermarks.query("select max(watermark) as w from t").to_pylist()[0]["w"]
    bench.strategy = Percentile(0.9, of=40, delay="30s")
    engine = bench.engine()
    engine.data(1, bench.write(1, second))
    engine.sinks.close()
    marks = engine.store.watermarks.query("select batch, watermark from t order by batch, tick").to_pylist()
    later = [row["watermark"] for row in marks if row["batch"] == 1]
    assert later == sorted(later)
    assert later[0] >= before
    assert later[-1] > before


def test_a_marker_may_be_text(spark: SparkSession, tmp_path: Path) -> None:
    """Times in JSON are text; a marker is read as the event time is."""
    lines = [
        '{"at": "2026-04-25T12:00:01Z", "until": null, "n": 1}',
        '{"at": "2026-04-25T12:00:05Z", "until": "2026-04-25 12:00:03", "n": 2}',
        '{"at": "2026-04-25T12:00:06Z", "until": "soon", "n": 3}',
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join(lines), encoding="utf-8")
    pipeline = Pipeline(
        name="texts",
        store=str(tmp_path / "store"),
        source=Source(files=Files(path=str(tmp_path / "in"), order_by="at")),
        event=Event(time="at", zone="Europe/Berlin"),
        watermark=Punctuated(marker="until", every="event"),
        outputs={"out": Output(window={"tumbling": "1m"}, aggregates={"n": "count(*)"})},
    )
    run(pipeline, once=True, spark=spark)
    (settled,) = set(Reader(pipeline).watermarks()["settled"].to_pylist()[1:])
    assert settled.isoformat() == "2026-04-25T10:00:03+00:00"


@pytest.mark.parametrize(
    ("where", "outcome", "fix"),
    [
        ("kind = 1", "the source has no column kind", "there are at, n"),
        ("n + 1", "it yields bigint", "write an SQL condition over at, n"),
    ],
)
def test_a_predicate_that_spark_cannot_use_is_refused(
    spark: SparkSession, tmp_path: Path, where: str, outcome: str, fix: str
) -> None:
    (tmp_path / "in").mkdir()
    pipeline = Pipeline(
        name="wrong",
        store=str(tmp_path / "store"),
        source=Source(files=Files(path=str(tmp_path / "in")), columns={"at": "timestamp", "n": "bigint"}),
        event=Event(time="at"),
        watermark=Punctuated(where=where),
        outputs={"out": Output(window={"tumbling": "1m"}, aggregates={"n": "count(*)"})},
    )
    with pytest.raises(PipelineError) as refused:
        run(pipeline, once=True, spark=spark)
    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("watermark.where", where)
    assert outcome in problem.message
    assert fix in str(problem.fix)
