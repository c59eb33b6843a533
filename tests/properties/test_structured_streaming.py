"""The same random stream through Structured Streaming and through the engine with `profile: spark`, batch by batch.

In append mode both publish the same windows. Sessions differ as docs/comparison.md says. An event that touches a
session which Spark has published begins another there, and joins it here. One whose own gap is over joins a session
that is still open here, and is dropped there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer import Pipeline
from latecomer.model.verdicts import Fate
from latecomer.testing import Scenario, play
from latecomer.testing.outcome import Outcome

GAP, SECOND = 7, 1_000_000
WINDOWS = {
    "tumbling": ({"tumbling": "5s"}, lambda: F.window("at", "5 seconds")),
    "sliding": ({"sliding": "10s", "every": "5s"}, lambda: F.window("at", "10 seconds", "5 seconds")),
    "sessions": ({"session": f"{GAP}s"}, lambda: F.session_window("at", f"{GAP} seconds")),
}
PIPELINE = {
    "name": "counts",
    "profile": "spark",
    "store": "store",
    "source": {
        "files": {"path": "in", "order_by": "arrival_time"},
        "schema": {"event_time": "string", "arrival_time": "string", "key": "string"},
    },
    "event": {"time": "event_time"},
    "watermark": {"delay": "10s"},
    "outputs": {
        name: {"window": window, "by": ["key"], "aggregates": {"events": "count(*)"}}
        for name, (window, _) in WINDOWS.items()
    },
}
Batch = list[tuple[int, str]]
"""The second and the key of each event."""
Counted = tuple[str, int, int, int]
"""Key, start and end of a window in seconds, and the number of its events."""


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_structured_streaming_counts_the_same(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    batches = drawn(Random(seed))
    of_spark = published_by_spark(spark, batches, tmp_path)
    pipeline, scenario = Pipeline.model_validate(PIPELINE), as_scenario(batches)
    outcome = play(pipeline, scenario, on="engine", spark=spark)

    for name in ("tumbling", "sliding"):
        assert of_spark[name] == standing(outcome, name)
        assert outcome.late(name), "some of the events are too late"
    ours, joined = standing(outcome, "sessions"), merged(of_spark["sessions"])
    saved = keys_saved(play(pipeline, scenario), batches)
    assert [each for each in ours if each[0] not in saved] == [
        each for each in joined if each[0] not in saved
    ]
    assert sum(each[3] for each in ours) >= sum(each[3] for each in joined)
    assert saved, "some events join a session that is open though their own gap is over"
    assert joined != of_spark["sessions"], "some touch a session that has been published"


def drawn(random: Random) -> list[Batch]:
    """Batches in which time goes on, by nothing or by a lot, and events come late by ten seconds on average."""
    batches, now = [], 30
    for _ in range(12):
        now += random.choice([0, 3, 8, 15])
        late = (int(random.expovariate(0.1)) for _ in range(random.randrange(1, 50)))
        batches.append([(max(0, now - each), f"k{random.randrange(20)}") for each in late])
    return batches


def published_by_spark(spark: SparkSession, batches: list[Batch], folder: Path) -> dict[str, list[Counted]]:
    (folder / "in").mkdir()
    stream = spark.readStream.schema("at timestamp, key string").json(f"{folder}/in")
    queries = [
        stream.withWatermark("at", "10 seconds")
        .groupBy(window().alias("window"), "key")
        .agg(F.count("*").alias("events"))
        .writeStream.option("checkpointLocation", f"{folder}/checkpoints/{name}")
        .start(f"{folder}/{name}")
        for name, (_, window) in WINDOWS.items()
    ]
    for number, batch in enumerate(batches):
        rows = [{"at": f"1970-01-01T{clock(second)}Z", "key": key} for second, key in batch]
        (folder / "new").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        (folder / "new").rename(folder / "in" / f"{number:02}.json")
        for query in queries:
            query.processAllAvailable()
    for query in queries:
        query.stop()
    return {name: sorted(_read(spark, folder / name)) for name in WINDOWS}


def _read(spark: SparkSession, table: Path) -> Iterator[Counted]:
    columns = ("key", "cast(window.start as long) first", "cast(window.end as long) last", "events")
    for row in spark.read.parquet(str(table)).selectExpr(*columns).collect():
        yield row.key, row.first, row.last, row.events


def as_scenario(batches: list[Batch]) -> Scenario:
    """All of a batch arrives at once, and a heartbeat comes after it as Spark's batch without data does."""
    scenario = Scenario("1970-01-01")
    for number, batch in enumerate(batches):
        scenario.add(*(f"{clock(second)} @{clock(3600 + 2 * number)} key={key}" for second, key in batch))
        scenario.heartbeat(clock(3601 + 2 * number))
    return scenario


def clock(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def standing(outcome: Outcome, output: str) -> list[Counted]:
    return sorted(
        (key[0], start // SECOND, end // SECOND, values["events"])
        for (start, end, key), values in outcome.results(output)
    )


def merged(sessions: Iterable[Counted]) -> list[Counted]:
    """Sessions of a key that touch, as one."""
    found: list[Counted] = []
    for key, start, end, events in sorted(sessions):
        last = found[-1] if found else None
        if last and last[0] == key and start <= last[2]:
            found[-1] = (key, last[1], max(last[2], end), last[3] + events)
        else:
            found.append((key, start, end, events))
    return found


def keys_saved(outcome: Outcome, batches: list[Batch]) -> set[str]:
    """The keys with an event that counts though its own gap was over when it came."""
    fates = iter(outcome.fates["sessions"])
    saved: Counter[str] = Counter()
    for number, batch in enumerate(batches):
        watermark = outcome.steps[2 * number].watermark
        for second, key in batch:
            [assigned] = next(fates) or ()
            saved[key] += (second + GAP) * SECOND <= watermark and assigned.fate is Fate.ON_TIME
    return {key for key, number in saved.items() if number}
