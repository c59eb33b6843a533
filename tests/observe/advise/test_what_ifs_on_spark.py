"""A what-if is what a replay under that setting computes: fates, panes, and when numbers are published."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import Output, Reader, advise, replay
from latecomer.model.durations import parse_duration, to_micros
from latecomer.model.lateness.sweep import Setting
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from scenarios import cut
from spark_kit import PAYLOAD, Bench

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND
SUMS = {"paise": "sum(paise)", "n": "count(*)"}


def arrivals(count: int = 240) -> list[Arrival]:
    """Eight minutes of two partitions, the second of which is behind: on time, late, too late, sent twice, dead."""
    found = []
    for nth in range(count):
        seen = BEGIN + nth * 2 * SECOND
        behind = (0, 1, 0, 75, 0, 240, 2)[nth % 7] * SECOND + (nth % 2) * 9 * SECOND
        payload = {
            "key": ("amul", "bata", None)[nth % 3],
            "paise": nth % 11,
            "ok": (True, None, False)[nth % 3],
        }
        again = 1 if nth % 13 == 12 else 0
        found.append(
            Arrival(seen - behind, seen, f"part{nth % 2}", payload, event_id=nth - again, dead=nth % 31 == 30)
        )
    return found


@pytest.mark.long
def test_a_what_if_is_what_a_replay_computes(spark: SparkSession, tmp_path: Path) -> None:
    minutes = {"window": {"tumbling": "1m"}, "aggregates": SUMS, "by": ["key"]}
    outputs = {
        "updated": Output(**minutes, allowed_lateness="90s", late="update"),
        "retracted": Output(**minutes, late="retract", too_late="drop", where="ok"),
        "aside": Output(**minutes),
        "sliding": Output(window={"sliding": "3m", "every": "50s"}, aggregates=SUMS, late="update"),
    }
    bench = Bench(spark, tmp_path, Bounded("5s", idle_after="20s"), outputs, PAYLOAD)
    bench.run(cut(arrivals(), [70, 5, 165]))
    supposed = [("0s", "30s"), ("40s", "3m")]
    found = advise(
        bench.pipeline, delays=[delay for delay, _ in supposed], lateness=[grace for _, grace in supposed]
    )
    for nth, (delay, grace) in enumerate(supposed):
        changes = {"watermark.delay": delay}
        changes |= {f"outputs.{name}.allowed_lateness": grace for name in outputs}
        replayed = replay(bench.pipeline, changes=changes, to=tmp_path / f"replay{nth}", spark=spark)
        fates = {
            (row["output"], row["fate"]): int(row["replayed"])
            for row in replayed.fates.to_pylist()
            if row["unit"] == "events"
        }
        for output in found.outputs:
            name = output.name
            lateness = parse_duration(grace) if output.accepts else 0
            answer = output.answer(Setting(parse_duration(delay), lateness))
            row = output.row(answer, of_sample=False)
            outcome = {fate: row[fate] for fate in ("on_time", "late_accepted", "side_output", "dropped")}
            assert outcome == {fate: fates.get((name, fate), 0) for fate in outcome}, (name, delay)
            panes = Reader(replayed.pipeline).panes(name).to_pylist()
            timings = Counter(pane["timing"] for pane in panes if pane["op"] == "insert")
            assert answer.first_numbers == timings["ON_TIME"]
            assert answer.corrections == timings["LATE"]
            waits = {
                pane["window_end"]: to_micros(pane["fired_at"]) - to_micros(pane["window_end"])
                for pane in panes
                if pane["timing"] == "ON_TIME"
            }
            assert answer.windows == len(waits)
            assert answer.published_after == sum(waits.values()) / len(waits)
    assert any(row["replayed"] for row in replayed.fates.to_pylist() if row["fate"] == "dropped"), (
        "it is no empty test"
    )


@pytest.mark.long
def test_outputs_with_derived_columns_are_advised_like_others(spark: SparkSession, tmp_path: Path) -> None:
    minutes = {"window": {"tumbling": "1m"}, "allowed_lateness": "90s", "late": "update"}
    outputs = {
        "plain": Output(**minutes, aggregates=SUMS, by=["key"], where="paise > 2"),
        "derived": Output(
            **minutes,
            columns={"who": "key || '!'", "amount": "paise + 0", "large": "paise > 2"},
            aggregates={"paise": "sum(amount)", "n": "count(*)"},
            by=["who"],
            where="large",
        ),
        "beyond": Output(**minutes, columns={"who": "upper(key)"}, aggregates=SUMS, by=["who"]),
    }
    bench = Bench(spark, tmp_path, Bounded("5s", idle_after="20s"), outputs, PAYLOAD)
    bench.run(cut(arrivals(80), [80]))
    found = advise(bench.pipeline, delays=["0s"], lateness=["30s"])
    outcome = {
        each.name: each.row(each.answer(Setting(0, parse_duration("30s"))), of_sample=False)
        for each in found.outputs
    }
    assert outcome.keys() == {"plain", "derived"}
    own = {"output": "", "retained_bytes": 0}
    assert {**outcome["plain"], **own} == {**outcome["derived"], **own}
    assert any("only Spark can compute who" in note for note in found.notes)
