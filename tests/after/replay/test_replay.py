"""Replay: the log computed again, exactly as it was or under other settings, and the store left alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.replay import replaying
from latecomer.after.replay.comparison import Side, compare_output
from latecomer.after.replay.replaying import Replay, replay
from latecomer.cli import main
from latecomer.config.outputs import Output
from latecomer.engine.without_data import drain_input, heartbeat
from latecomer.errors import NoStore, PipelineError, StoreError, StoreMismatch
from latecomer.log.timeline.keeper import Origin
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.strategies import Bounded, Percentile, Strategy
from latecomer.store.store import Store
from scenarios import cut
from spark_kit import Bench

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND
PAYLOAD = {"key": "string", "paise": "bigint", "ok": "boolean", "km": "double"}
AGGREGATES = {
    "paise": "sum(paise)",
    "n": "count(*)",
    "km": "sum(km)",
    "spread": "stddev(km)",
    "mean": "avg(paise)",
    "kinds": "approx_count_distinct(paise)",
    "exactly": "count(distinct paise)",
    "begins": "first(paise)",
    "some": "collect(km, 3)",
    "middle": "approx_percentile(paise, 0.5)",
}
ADDED = {"paise": "sum(paise)", "n": "count(*)"}
MINUTES: dict[str, Any] = {"window": {"tumbling": "1m"}, "aggregates": ADDED, "by": ["key"]}


def arrivals(count: int = 180) -> list[Arrival]:
    """Six minutes: on time, late and too late; sent twice; dead; keys and flags with nulls."""
    found = []
    for nth in range(count):
        seen = BEGIN + nth * 2 * SECOND
        behind = (0, 1, 0, 75, 0, 240, 2)[nth % 7] * SECOND
        payload = {
            "key": ("amul", "bata", None)[nth % 3],
            "paise": None if nth % 29 == 28 else nth % 11,
            "ok": (True, None, False, True)[nth % 4],
            "km": nth / 7,
        }
        again = 1 if nth % 13 == 12 else 0
        found.append(
            Arrival(seen - behind, seen, f"part{nth % 2}", payload, event_id=nth - again, dead=nth % 31 == 30)
        )
    return found


def bench_of(spark: SparkSession, folder: Path, strategy: Strategy | None = None, **outputs: Output) -> Bench:
    return Bench(spark, folder, strategy or Bounded("5s"), outputs, PAYLOAD)


EVERY_POLICY = {
    late: Output(**MINUTES, allowed_lateness="90s", late=late, too_late=too_late)
    for late, too_late in (
        ("drop", "drop"),
        ("update", "side_output"),
        ("retract", "drop"),
        ("side_output", "side_output"),
    )
}

EVERY_WINDOW = {
    "sliding": Output(window={"sliding": "3m", "every": "50s"}, aggregates=ADDED, late="update"),
    "zoned": Output(
        window={"tumbling": "30m", "zone": "Asia/Kolkata", "offset": "1m"},
        aggregates=AGGREGATES,
        by=["key"],
        allowed_lateness="1m",
        late="retract",
    ),
    "days": Output(window={"calendar": "day"}, aggregates=ADDED, trigger={"early": {"count": 10}}),
    "all": Output(window={"global": True}, aggregates=ADDED, trigger={"early": "1m"}),
    "early_by_event": Output(
        **MINUTES,
        allowed_lateness="2m",
        late="retract",
        where="ok",
        trigger={"early": {"every": "20s", "clock": "event"}, "late": "every 30s"},
    ),
    "discarding": Output(
        window={"tumbling": "1m"},
        aggregates=ADDED,
        allowed_lateness="2m",
        late="update",
        accumulation="discarding",
        trigger={"early": {"count": 3}, "late": {"count": 2}},
    ),
    "sessions": Output(
        window={"session": "20s"}, by=["key"], aggregates=ADDED, allowed_lateness="2m", late="update"
    ),
    "with_empty": Output(
        window={"tumbling": "20s"}, by=["key"], aggregates=ADDED, late="drop", emit_empty=True
    ),
}


def footprint(folder: Path) -> dict[str, str]:
    """Every file below a folder, and what is in it."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def replayed(bench: Bench, **options: Any) -> Replay:
    """The replay of a bench's store, which it must leave as it is."""
    before = footprint(bench.folder / "store")
    found = replay(bench.pipeline, spark=bench.spark, **options)
    assert footprint(bench.folder / "store") == before
    return found


def assert_exact(found: Replay) -> None:
    assert found.exact
    for name, output in found.outputs.items():
        for what in ("panes", "results", "late", "ledger"):
            difference = getattr(output, what)
            assert difference.rows.num_rows == 0, (name, what, difference.rows.to_pylist()[:3])
        assert output.ledger.counts["equal"] > 0
    assert found.equal


BATCHES = cut(arrivals(), [60, 60])


@pytest.mark.long
def test_every_policy_is_repeated_exactly(spark: SparkSession, tmp_path: Path) -> None:
    bench = bench_of(spark, tmp_path, **EVERY_POLICY)
    bench.run(BATCHES, drain=True)
    found = replayed(bench)
    assert_exact(found)
    assert found.batches == 4
    assert all(output.panes.counts["equal"] > 10 for output in found.outputs.values())
    assert found.outputs["update"].late.counts["equal"] > 5
    assert found.summary.column("output").to_pylist() == list(bench.outputs)
    assert set(found.fates.column("difference").to_pylist()) == {0}


@pytest.mark.long
def test_every_kind_of_window_and_trigger_is_repeated_exactly(spark: SparkSession, tmp_path: Path) -> None:
    bench = bench_of(spark, tmp_path, **EVERY_WINDOW)
    bench.run(BATCHES, drain=True)
    found = replayed(bench)
    assert_exact(found)
    assert found.outputs["discarding"].results.counts["equal"] > 5
    outcome_of = Reader(bench.pipeline)
    timings = {name: set(outcome_of.panes(name).column("timing").to_pylist()) for name in EVERY_WINDOW}
    assert "EARLY" in timings["days"] & timings["all"] & timings["early_by_event"] & timings["discarding"]
    assert "LATE" in timings["zoned"] | timings["early_by_event"]


# A store with a history: restarts, silence, partitions out of step, rules that changed, an output that joined

UPDATED = Output(**MINUTES, allowed_lateness="90s", late="update")
RETRACTED = Output(**MINUTES, allowed_lateness="4m", late="retract", trigger={"early": {"count": 4}})
JOINED = Output(**MINUTES, allowed_lateness="2m", late="update", where="ok")


def out_of_step(read: Sequence[Arrival]) -> list[list[Arrival]]:
    """One partition read to its end before the other, from the middle on."""
    half = len(read) // 2
    parts = [[each for each in read[half:] if each.partition == name] for name in ("part0", "part1")]
    return [list(read[:half]), *parts]


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("history")
    read = out_of_step(arrivals())
    until = read[-1][-1].arrival_time
    first = bench_of(spark, folder, Bounded("5s", idle_after="1m"), ruled=UPDATED)
    engine = first.engine()
    engine.data(0, first.write(0, read[0]))
    assert heartbeat(engine, read[0][-1].arrival_time + 65 * SECOND)
    engine.close()

    second = bench_of(spark, folder, Bounded("20s", idle_after="1m"), ruled=RETRACTED, joined=JOINED)
    engine = second.engine()
    engine.data(1, second.write(1, read[1]))
    engine.data(2, second.write(2, read[2]))
    engine.close()

    third = bench_of(spark, folder, Bounded("20s", idle_after="1m"), ruled=UPDATED, joined=JOINED)
    engine = third.engine()
    assert heartbeat(engine, until + 65 * SECOND)
    engine.data(3, third.write(3, []))
    drain_input(engine)
    engine.close()
    return third


def test_a_history_of_restarts_silence_and_changed_rules_is_repeated_exactly(history: Bench) -> None:
    found = replayed(history)
    assert_exact(found)
    kinds = Reader(history.pipeline).watermarks().column("kind").to_pylist()
    assert {"tick", "heartbeat", "drain"} == set(kinds)
    panes = Reader(history.pipeline).panes("ruled").to_pylist()
    assert {"EARLY", "LATE", "ON_TIME"} == {pane["timing"] for pane in panes}
    assert {"insert", "retract"} == {pane["op"] for pane in panes}


@pytest.mark.long
def test_one_output_alone_is_repeated_exactly(history: Bench) -> None:
    found = replayed(history, outputs=["joined"])
    assert list(found.outputs) == ["joined"]
    assert_exact(found)


@pytest.mark.long
def test_a_kept_replay_is_a_store_to_read_and_not_to_run(history: Bench, tmp_path: Path) -> None:
    found = replayed(history, outputs=["ruled"], to=tmp_path / "kept")
    assert Reader(found.pipeline).results("ruled").equals(Reader(history.pipeline).results("ruled"))
    with pytest.raises(StoreMismatch, match="is a replay of"):
        Store(found.pipeline, found.pipeline.source.columns or {}).pin()
    with pytest.raises(StoreError, match="is there already"):
        replayed(history, to=tmp_path / "kept")
    with pytest.raises(StoreError, match="in the store that is replayed"):
        replayed(history, to=history.folder / "store" / "kept")


@pytest.mark.long
def test_a_batch_under_way_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    bench = bench_of(spark, tmp_path, out=UPDATED)
    engine = bench.engine()
    engine.data(0, bench.write(0, BATCHES[0]))
    logged = engine.log.write(1, bench.write(1, BATCHES[1]), engine.keeper.timeline)
    engine.keeper.extend(1, Origin(1), logged.ticks.summaries)
    found = replayed(bench)
    assert found.batches == 1
    assert_exact(found)
    supposed = replayed(bench, changes={"watermark.delay": "1s"})
    assert supposed.batches == 1
    engine.close()
    bench.engine().close()  # a start completes what was accepted
    assert replayed(bench).batches == 2


@pytest.mark.long
def test_what_differs_is_told_the_largest_first(spark: SparkSession, tmp_path: Path) -> None:
    bench = bench_of(spark, tmp_path, out=UPDATED, other=UPDATED)
    store = bench.run([arrivals(60)], drain=True)
    panes = store.output_tables("out", None).panes
    delta = DeltaTable(str(panes.root))
    first, second = delta.to_pyarrow_table().sort_by("window_start").slice(0, 2).to_pylist()
    for row, more in ((first, 5), (second, 500)):
        place = f"window_start = '{row['window_start'].isoformat()}' and sequence = {row['sequence']}"
        key = "key is null" if row["key"] is None else f"key = '{row['key']}'"
        delta.update({"paise": f"paise + {more}"}, predicate=f"{place} and {key}")
    found = replay(bench.pipeline, spark=spark)
    assert found.exact
    assert not found.equal
    assert found.outputs["other"].equal
    counts = found.outputs["out"].panes.counts
    assert (counts["different"], counts["missing"], counts["extra"]) == (2, 0, 0)
    rows = found.outputs["out"].panes.rows.to_pylist()
    assert [row["paise"] - row["paise_replayed"] for row in rows] == [500, 5]
    assert {row["change"] for row in rows} == {"different"}


# As it would have been: a replay under other settings says what a fresh run under them says

SUPPOSED: dict[str, tuple[dict[str, object], Strategy, dict[str, object]]] = {
    "a longer delay": ({"watermark.delay": "70s"}, Bounded("70s"), {}),
    "longer ticks": ({"watermark.every": "7s"}, Bounded("5s", every="7s"), {}),
    "ticks of one event": ({"watermark.every": "event"}, Bounded("5s", every="event"), {}),
    "another strategy": (
        {"watermark.strategy": "percentile", "watermark.p": 0.5, "watermark.of": 20},
        Percentile(0.5, of=20, delay="5s"),
        {},
    ),
    "more lateness, taken back": (
        {"outputs.out.allowed_lateness": "4m", "outputs.out.late": "retract"},
        Bounded("5s"),
        {"allowed_lateness": "4m", "late": "retract"},
    ),
    "other windows": (
        {"outputs.out.window.sliding": "2m", "outputs.out.window.every": "1m", "watermark.delay": "1s"},
        Bounded("1s"),
        {"window": {"sliding": "2m", "every": "1m"}},
    ),
}
OUT: dict[str, Any] = {**MINUTES, "allowed_lateness": "90s", "late": "update"}
FRESH = cut(arrivals(120), [50, 45])


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = bench_of(spark, tmp_path_factory.mktemp("plain"), out=Output(**OUT))
    bench.run(FRESH, drain=True)
    return bench


LONGER = ("longer ticks", "ticks of one event", "another strategy", "other windows")


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.long] * (each in LONGER)) for each in SUPPOSED]
)
def test_a_replay_with_other_settings_says_what_a_fresh_run_says(
    spark: SparkSession, tmp_path: Path, plain: Bench, name: str
) -> None:
    changes, strategy, output = SUPPOSED[name]
    found = replayed(plain, changes=changes, to=tmp_path / "supposed")
    assert not found.exact
    fresh = bench_of(spark, tmp_path / "fresh", strategy, out=Output(**{**OUT, **output}))
    store = fresh.run(FRESH, drain=True)
    last = store.ledger.last_batch()
    sides = Side(store, last), Side(Store(found.pipeline, store.columns), last)
    # Ticks of one event are numbered in the source's rows, and the log has no dead ones.
    compared = compare_output(*sides, "out", exact=name != "ticks of one event")
    for what in ("panes", "results", "late", "ledger"):
        difference = getattr(compared, what)
        assert difference.rows.num_rows == 0, (what, difference.rows.to_pylist()[:3])
    assert compared.panes.counts["equal"] > 0
    if any(field.startswith("watermark") for field in changes):
        marks = [Reader(each).watermarks().drop_columns("tick") for each in (fresh.pipeline, found.pipeline)]
        assert marks[0].equals(marks[1])


@pytest.mark.long
def test_the_timeline_computed_anew_under_the_same_settings_is_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Silence too: recorded heartbeats are steps of the arrival clock."""
    bench = bench_of(spark, tmp_path, Bounded("5s", idle_after="1m"), out=Output(**OUT))
    silence = [Heartbeat(batch[-1].arrival_time + 65 * SECOND) for batch in FRESH[1:]]
    bench.run([*FRESH[:2], silence[0], FRESH[2], silence[1]], restart=True)
    found = replayed(bench, changes={"watermark.delay": "5s"}, to=tmp_path / "anew")
    assert found.equal
    anew, stored = (Reader(each).watermarks() for each in (found.pipeline, bench.pipeline))
    assert anew.equals(stored)
    assert "heartbeat" in stored.column("kind").to_pylist()


@pytest.mark.long
def test_a_heartbeat_that_closes_nothing_under_other_settings_does_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = bench_of(spark, tmp_path, Bounded("1s", idle_after="10s"), out=Output(**OUT))
    read = arrivals(60)
    more = [
        Arrival(each.event_time, each.arrival_time, event_id=f"b{nth}") for nth, each in enumerate(read[50:])
    ]
    bench.run([read[:40], Heartbeat(read[39].arrival_time + 60 * SECOND), more])
    assert "heartbeat" in Reader(bench.pipeline).watermarks().column("kind").to_pylist()
    found = replayed(bench, changes={"watermark.delay": "1h"}, to=tmp_path / "slow")
    assert found.outputs["out"].panes.counts["extra"] == 0
    assert found.outputs["out"].panes.counts["missing"] > 0
    slow = Reader(found.pipeline)
    assert slow.panes("out").num_rows == 0
    marks = slow.watermarks()
    assert len(set(marks.column("batch").to_pylist())) == 3
    assert marks.column("at").to_pylist() == sorted(marks.column("at").to_pylist())


def test_an_output_that_was_not_computed_yet_is_refused(history: Bench) -> None:
    later = bench_of(history.spark, history.folder, history.strategy, **history.outputs, later=UPDATED)
    with pytest.raises(NoStore, match="later has not been computed yet"):
        replayed(later, outputs=["later"])
    with pytest.raises(PipelineError, match="did you mean joined"):
        replayed(later, outputs=["joind"])


def test_a_file_that_no_longer_fits_the_store_is_refused(history: Bench) -> None:
    other = RETRACTED.model_copy(update={"where": "paise > 3"})
    changed = bench_of(history.spark, history.folder, history.strategy, ruled=other, joined=JOINED)
    with pytest.raises(StoreMismatch, match="another where"):
        replayed(changed)


# The command line


def outcome_of(
    arguments: Sequence[str],
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    monkeypatch.setattr(replaying, "build_session", lambda *_: bench.spark)
    file = bench.folder / "pipeline.json"
    file.write_text(json.dumps(bench.pipeline.model_dump(mode="json", by_alias=True)))
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(file), "--from-log", *arguments])
    return int(str(ended.value.code)), capsys.readouterr().out


def test_the_command_line_says_that_all_is_equal(
    plain: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = outcome_of([], plain, monkeypatch, capsys)
    assert status == 0
    assert out.startswith("replayed 4 batches as they were\nout: equal (")
    assert len(out.splitlines()) == 2


@pytest.mark.long
def test_the_command_line_tells_what_would_have_been(
    plain: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--set", "watermark.delay=70s", "--output", "out"]
    status, out = outcome_of([*options, "--limit", "3"], plain, monkeypatch, capsys)
    assert status == 0
    assert "replayed 4 batches with watermark.delay=70s\nout: panes " in out
    assert "what became of events" in out
    assert "out: panes, the largest difference first" in out
    status, out = outcome_of([*options, "--format", "json"], plain, monkeypatch, capsys)
    assert status == 0
    whole = json.loads(out)
    assert (whole["exact"], whole["equal"], whole["batches"]) == (False, False, 4)
    assert whole["changes"] == {"watermark.delay": "70s"}
    panes = whole["outputs"]["out"]["panes"]
    assert len(panes["differences"]) == sum(panes["counts"].values()) - panes["counts"]["equal"] > 0


@pytest.mark.long
def test_the_command_line_fails_where_an_exact_replay_differs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bench_of(spark, tmp_path, out=Output(**OUT))
    store = bench.run([arrivals(40)], drain=True)
    DeltaTable(str(store.ledger.root)).update({"on_time": "on_time + 1"}, predicate="unit = 'events'")
    status, out = outcome_of(["--format", "csv"], bench, monkeypatch, capsys)
    assert status == 1
    header, line = out.splitlines()
    counts = dict(zip(header.split(","), line.split(","), strict=True))
    assert (counts["output"], counts["panes_different"], counts["ledger_different"]) == ("out", "0", "1")
