"""The testing kit with several sources: steps of each, mistakes, and Spark held against the oracle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from examples_kit import drawn
from latecomer.config.all_columns import merged
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError
from latecomer.store.store import Store
from latecomer.testing import (
    Batch,
    Row,
    Scenario,
    assert_balances,
    assert_fates,
    assert_late,
    assert_results,
    assert_same_for_all_cuts,
    assert_watermark,
    play,
    run_transcript,
)
from latecomer.testing.checking import compare
from latecomer.testing.scenario import Step, all_in_one, one_by_one
from latecomer.testing.strategies import rows, scenarios
from latecomer.testing.transcripts import Transcript, parse_transcript

relaxed = drawn(10, suppress_health_check=list(HealthCheck))

SHOP = """\
name: shop
store: store
sources:
  app:
    files: {path: app, order_by: seen}
    schema: {id: bigint, at: string, seen: string, paise: bigint, last: boolean}
    watermark: {delay: 30s, idle_after: 5m}
  pos:
    files: {path: pos, format: csv, order_by: written, partition: till, unit: ms}
    schema: {"receipt no": bigint, sold_at: timestamp_ntz, written: bigint, amount: bigint, till: string}
    columns: {id: "`receipt no`", at: sold_at, paise: amount}
    zone: Asia/Kolkata
    watermark: {delay: 10m, idle_after: 30m, max_future: 1h}
event: {time: at, id: [source, id]}
ledger: [paise]
outputs:
  all: {window: {tumbling: 10m}, aggregates: {paise: sum(paise), n: count(*)}}
  each:
    window: {tumbling: 10m}
    by: [source, till]
    where: paise > 0
    aggregates: {n: count(*), seen: max(seen)}
    allowed_lateness: 5m
    late: retract
"""


def shop(**watermarks: dict[str, Any]) -> Pipeline:
    """The shop; with other watermarks, by source."""
    written = yaml.safe_load(SHOP)
    for name, watermark in watermarks.items():
        written["sources"][name]["watermark"] = watermark
    return Pipeline.model_validate(written)


def both() -> Scenario:
    """The till's watermark gets to 12:16, and the app's to 12:26:30."""
    return (
        Scenario()
        .source("app")
        .event("12:00", delay="1s", id=1, paise=1)
        .event("12:25", delay="1s", id=2, paise=2)
        .source("pos")
        .event("12:26", delay="1s", id=1, paise=10, till="A")
        .cut()
        .source("app")
        .event("12:27", id=3, paise=3)
        .cut()
        .event("12:06", delay="22m", id=4, paise=4)
    )


def test_each_source_has_columns_times_and_a_watermark_of_its_own() -> None:
    outcome = play(shop(), both())
    assert_watermark(outcome, "none", step=0)  # nobody has heard of the tills
    assert_watermark(outcome, "12:16")
    assert_fates(outcome, ["on_time"] * 4 + ["side_output"], output="all")
    assert_late(outcome, "12:06 @12:28 source=app paise=4 12:00..12:10 too_late", output="all")
    drained = play(shop(), both().drain())
    assert_results(drained, "12:00..12:10 n=1 paise=1\n12:20..12:30 n=3 paise=15", "all")
    assert_results(
        drained,
        """
        12:00..12:10 source=app till=null n=1 seen=12:00:01
        12:20..12:30 source=app till=null n=2
        12:20..12:30 source=pos till=A n=1 seen=12:26:01
        """,
        "each",
    )


def test_rows_become_a_batch_for_each_source() -> None:
    outcome_of = Scenario().source("app").event("12:00").event("12:09").source("pos").event("12:01")
    assert [(step.source, len(step.rows)) for step in batches_of(outcome_of.steps)] == [
        ("app", 2),
        ("pos", 1),
    ]
    cut = outcome_of.cut(every="5m").duplicate().steps
    assert [step.source for step in batches_of(cut)] == ["app", "pos", "app", "app"]
    assert [step.source for step in batches_of(all_in_one(cut))] == ["app", "pos", "app"]
    assert [step.source for step in batches_of(one_by_one(outcome_of.steps))] == ["app", "pos", "app", "app"]


def batches_of(steps: list[Step]) -> list[Batch]:
    return [step for step in steps if isinstance(step, Batch)]


def test_a_source_that_has_more_to_read_is_waited_for() -> None:
    def outcome_of(pos: Any) -> Scenario:
        silent = Scenario().source("app").event("12:00").partitions(pos=pos).event("12:01")
        return silent.event("13:00").cut().event("13:30")

    assert_watermark(play(shop(), outcome_of("read")), "12:59:30")
    assert_watermark(play(shop(), outcome_of("unread")), "none")


def test_a_watermark_put_by_hand_takes_the_place_of_all() -> None:
    outcome_of = (
        Scenario()
        .source("app")
        .event("12:09", id=1)
        .watermark("12:10")
        .event("12:08", delay="-6m", id=2)  # further ahead than the app may be
        .source("pos")
        .event("12:08", delay="-6m", id=2)
        .watermark("12:16")
        .event("12:09", id=3)
    )
    outcome = assert_same_for_all_cuts(shop(), outcome_of)
    assert_fates(outcome, ["on_time", "dead_letter too_far_ahead", "too_late", "too_late"], "all")
    assert_watermark(outcome, "12:16")


@pytest.mark.parametrize(
    ("steps", "outcome_of"),
    [
        (Scenario().event("12:00"), "steps[0].batch: of which source?"),
        (
            Scenario().restart().source("ap").event("12:00"),
            "steps[1].source: the pipeline has no such source (value: 'ap')\n    fix: did you mean app?",
        ),
        (
            Scenario().partitions(A="read"),
            "steps[0].partitions: is a partition of no source (value: 'A')\n"
            "    fix: write the source before it, as in app/A",
        ),
        (Scenario().source("app").event("12:00", till="A"), "till: the source has no such column"),
        (Scenario().source("pos").add("12:00 @12:00 source=pos"), "source: every row has the source"),
    ],
)
def test_a_mistake_is_told(steps: Scenario, outcome_of: str) -> None:
    with pytest.raises(ValueError, match=re.escape(outcome_of)):
        play(shop(), steps)


def test_one_source_has_no_name() -> None:
    with pytest.raises(PipelineError, match=r"steps\[0\].source: the pipeline has one source"):
        play(shop().views["app"], Scenario().source("app").event("12:00"))
    with pytest.raises(PipelineError, match="of which source"):
        given(rows(shop()))(lambda _: None)()


def test_columns_of_sources_that_cannot_be_put_together_are_told() -> None:
    written = yaml.safe_load(SHOP)
    for source in written["sources"].values():
        del source["schema"]
        source.pop("columns", None)
    pipeline = Pipeline.model_validate({**written, "event": {"time": "at"}})
    outcome_of = (
        Scenario().source("app").event("12:00", paise=1).source("pos").event("12:00", paise=2.5, till="A")
    )
    with pytest.raises(PipelineError, match="is double here and bigint in app"):
        play(pipeline, outcome_of)
    exact = play(pipeline, outcome_of.drain(), columns={"paise": "decimal(9,2)"})
    assert_results(exact, "12:00..12:10 n=2 paise=3.5", "all")


# Transcripts

GOOD = """\
rule: Each batch is of a source.
pipeline: shop.yaml
steps:
  - batch:
      - 12:00 @12:00:01 id=1 paise=1
    source: app
    watermark: none
  - batch:
      - 12:26 @12:26:01 id=1 paise=10 till=A
    source: pos
  - partitions: {app: read, pos/A: read}
  - batch: [12:27 @12:27 id=2 -> all=on_time; each=filtered]
    source: app
    watermark: 12:16
finally:
  late: {all: none}
"""


def read(text: str, folder: Path) -> Transcript:
    (folder / "shop.yaml").write_text(SHOP, encoding="utf-8")
    return parse_transcript(text, folder / "check.yaml")


def test_a_transcript_says_of_which_source_a_batch_is(tmp_path: Path) -> None:
    assert run_transcript(read(GOOD, tmp_path)) == []
    wrong = read(GOOD.replace("all: none", "all: [12:27 @12:27 source=app]"), tmp_path)
    assert [difference.what for difference in run_transcript(wrong)] == ["late of all in the end"]


TOGETHER = """\
rule: Rows of several sources can be read together.
pipeline: shop.yaml
steps:
  - batch:
      app:
        - 12:00 @12:00:01 id=1 paise=1 -> all=on_time
        - 12:40 @12:40:01 id=2 paise=1 -> all=on_time
      pos:
        - 12:26 @12:26:01 id=1 paise=10 till=A -> all=on_time
        - 12:03 @12:41 id=2 paise=10 till=A -> all=too_late
    watermark: 12:16
"""


@pytest.mark.parametrize("on", ["oracle", "engine"])
def test_a_transcript_has_rows_of_several_sources_that_are_read_together(on: Any, tmp_path: Path) -> None:
    assert run_transcript(read(TOGETHER, tmp_path), on=on) == []
    wrong = read(TOGETHER.replace("all=too_late", "all=on_time"), tmp_path)
    (found,) = {difference.what for difference in run_transcript(wrong, on=on)}
    assert found == "fates of all after step 1, a batch"


@pytest.mark.parametrize(
    ("old", "new", "outcome_of"),
    [
        ("pos:", "pso:", "steps[0].source: the pipeline has no such source (value: 'pso')"),
        (
            "      app:\n",
            "      app: 7\n      web:\n",
            "check.yaml:5: steps[0].batch.app: is not a list of rows",
        ),
        (
            "id=2 paise=1 ",
            "till=A ",
            "check.yaml:7: steps[0].batch.app[1]: till: the source has no such column",
        ),
        (
            "    watermark",
            "    source: app\n    watermark",
            "check.yaml:4: steps[0].batch: is not a list of rows",
        ),
    ],
)
def test_a_mistake_in_rows_that_are_read_together_is_told(
    old: str, new: str, outcome_of: str, tmp_path: Path
) -> None:
    assert TOGETHER.count(old) == 1
    with pytest.raises(PipelineError) as caught:
        read(TOGETHER.replace(old, new), tmp_path)
    assert outcome_of in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "outcome_of"),
    [
        (
            "    source: pos\n",
            "",
            "check.yaml:8: steps[1].batch: of which source?\n    fix: write source: app; there are app, pos",
        ),
        (
            "source: pos\n",
            "source: pso\n",
            "check.yaml:10: steps[1].source: the pipeline has no such source (value: 'pso')\n"
            "    fix: did you mean pos?",
        ),
        ("source: pos\n", "source: [pos]\n", "check.yaml:10: steps[1].source: is not the name of a source"),
        ("source: pos\n", "source: 7\n", "check.yaml:10: steps[1].source: is not the name of a source"),
        (
            "pos/A: read",
            "till/A: read",
            "check.yaml:11: steps[2].partitions: is a partition of no source (value: 'till/A')",
        ),
        ("  - partitions:", "  - source: app\n    partitions:", "steps[2].source: unknown key"),
        ("paise=1\n", "paise=1 till=A\n", "check.yaml:5: steps[0].batch[0]: till: the source has no such"),
        ("paise=1\n", "source=app\n", "check.yaml:5: steps[0].batch[0]: source: every row has the source"),
        (
            "all: none",
            "all: [12:27 @12:27 shop=1]",
            "finally.late.all[0]: shop: the source has no such column",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, outcome_of: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(PipelineError) as caught:
        read(GOOD.replace(old, new), tmp_path)
    assert outcome_of in str(caught.value)


def test_columns_that_are_not_declared_are_found_as_a_run_finds_them(tmp_path: Path) -> None:
    """Those of the app in its files, until a store has pinned them; those of the tills in the rows."""
    written = yaml.safe_load(SHOP)
    declared = {name: source.pop("schema") for name, source in written["sources"].items()}
    written["sources"]["pos"] = {"files": {"path": "pos", "order_by": "seen", "partition": "till"}} | {
        "watermark": {"delay": "10m"}
    }
    pipeline = Pipeline.model_validate({**written, "base": tmp_path, "event": {"time": "at"}})
    line = '{"id": 1, "at": "2026-04-25T12:00:00Z", "seen": "2026-04-25T12:00:00Z", "paise": 1, "note": "x"}'
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "1.json").write_text(line, encoding="utf-8")

    def columns() -> dict[str, dict[str, str]]:
        text = "\n".join(GOOD.splitlines()[:1] + GOOD.splitlines()[2:])
        return parse_transcript(text, tmp_path / "check.yaml", pipeline).shape.columns.by_source

    assert columns() == {
        "app": {"id": "bigint", "at": "string", "seen": "string", "paise": "bigint", "note": "string"},
        "pos": {"at": "string", "seen": "string", "id": "bigint", "paise": "bigint", "till": "string"},
    }
    Store(pipeline, merged({"app": declared["app"], "pos": columns()["pos"]})).pin()
    assert columns()["app"] == declared["app"]


def test_sources_that_do_not_fit_together_are_told_with_the_line_of_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SHOP.replace("amount: bigint", "amount: int"), encoding="utf-8")
    with pytest.raises(
        PipelineError, match=r"shop.yaml:\d+: sources.pos.schema: is int here and bigint in app"
    ):
        parse_transcript(GOOD, tmp_path / "check.yaml")


def test_in_a_transcript_one_source_has_no_name() -> None:
    text = """\
rule: A batch is a batch.
watermark: {delay: 0s}
outputs: {all: {window: {tumbling: 1m}, aggregates: {n: count(*)}}}
steps:
  - batch: [14:00 @14:00 -> on_time]
    source: app
"""
    outcome_of = (
        r"check.yaml:6: steps\[0\].source: the pipeline has one source, which has no name \(value: 'app'\)"
    )
    with pytest.raises(PipelineError, match=outcome_of):
        parse_transcript(text, Path("check.yaml"))


# Random inputs

MARKS = {"strategy": "punctuated", "marker": "last", "idle_after": "5m"}
STRATEGIES: list[dict[str, dict[str, Any]]] = [
    {},
    {"app": MARKS, "pos": {"strategy": "adaptive", "of": 10, "idle_after": "10m"}},
    {
        "app": {**MARKS, "marker": None, "where": "paise > 50"},
        "pos": {"strategy": "percentile", "p": 0.5, "of": 4},
    },
]


@pytest.mark.parametrize("watermarks", STRATEGIES)
@given(data=st.data())
@relaxed
def test_random_scenarios_balance_and_do_not_depend_on_cuts(
    watermarks: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    pipeline = shop(**watermarks)
    assert_balances(assert_same_for_all_cuts(pipeline, data.draw(scenarios(pipeline))))


@pytest.mark.long
@given(scenarios(shop(), by_hand=True, columns={"till": st.sampled_from("AB"), "last": st.just(True)}))
@relaxed
def test_random_scenarios_by_hand(steps: list[Step]) -> None:
    assert {
        row.fields["till"] for step in batches_of(steps) if step.source == "pos" for row in step.rows
    } <= {*"AB"}
    assert_balances(assert_same_for_all_cuts(shop(), steps))


@given(rows(shop(), source="pos"))
@relaxed
def test_random_rows_are_of_one_source(found: list[Row]) -> None:
    assert all({"id", "paise", "till"} == row.fields.keys() for row in found)


# On Spark


def test_spark_says_the_same(spark: SparkSession) -> None:
    outcome_of = (
        Scenario()
        .source("app")
        .stream("12:00", "12:30", every="3m", delay="1s", paise=1)
        .source("pos")
        .stream("12:01", "12:25", every="3m", delay="2m", paise=5, till="A")
        .stream("12:05", "12:25", every="4m", delay="2m", paise=0, till="B")
        .cut()
        .corrupt(arrives="12:31", paise=9, till="C")
        .event("14:00", delay="-90m", id=8, paise=2, till="A")  # an hour ahead is allowed
        .source("app")
        .event("12:40", delay="-6m", id=8, paise=2)  # five minutes are
        .event("12:02", delay="33m", id=9, paise=2)
        .duplicate(delay="1s")
        .restart()
        .event("13:20", id=10, paise=7)
        .heartbeat("14:30")
    )
    expected, actual = play(shop(), outcome_of), play(shop(), outcome_of, on="spark", spark=spark)
    assert compare(expected, actual) == []
    fates = [found and found[-1].fate.value for found in expected.fates["all"]]
    assert [fates.count(fate) for fate in ("dead_letter", "duplicate", "side_output")] == [3, 1, 1]
    assert_balances(actual)


@pytest.mark.long
@pytest.mark.parametrize("by_hand", [False, True])
def test_spark_says_the_same_of_a_topic_beside_files(by_hand: bool, spark: SparkSession) -> None:
    """A source without a column for the arrivals, a partition with a slash in its name, and one that has more."""
    written = yaml.safe_load(SHOP)
    written["sources"]["app"] |= {"kafka": {"servers": "localhost:9092", "topics": ["payments"]}}
    del written["sources"]["app"]["files"]
    pipeline = Pipeline.model_validate(written)
    outcome_of = (
        Scenario()
        .partitions(pos="unread")
        .source("app")
        .event("12:00", delay="1s", id=1, paise=1, seen="early")
        .event("13:00", delay="1s", id=2, paise=2)
        .partitions(**{"pos/A/1": "read", "pos/B": "unread"})
        .source("pos")
        .event("12:01", id=1, paise=10, till="A/1")
        .partitions(app="read")
        .event("13:05", id=2, paise=10, till="B")
        .cut()
        .source("app")
        .event("13:20", id=3, paise=3)
    )
    outcome_of = (
        outcome_of.watermark("13:10").event("12:20", delay="1h", id=4)
        if by_hand
        else outcome_of.heartbeat("15:00")
    )
    expected = play(pipeline, outcome_of)
    assert_watermark(expected, "13:10" if by_hand else "14:50")
    assert compare(expected, play(pipeline, outcome_of, on="spark", spark=spark)) == []


@pytest.mark.long
@pytest.mark.parametrize("watermarks", STRATEGIES)
@given(data=st.data())
@settings(relaxed, max_examples=5)
def test_spark_says_the_same_of_random_scenarios(
    watermarks: dict[str, dict[str, Any]], spark: SparkSession, data: st.DataObject
) -> None:
    pipeline = shop(**watermarks)
    steps = data.draw(scenarios(pipeline, max_size=8))
    expected = play(pipeline, steps)
    assert compare(expected, play(pipeline, steps, on="spark", spark=spark)) == []
