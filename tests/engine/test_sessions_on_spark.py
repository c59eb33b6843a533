"""Sessions on Spark: merged, told, taken back and told again, as the oracle says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.panes import surviving
from latecomer.model.strategies import Bounded
from latecomer.store import failpoints
from latecomer.store.store import Store, open_store
from spark_kit import PAYLOAD, Bench, as_lines, assert_same, stored_entries, stored_panes

POLICIES = ("drop", "side_output", "update", "retract")
MODES = ("accumulating", "discarding", "retracting")


def long(*values: Any) -> Any:
    """A case for `make test-long`."""
    return pytest.param(*values, marks=pytest.mark.long)


def visits(late: str = "update", lateness: str = "10us", **fields: Any) -> Output:
    """Visits of each key: ten microseconds without an event end them."""
    window = {"session": "10us", "max": fields.pop("max", None)}
    aggregates = {"paise": "sum(paise)", "rows": "count(*)", "largest": "max(paise)"}
    return Output(
        **{
            "window": window,
            "by": ["key"],
            "aggregates": aggregates,
            "allowed_lateness": lateness,
            "late": late,
            **fields,
        }
    )


def steps(*times: int | str | tuple[int, str | None]) -> list[Arrival]:
    """A number is an event of ann's, a pair one of another key's, `w30` takes the watermark to 30."""
    read = []
    for place, time in enumerate(times):
        if isinstance(time, str):
            at, key = int(time[1:]), "other"
        else:
            at, key = (time, "ann") if isinstance(time, int) else time
        payload = {"key": key, "paise": place + 1, "ok": place % 5 != 3}
        read.append(Arrival(at, place, payload=payload, event_id=place))
    return read


def cut_at(read: list[Arrival], *sizes: int) -> list[list[Arrival]]:
    batches, start = [], 0
    for size in sizes:
        batches.append(read[start : start + size])
        start += size
    return [*batches, read[start:]] if start < len(read) else batches


def compared(
    spark: SparkSession,
    folder: Path,
    batches: list[list[Arrival]],
    drain: bool = True,
    restart: bool = False,
    delay: str = "0s",
    **outputs: Output,
) -> Store:
    """Run, and hold everything against the oracle and the ledger's own check."""
    bench = Bench(spark, folder, Bounded(delay, every="event"), outputs, PAYLOAD)
    store = bench.run(batches, drain=drain, restart=restart)
    oks = {name: (lambda payload: payload["ok"]) for name, output in outputs.items() if output.where}
    assert_same(bench, store, bench.oracle(batches, drain=drain, **oks), batches)
    assert check_ledger(bench.pipeline, spark) == []
    return store


BRIDGED = steps(0, 12, 24, (3, None), 6, 18, "w60", (70, None), "w99")


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(9,), (1,) * 9, (4, 1, 2)])
def test_events_that_bridge_three_sessions(
    spark: SparkSession, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """In one batch and over several, by key (null is one) and without keys."""
    outputs = {"keyed": visits("drop"), "whole": visits("update", by=[])}
    store = compared(spark, tmp_path, cut_at(BRIDGED, *sizes), delay="20us", **outputs)
    outcome = {pane.place: pane.values["rows"] for _, pane in stored_panes(store, "keyed")}
    assert outcome[0, 34, ("ann",)] == 5
    assert outcome[3, 13, (None,)] == 1
    assert {pane.key for _, pane in stored_panes(store, "whole")} == {()}


LATE = steps(0, 5, "w20", 8, "w24", 13, "w26", 30, 21, "w45", 32, 1, "w100", 33, (2, None), 41)
"""Kept sessions reopened, an open one touched from behind, final ones left alone."""


@pytest.mark.long
@pytest.mark.parametrize("sizes", [long((15,)), long((3, 2, 5)), (8,)])
def test_late_events_under_every_policy(spark: SparkSession, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    outputs = {policy: visits(policy) for policy in POLICIES}
    store = compared(spark, tmp_path, cut_at(LATE, *sizes), restart=sizes != (15,), **outputs)
    timings = {
        policy: {(pane.timing.value, pane.op.value) for _, pane in stored_panes(store, policy)}
        for policy in POLICIES
    }
    assert timings["drop"] == timings["side_output"] == {("ON_TIME", "insert")}
    assert ("LATE", "insert") in timings["update"] & timings["retract"]


@pytest.mark.long
def test_the_side_output_names_the_session_that_was_missed(spark: SparkSession, tmp_path: Path) -> None:
    read = steps(0, 5, "w30", 8, (8, "bob"), "w60")
    store = compared(spark, tmp_path, [read], out=visits("side_output"))
    late = store.output_tables("out", None).late.query(  # type: ignore[arg-type]
        "select key, window_start, window_end, verdict from t order by key"
    )
    missed = [
        (row["key"], to_micros(row["window_start"]), to_micros(row["window_end"]), row["verdict"])
        for row in late.to_pylist()
    ]
    assert missed == [("ann", 0, 15, "too_late"), ("bob", 8, 18, "too_late")]


@pytest.mark.long
def test_a_rejected_event_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    """8 is too late; had it been let in, it would have carried 14 into the session that is final."""
    read = steps(0, 21, "w25", 8, 14, "w60")
    store = compared(spark, tmp_path, cut_at(read, 4, 1), out=visits("update", "2us"))
    places = [(pane.place[0], pane.place[1], pane.values["rows"]) for _, pane in stored_panes(store, "out")]
    assert (14, 31, 2) in places
    assert (0, 10, 1) in places


@pytest.mark.long
def test_what_a_grown_session_told_is_taken_back_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Two sessions are told and kept; one late event joins them, and the next batch closes the whole."""
    read = steps(0, 12, "w24", 6, 18, "w50")
    outputs = {mode: visits("update", "40us", accumulation=mode) for mode in MODES}
    store = compared(spark, tmp_path, cut_at(read, 3, 2), restart=True, **outputs)
    for mode in MODES:
        panes = [pane for _, pane in stored_panes(store, mode)]
        gone = {pane.place[:2] for pane in panes if pane.op.value == "retract"}
        assert gone == {(0, 10), (12, 22)}
        (whole,) = [pane for pane in panes if pane.place[:2] == (0, 28)]
        assert (whole.timing.value, whole.values["rows"]) == ("LATE", 4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("modes", "sizes"),
    [
        ({"arrival": ["discarding"], "event": ["retracting"], "count": ["accumulating"]}, (5, 5)),
        long(dict.fromkeys(("arrival", "event", "count"), MODES), (2, 3, 3, 2)),
    ],
)
def test_triggers(
    spark: SparkSession, tmp_path: Path, modes: dict[str, Sequence[str]], sizes: tuple[int, ...]
) -> None:
    read = steps(0, 4, 8, "w12", 9, 11, 2, "w40", 13, 6, "w48", 30, (31, None), "w90")
    triggers: dict[str, Any] = {
        "arrival": {"early": "2us", "late": "every 5us"},
        "event": {"early": {"every": "3us", "clock": "event"}},
        "count": {"early": {"count": 2}, "late": {"count": 2}},
    }
    outputs = {
        f"{name}_{mode}": visits("update", "30us", trigger=trigger, accumulation=mode)
        for name, trigger in triggers.items()
        for mode in modes[name]
    }
    compared(spark, tmp_path, cut_at(read, *sizes), **outputs)


@pytest.mark.long
def test_max_where_and_the_end_of_the_input(spark: SparkSession, tmp_path: Path) -> None:
    """Sessions cut at multiples of 25, filtered events among them; then data after the drain."""
    read = steps(0, 8, 16, 24, 26, 33, "w20", 41, (20, None), 48, 52, "w30", (24, None))
    outputs = {"cut": visits("retract", max="25us"), "some": visits("update", where="ok", by=[])}
    compared(spark, tmp_path, cut_at(read, 5, 4), delay="4us", **outputs)


@pytest.mark.parametrize(
    "place",
    [long("panes.written"), "panes.committed", long("late.committed"), long("partials.committed")],
)
def test_interrupted_and_started_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Verdicts depend on the sessions there were: a batch that is run again must find them as they were."""
    read = steps(0, 5, "w21", 25, 8, 13, (2, "bob"), 1, "w60", 62, 70)
    batches = cut_at(read, 3, 5)
    outputs = {"out": visits("retract", "12us")}
    bench = Bench(spark, tmp_path, Bounded("0s", every="event"), outputs, PAYLOAD)
    files = [bench.write(number, batch) for number, batch in enumerate(batches)]

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr(failpoints.os, "kill", die)
    monkeypatch.setenv(failpoints.VARIABLE, f"out.{place}@1")
    engine = bench.engine()
    engine.data(0, files[0])
    with pytest.raises(Died):
        engine.data(1, files[1])
    monkeypatch.delenv(failpoints.VARIABLE)
    engine = bench.engine()
    for number, file in enumerate(files):
        engine.data(number, file)
    engine.close()
    assert_same(bench, open_store(bench.pipeline), bench.oracle(batches), batches)
    assert check_ledger(bench.pipeline, spark) == []


class Died(BaseException):
    """Stands for the end of the process."""


@pytest.mark.long
def test_a_changed_policy_holds_from_the_next_batch_and_the_ledger_still_checks(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = [
        {"late": "update", "lateness": "20us"},
        {"late": "drop"},
        {"late": "retract", "lateness": "30us"},
    ]
    batches = cut_at(steps(0, 5, "w22", 8, 30, "w45", 33, 2, 50, "w62", 51, 31, 9), 4, 4)
    for number, (rule, batch) in enumerate(zip(rules, batches, strict=True)):
        bench = Bench(spark, tmp_path, Bounded("0s", every="event"), {"out": visits(**rule)}, PAYLOAD)
        engine = bench.engine()
        engine.data(number, bench.write(number, batch))
        engine.close()
    assert check_ledger(bench.pipeline, spark) == []


@pytest.mark.long
def test_an_output_that_comes_later_is_computed_from_the_log(spark: SparkSession, tmp_path: Path) -> None:
    batches = cut_at(LATE, 4, 5)
    late, there = visits("retract", "12us"), Output(window={"tumbling": "10us"}, aggregates={"n": "count(*)"})
    before = Bench(spark, tmp_path / "one", Bounded("0s", every="event"), {"there": there}, PAYLOAD)
    before.run(batches)
    joined = Bench(
        spark, tmp_path / "one", Bounded("0s", every="event"), {"there": there, "late": late}, PAYLOAD
    )
    here = joined.run([])
    outcome = joined.oracle(batches)
    stands = surviving(pane for _, pane in stored_panes(here, "late"))
    assert {place: dict(pane.values) for place, pane in stands.items()} == {
        place: dict(pane.values) for place, pane in surviving(outcome.panes("late")).items()
    }
    assert as_lines(stored_entries(here)) == as_lines(outcome.ledger)
    assert check_ledger(joined.pipeline, spark) == []
