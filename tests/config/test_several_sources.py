"""Several sources in a pipeline file: what each of them sees, and mistakes, told where the file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.all_columns import merged
from latecomer.config.changed_settings import changed
from latecomer.config.jsonschema import pipeline_schema
from latecomer.config.load import check_against, check_secrets, doubts, parse_pipeline
from latecomer.config.models import Pipeline
from latecomer.config.sources import NamedSource
from latecomer.errors import PipelineError
from latecomer.model.sources import BySource
from latecomer.model.strategies import Adaptive, Bounded
from latecomer.store.source_columns import source_columns

GOOD = """\
name: shop
store: store
sources:
  app:
    kafka: {servers: "localhost:9092", topics: [payments]}
    schema: {at: string, id: string, paise: bigint}
    watermark: {delay: 30s, idle_after: 5m}
  pos:
    files: {path: tills, format: csv, order_by: seen, partition: till}
    schema: {sold_at: bigint, seen: string, "receipt no": string, amount: bigint, till: string}
    columns: {at: sold_at, id: "`receipt no`", paise: amount}
    unit: ms
    zone: Asia/Kolkata
event: {time: at, id: [source, id]}
watermark: {delay: 2h, every: 5s}
ledger: [paise]
outputs:
  totals: {window: {tumbling: 1h}, by: [source], aggregates: {paise: sum(paise)}}
"""


def parsed(text: str, folder: Path) -> Pipeline:
    return parse_pipeline(text, folder / "shop.yaml")


def problems(text: str, folder: Path) -> list[str]:
    file = folder / "shop.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PipelineError) as caught:
        _check(text, file)
    return [str(problem).replace(f"{file}:", "") for problem in caught.value.problems]


def _check(text: str, file: Path) -> None:
    pipeline = parsed(text, file.parent)
    check_secrets(pipeline, file)
    check_against(pipeline, source_columns(pipeline, file), file)


def test_each_source_sees_a_pipeline_of_its_own(tmp_path: Path) -> None:
    pipeline = parsed(GOOD, tmp_path)
    app, pos = pipeline.views["app"], pipeline.views["pos"]
    assert (app.watermark, pos.watermark) == (
        Bounded("30s", idle_after="5m", every="5s"),
        Bounded("2h", every="5s"),
    )
    assert isinstance(pipeline.watermark, BySource)
    assert pipeline.watermark.every == 5_000_000
    assert (app.event.unit, pos.event.unit, pos.event.zone) == (None, "ms", "Asia/Kolkata")
    assert {column: pos.source_name(column) for column in ("at", "id", "paise", "till")} == {
        "at": "sold_at",
        "id": "receipt no",
        "paise": "amount",
        "till": "till",
    }
    assert (pos.order_by, pos.partition_column, app.order_by) == ("seen", "till", None)


def test_the_columns_are_those_of_both_and_the_source(tmp_path: Path) -> None:
    pipeline = parsed(GOOD, tmp_path)
    columns = source_columns(pipeline)
    check_against(pipeline, columns)
    assert columns == {
        "source": "string",
        "at": "string",
        "id": "string",
        "paise": "bigint",
        "seen": "string",
        "till": "string",
    }
    assert columns.read_from("app") == {"at": "string", "id": "string", "paise": "bigint"}
    assert "source" in columns.of_source("app")


def test_a_source_may_be_made_in_python(tmp_path: Path) -> None:
    source = NamedSource(
        files={"path": "in"}, schema={"t": "timestamp"}, columns={"at": "t"}, watermark=Adaptive(0.9)
    )
    pipeline = Pipeline(
        name="two",
        store="store",
        base=tmp_path,
        sources={"one": source, "other": source.model_copy(update={"watermark": None})},
        event={"time": "at"},
        watermark={"delay": "30s"},
        outputs={"all": {"window": {"tumbling": "1h"}, "aggregates": {"n": "count(*)"}}},
    )
    assert [type(view.watermark) for view in pipeline.views.values()] == [Adaptive, Bounded]


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("sources:", "source: {files: {path: in}}\nsources:", "3: source: stands beside sources"),
        (
            "    watermark: {delay: 30s, idle_after: 5m}\n",
            "    watermark: {delya: 30s}\n",
            "sources.app.watermark",
        ),
        ("watermark: {delay: 2h, every: 5s}\n", "", "source pos has no watermark"),
        ("idle_after: 5m}", "every: 1s}", "the ticks of all sources are the same"),
        ("  pos:", "  p os:", "'p os' is not a usable name"),
        ("partition: till}", "partitoin: till}", "sources.pos.files.partitoin: unknown key"),
        ("    unit: ms\n", "", "sources.pos.unit: s, ms, us or ns"),
        ("paise: amount}", "paise: amonut}", "11: sources.pos.columns.paise: the source has no such column"),
        ("amount: bigint", "amount: string", "is string here and bigint in app"),
        (
            "schema: {at: string, id",
            "schema: {at: string, source: string, id",
            "every row has a column of this name",
        ),
        (
            "schema: {at: string, id",
            "schema: {at: string, seen: string, id",
            "is the arrival time of another source",
        ),
        ("event: {time: at", "event: {time: att", "event.time: the source has no such column"),
        ("by: [source]", "by: [sorce]", "outputs.totals.by[0]: the source has no such column"),
        ("path: tills", "path: store", "shares a folder with the source"),
        ("path: tills", "path: ftp://tills", "sources.pos.files.path: ftp is not supported"),
        ("ledger:", "columns: {x: y}\nledger:", "each of several sources has its own names"),
        ('"localhost:9092"', '"${env:NO_SUCH_SERVERS}"', "sources.app.kafka.servers"),
    ],
)
def test_a_mistake_is_told_where_it_is(before: str, after: str, outcome: str, tmp_path: Path) -> None:
    assert before in GOOD
    (tmp_path / "tills").mkdir()
    found = problems(GOOD.replace(before, after, 1), tmp_path)
    assert any(outcome in each for each in found), found


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (
            "id: string, paise: bigint}\n",
            "paise: bigint}\n    format: rules:Thing\n",
            "7: sources.app.format",
        ),
        (
            "{at: string, id: string, paise: bigint}\n",
            "null\n    format: {avro: {registry: 'http://r', subjct: s}}\n",
            "7: sources.app.format.avro.subjct",
        ),
        ("format: csv", "format: rules:Thing", "9: sources.pos.files.format"),
        ("{delay: 30s, idle_after: 5m}", "{strategy: rules:Own}", "7: sources.app.watermark.strategy"),
    ],
)
def test_a_mistake_in_a_class_that_is_named_is_told_where_it_is(
    before: str, after: str, outcome: str, tmp_path: Path
) -> None:
    (found,) = problems(GOOD.replace(before, after), tmp_path)
    assert outcome in found


def test_neither_source_nor_sources(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("sources:")] + GOOD[GOOD.index("event:") :]
    (found,) = problems(text, tmp_path)
    assert "source: is missing" in found


def test_whoever_waits_for_ever_is_named(tmp_path: Path) -> None:
    (found,) = doubts(parsed(GOOD, tmp_path))
    assert found.field == "sources.pos.watermark.idle_after"
    assert "every till" in found.message


def test_a_source_without_partitions_is_waited_for_too(tmp_path: Path) -> None:
    (found,) = doubts(parsed(GOOD.replace(", partition: till", ""), tmp_path))
    assert found.field == "sources.pos.watermark.idle_after"
    assert "waits for this source: once it has nothing more to bring, it holds it for ever" in found.message


def test_what_a_replay_changes_is_the_watermark_of_a_source(tmp_path: Path) -> None:
    pipeline = parsed(GOOD, tmp_path)
    supposed = changed(pipeline, {"sources.pos.watermark.delay": "1m"})
    assert supposed.views["pos"].watermark == Bounded("1m", every="5s")
    assert supposed.views["app"].watermark == pipeline.views["app"].watermark
    for field, fix in (
        ("watermark.delay", "sources.app.watermark.delay"),
        ("sources.pso.watermark.delay", "did you mean pos"),
        ("sources.pos.zone", "run the pipeline into a new store"),
        ("sources.pos.watermark.max_future", "leave it as it is"),
    ):
        with pytest.raises(PipelineError, match=fix):
            changed(pipeline, {field: "7m"})


def test_editors_are_told_of_sources() -> None:
    schema = pipeline_schema()
    assert "source" not in schema["required"]
    assert "columns" in schema["$defs"]["NamedSource"]["oneOf"][0]["properties"]


def test_columns_of_sources_that_have_none_in_common() -> None:
    columns = merged({"a": {"x": "int"}, "b": {"y": "string"}})
    assert (dict(columns), columns.of_source("b")) == (
        {"source": "string", "x": "int", "y": "string"},
        {"y": "string", "source": "string"},
    )
