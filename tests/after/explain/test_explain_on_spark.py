"""Every number of a pipeline that really ran is explained, and together the explanations are the ledger."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.explain.explain import explain
from latecomer.after.explain.explanation import Explanation
from latecomer.after.reading.reader import Reader
from latecomer.config.outputs import Output
from latecomer.model.durations import UNITS, to_micros, to_moment
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.panes import Op, surviving
from latecomer.model.strategies import Bounded
from latecomer.model.triggers import Count, Trigger
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session, Sliding, Tumbling
from latecomer.store.store import Store
from spark_kit import PAYLOAD, Bench, stored_panes

SECOND = UNITS["s"]
START = 1_777_118_400 * SECOND
COUNTED = {"paise": "sum(paise)", "n": "count(*)"}
OUTPUTS = {
    "updates": Output(
        window=Tumbling("15s"),
        by=("key",),
        where="ok",
        aggregates=COUNTED,
        allowed_lateness="10s",
        late="update",
    ),
    "retracts": Output(
        window=Sliding("20s", every="10s"),
        aggregates=COUNTED,
        allowed_lateness="10s",
        late="retract",
        trigger=Trigger(early=Count(count=4)),
    ),
    "parts": Output(
        window=Tumbling("30s"),
        by=("key",),
        aggregates=COUNTED,
        late="drop",
        accumulation="discarding",
        trigger=Trigger(early=Count(count=3)),
    ),
    "visits": Output(
        window=Session("3s"), by=("key",), aggregates=COUNTED, allowed_lateness="8s", late="update"
    ),
}


MERGES = {10: 5, 35: 7}
"""The event that makes a session, and the late one that makes it longer after it was told."""


def arrivals() -> list[Arrival]:
    """Half a second apart; most are prompt, some late, some too late, some sent twice."""
    chance = random.Random(7)
    made = []
    for nth in range(100):
        arrival = START + nth * SECOND // 2
        behind = chance.choice((0, 0, 1, 1, 2, 6, 14, 30)) * SECOND
        payload = {
            "key": chance.choice(("a", "b", None)),
            "paise": chance.choice((None, nth, 10 * nth)),
            "ok": chance.choice((True, True, False, None)),
        }
        if nth in MERGES:
            payload["key"], behind = "c", arrival - START - MERGES[nth] * SECOND
        again = nth % 13 == 12
        made.append(Arrival(arrival - behind, arrival, f"p{nth % 2}", payload, nth - 1 if again else nth))
    return made


@dataclass(frozen=True)
class Ran:
    store: Store
    reader: Reader
    events: list[dict[str, Any]]


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder: Path = tmp_path_factory.mktemp("explained")
    bench = Bench(spark, folder, Bounded("2s"), OUTPUTS, PAYLOAD)
    made = arrivals()
    store = bench.run([made[first : first + 34] for first in range(0, 100, 34)], drain=True)
    events = store.events.query('select event_time, "key", batch, origin, position from t').to_pylist()
    return Ran(store, Reader(bench.pipeline), events)


def explanations(ran: Ran, output: str) -> Iterator[Explanation]:
    """One for each number that an event could have had a part in."""
    rules = OUTPUTS[output]
    seen: set[Any] = set()
    for event in ran.events:
        at = to_micros(event["event_time"])
        key = dict.fromkeys(rules.by, event["key"])
        place = event["batch"], event["origin"], event["position"]
        if isinstance(rules.window, Session):
            if place in seen:
                continue
            found = explain(ran.reader, output, to_moment(at), key)
            seen |= {each.event.place for each in outcome_of(found)}
            assert place in seen
            if (found.window, event["key"]) not in seen:
                seen.add((found.window, event["key"]))
                yield found
            continue
        for window in rules.window.assign_all(at):
            if (window, event["key"] if rules.by else None) not in seen:
                seen.add((window, event["key"] if rules.by else None))
                yield explain(ran.reader, output, to_moment(window.start), key)


def outcome_of(found: Explanation) -> list[Any]:
    logged = [events for fate, events in found.left_out.items() if fate is not Fate.DUPLICATE]
    return [
        each
        for group in (*(outcome.took for outcome in found.panes), found.in_no_pane, *logged)
        for each in group
    ]


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_explanations_together_are_the_ledger_and_the_results(ran: Ran, output: str) -> None:
    judged: set[Any] = set()
    session = isinstance(OUTPUTS[output].window, Session)
    stands: dict[Any, Any] = {}
    panes = 0
    for found in explanations(ran, output):
        assert (found.reconciled, found.notes) == (True, [])
        # Two sessions may both have a word on an event that neither took; it has one fate.
        judged |= {(session or found.window, each.event.place, each.fate) for each in outcome_of(found)}
        panes += len(found.panes)
        if found.stands is not None:
            stands[found.window, tuple(found.key.values())] = dict(found.stands)
    assert panes == len(stored_panes(ran.store, output))
    assert stands == results_of(ran, output)
    fates = Counter(fate.value for _, _, fate in judged)
    assert {fate: fates[fate] for fate in ledger_of(ran, output)} == ledger_of(ran, output)


def results_of(ran: Ran, output: str) -> dict[Any, Any]:
    rules = OUTPUTS[output]
    return {
        (
            (to_micros(row["window_start"]), to_micros(row["window_end"])),
            tuple(row[column] for column in rules.by),
        ): {name: row[name] for name in rules.aggregates}
        for row in ran.reader.results(output).to_pylist()
    }


def ledger_of(ran: Ran, output: str) -> dict[str, int]:
    """What the ledger says of each fate, in (event, window) pairs."""
    (row,) = [
        row
        for row in ran.reader.ledger_totals().to_pylist()
        if row["output"] == output and row["unit"] == "assignments"
    ]
    fates = ["on_time", "late_accepted", "side_output", "dropped"]
    fates += ["filtered"] if OUTPUTS[output].where else []
    return {fate: int(row[fate]) for fate in fates}


def test_the_input_has_something_of_everything(ran: Ran) -> None:
    """Otherwise the test above would show little."""
    for output, fate in (
        ("updates", Fate.LATE_ACCEPTED),
        ("updates", Fate.SIDE_OUTPUT),
        ("updates", Fate.FILTERED),
        ("parts", Fate.DROPPED),
        ("visits", Fate.LATE_ACCEPTED),
        ("visits", Fate.SIDE_OUTPUT),
        ("retracts", Fate.LATE_ACCEPTED),
    ):
        (row,) = [
            row
            for row in ran.reader.ledger_totals().to_pylist()
            if (row["output"], row["unit"]) == (output, "assignments")
        ]
        assert row[fate.value] > 0, (output, fate)
    assert any(pane.op is Op.RETRACT for _, pane in stored_panes(ran.store, "visits"))


@pytest.mark.parametrize("output", ["updates", "retracts", "visits"])
def test_as_of_the_publication_of_each_batch(ran: Ran, output: str) -> None:
    published = ran.store.publications.query("select * from t where output is null").to_pylist()
    assert len(published) == ran.reader.batches()
    panes = stored_panes(ran.store, output)
    for row in published:
        done = {each["batch"] for each in published if each["published_at"] <= row["published_at"]}
        stands = surviving(pane for batch, pane in panes if batch in done)
        found = ran.reader.results(output, as_of=row["published_at"])
        assert sorted(found["sequence"].to_pylist()) == sorted(pane.sequence for pane in stands.values())
        assert found.num_rows == len(stands)
