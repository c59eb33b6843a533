"""A source and a decoder of one's own, by the documented contract: docs/sources.md as it stands there."""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import PipelineError, Reader, SourceError, load_pipeline, replay_dead_letters, run
from latecomer.after.replay.replaying import replay
from latecomer.cli import main
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.source import polled
from latecomer.source.decode import retrying
from latecomer.store.store import open_store

DOCUMENT = (Path(__file__).parents[2] / "docs" / "sources.md").read_text("utf-8")
OUTBOX, SEMICOLONS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.S)
PIPELINE = """
name: shops
store: store
source: {source}
event: {{time: at}}
watermark: {{delay: 1m}}
ledger: [paise]
outputs:
  minutes: {{window: {{tumbling: 1m}}, by: [shop], aggregates: {{paise: sum(paise), sales: count(*)}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "my_sources.py").write_text(OUTBOX, encoding="utf-8")
    (tmp_path / "my_formats.py").write_text(SEMICOLONS, encoding="utf-8")
    yield tmp_path
    for module in ("my_sources", "my_formats", "my_mistakes"):
        sys.modules.pop(module, None)


def pipeline(folder: Path, source: str) -> Pipeline:
    (folder / "pipeline.yaml").write_text(PIPELINE.format(source=source), encoding="utf-8")
    return load_pipeline(folder / "pipeline.yaml")


def outbox(folder: Path, most: int = 100) -> Pipeline:
    return pipeline(folder, f"{{my_sources:Outbox: {{target: {folder / 'shop.db'}, most: {most}}}}}")


def sell(folder: Path, *sales: tuple[str, str, int, str]) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute(
            "create table if not exists outbox "
            "(id integer primary key autoincrement, shop text, at text, paise int, came text)"
        )
        database.executemany("insert into outbox (shop, at, paise, came) values (?, ?, ?, ?)", sales)


def minutes(pipeline: Pipeline) -> dict[tuple[str, str], int]:
    return {
        (row["shop"], f"{row['window_start']:%H:%M}"): row["paise"]
        for row in Reader(pipeline).results("minutes").to_pylist()
    }


FIRST = [
    ("chai", "2026-04-25T14:00:05Z", 10, "2026-04-25T14:00:06Z"),
    ("dosa", "2026-04-25T14:00:50Z", 20, "2026-04-25T14:00:51Z"),
    ("chai", "nonsense", 7, "2026-04-25T14:00:52Z"),
    ("chai", "2026-04-25T14:01:10Z", 30, "2026-04-25T14:01:11Z"),
]


def test_the_documented_source_runs_and_goes_on(spark: SparkSession, folder: Path) -> None:
    sell(folder, *FIRST)
    asked = outbox(folder, most=3)
    run(asked, once=True, spark=spark)
    (letter,) = Reader(asked).dead_letters().to_pylist()
    assert (letter["origin"], letter["position"], letter["reason"]) == ("outbox", 3, "unreadable_event_time")
    assert Reader(asked).ledger().to_pylist()[0]["received"] == 3, "three rows at most in a batch"
    sell(folder, ("dosa", "2026-04-25T14:03:00Z", 5, "2026-04-25T14:03:01Z"))
    report = run(asked, once=True, drain=True, spark=spark)
    assert report.batches == 4
    assert minutes(asked) == {
        ("chai", "14:00"): 10,
        ("dosa", "14:00"): 20,
        ("chai", "14:01"): 30,
        ("dosa", "14:03"): 5,
    }
    events = open_store(asked).events.query("select origin, position from t order by position").to_pylist()
    assert [(row["origin"], row["position"]) for row in events] == [("outbox", nth) for nth in (1, 2, 4, 5)]
    said = {row["kind"]: row["arrival_by"] for row in Reader(asked).watermarks().to_pylist()}
    assert said == {"tick": "source", "drain": None}
    assert replay(asked, spark=spark).equal


def test_a_run_that_goes_on_finds_what_is_new(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polled.Polled, "pause", 0.05)
    sell(folder, *FIRST[:2])
    stop, batches = threading.Event(), []

    def watch(report: object) -> None:
        batches.append(report)
        if len(batches) == 1:
            sell(folder, FIRST[3])
        else:
            stop.set()

    guard = threading.Timer(120, stop.set)
    guard.start()
    run(outbox(folder), spark=spark, watch=watch, stop=stop)
    guard.cancel()
    assert len(batches) == 2
    assert open_store(outbox(folder)).events.query("select count(*) as n from t").to_pylist() == [{"n": 3}]


def test_a_source_that_is_down_is_waited_for(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sell(folder, *FIRST[:2])
    asked = outbox(folder)
    run(asked, once=True, spark=spark)
    (folder / "shop.db").rename(folder / "away.db")
    with pytest.raises(SourceError, match=r"source my_sources:Outbox: .*shop\.db: unable to open"):
        run(asked, once=True, spark=spark)
    (folder / "away.db").rename(folder / "shop.db")
    sell(folder, FIRST[3])
    # It goes away between the answer and the reading, and comes back while it is waited for.
    waits: list[float] = []

    def back(seconds: float) -> None:
        waits.append(seconds)
        (folder / "away.db").rename(folder / "shop.db")

    read = polled.Polled.splits
    monkeypatch.setattr(retrying, "sleep", back)

    def gone(self: polled.Polled, *given: object) -> object:
        if not waits:
            (folder / "shop.db").rename(folder / "away.db")
        return read(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(polled.Polled, "splits", gone)
    run(asked, once=True, drain=True, spark=spark)
    assert len(waits) == 1
    assert minutes(asked)["chai", "14:01"] == 30


def test_an_interrupted_batch_has_the_same_bounds_again(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sell(folder, *FIRST[:2])
    asked, read = outbox(folder), polled.Polled.splits

    def failing(self: polled.Polled, *given: object) -> object:
        raise RuntimeError("a power cut, say")

    monkeypatch.setattr(polled.Polled, "splits", failing)
    with pytest.raises(RuntimeError, match="a power cut"):
        run(asked, once=True, spark=spark)
    sell(folder, FIRST[3])
    monkeypatch.setattr(polled.Polled, "splits", read)
    run(asked, once=True, drain=True, spark=spark)
    received = {
        row["batch"]: row["received"]
        for row in Reader(asked).ledger().to_pylist()
        if row["unit"] == "events" and row["received"]
    }
    assert received == {0: 2, 1: 1}


def test_the_documented_decoder_reads_files(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    lines = b"chai|2026-04-25T14:00:05Z|10\n\n  \ndosa|2026-04-25T14:00:50Z|20\nnothing\n\xff|x\n"
    (folder / "in" / "a.txt").write_bytes(lines)
    source = """
  files: {path: in/*.txt, format: {my_formats:Semicolons: {separator: "[|]"}}}
  schema: {shop: string, at: string, paise: bigint}"""
    asked = pipeline(folder, source)
    run(asked, drain=True, spark=spark)
    assert minutes(asked) == {("chai", "14:00"): 10, ("dosa", "14:00"): 20}
    letters = {row["raw"]: row for row in Reader(asked).dead_letters().to_pylist()}
    assert letters["nothing"]["reason"] == "unreadable"
    assert letters["nothing"]["detail"] == "decoder my_formats:Semicolons does not read it"
    assert letters["\ufffd|x"]["raw_bytes"] == b"\xff|x"


def test_what_it_does_not_read_is_replayed_and_the_run_goes_on(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("chai|2026-04-25T14:00:05Z|10\ndosa/2026-04-25T14:00:50Z/20\n")
    source = """
  files: {path: in/*.txt, format: {my_formats:Semicolons: {separator: "[|]"}}}
  schema: {shop: string, at: string, paise: bigint}"""
    asked = pipeline(folder, source)
    run(asked, once=True, spark=spark)
    fix = {"raw": "replace(raw, '/', '|')", "column:shop": "upper(shop)"}
    assert replay_dead_letters(asked, fix=fix, spark=spark).events == 1
    (folder / "in" / "b.txt").write_text("chai|2026-04-25T14:03:00Z|5\n")
    assert run(asked, once=True, drain=True, spark=spark).batches == 4
    assert minutes(asked) == {("chai", "14:00"): 10, ("DOSA", "14:00"): 20, ("chai", "14:03"): 5}
    assert check_ledger(asked, spark) == []


RECORDS = (
    OUTBOX.replace("class Outbox", "class Raw")
    + '''

class Lines(latecomer.PolledSource):
    """Two records, as bytes."""

    def latest(self, since):
        return 2

    def read(self, spark, since, until):
        rows = [("mem", 0, b"chai;2026-04-25T14:00:05Z;10"), ("mem", 1, b"\\xfe\\xff")]
        return pa.table(list(map(list, zip(*rows))), [self.ORIGIN, self.POSITION, self.RECORD])


class Json(Lines):
    def read(self, spark, since, until):
        rows = [
            ("mem", 0, b'{"shop": "chai", "at": "2026-04-25T14:00:05Z", "paise": 10, "tip": 1.10}'),
            ("mem", 1, b'{"shop": "chai", "at": "2026-04-25T14:00:06Z", "paise": "x"}'),
            ("mem", 2, b" "),
            ("mem", 3, b'{"shop": "caf\\xe9", "at": "2026-04-25T14:00:05Z"}'),
        ]
        return pa.table(list(map(list, zip(*rows))), [self.ORIGIN, self.POSITION, self.RECORD])
'''
)


def test_records_of_a_source_are_decoded(spark: SparkSession, folder: Path) -> None:
    (folder / "my_mistakes.py").write_text(RECORDS, encoding="utf-8")
    schema = "schema: {shop: string, at: string, paise: bigint}"
    asked = pipeline(folder, f"{{my_mistakes:Lines: {{}}, format: my_formats:Semicolons, {schema}}}")
    run(asked, drain=True, spark=spark)
    assert minutes(asked) == {("chai", "14:00"): 10}
    (letter,) = Reader(asked).dead_letters().to_pylist()
    assert (letter["raw_bytes"], letter["position"]) == (b"\xfe\xff", 1)
    (folder / "json").mkdir()
    asked = pipeline(folder, f"{{my_mistakes:Json: {{}}, {schema}, unknown_fields: keep}}").model_copy(
        update={"store": "json/store"}
    )
    run(asked, drain=True, spark=spark)
    assert minutes(asked) == {("chai", "14:00"): 10}
    kept = open_store(asked).events.query("select unknown_fields from t")["unknown_fields"].to_pylist()
    assert kept == ['{"tip": 1.10}']
    letters = {row["position"]: row for row in Reader(asked).dead_letters().to_pylist()}
    assert {nth: row["reason"] for nth, row in letters.items()} == dict.fromkeys((1, 2, 3), "unreadable")
    assert letters[1]["detail"] == 'column paise: "x" is not a bigint'
    assert letters[3]["raw_bytes"] == b'{"shop": "caf\xe9", "at": "2026-04-25T14:00:05Z"}'


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "{my_sources:Nothing: {}}",
            "module my_sources has no class Nothing (value: 'my_sources:Nothing')\n    fix: my_sources has Outbox",
        ),
        ("{my_sources:Outbox: {}}", "source.my_sources:Outbox.target: is missing\n    fix: add it to Outbox"),
        (
            "{my_sources:Outbox: {target: x, mots: 3}}",
            "unknown key (value: 3)\n    fix: the options of Outbox are most, target",
        ),
        ("{my_sources:Outbox: [1]}", "the options of my_sources:Outbox are not keys and values"),
        ("{my_sources:Outbox: {target: x}, files: {path: in}}", "names 2 sources"),
        (
            "{my_sources:Outbox: {target: x}, format: my_formats:Semicolons, unknown_fields: keep}",
            "has unknown_fields, and a decoder of your own says which fields there are\n    fix: leave unknown_fields",
        ),
        ("{schema: {at: string}}", "names no source\n    fix: write files: {path: "),
        ("{my_sources:Outbox: {target: x}, format: csv}", "records of a source of your own cannot be csv"),
        ("{files: {path: in}, format: csv}", "format stands beside files\n    fix: move it into files"),
        ("{own: {target: x}}", "own is no kind of source\n    fix: write the class as the key"),
        ("{my_nothing:Source: {}}", "there is no module my_nothing"),
        ("{my_formats:Semicolons: {}}", "Semicolons is not a source"),
        (
            "{files: {path: in, format: xml}}",
            "is not a format (value: 'xml')\n    fix: write one of json, csv, parquet",
        ),
        ("{files: {path: in, format: my_sources:Outbox}}", "Outbox is not a decoder"),
    ],
)
def test_a_mistake_in_the_file_is_told(folder: Path, source: str, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        pipeline(folder, source)
    assert said in str(caught.value)


MISTAKES = {
    "def latest(self, since): return object()": "latest() failed with TypeError",
    "def latest(self, since): return 1 / 0": "latest() failed with ZeroDivisionError",
    "def read(self, spark, since, until): return 7": "read() failed with TypeError: it returned 7; return a DataFrame",
    "def read(self, spark, since, until): return spark.range(3)": (
        "its rows have no column ORIGIN (id are there); name it by the constant of the class, self.ORIGIN. A row has"
    ),
    "def check(self): raise ValueError('no such table')": "check() failed with ValueError: no such table",
    "def columns(self): return None": "does not say which columns it has; declare source.schema",
    "def columns(self): return {'at': 'strong'}": "columns() failed with",
}


@pytest.mark.parametrize(("method", "said"), MISTAKES.items())
def test_a_mistake_in_the_class_is_told(spark: SparkSession, folder: Path, method: str, said: str) -> None:
    sell(folder, *FIRST)
    module = f"from my_sources import Outbox\n\n\nclass Mistaken(Outbox):\n    {method}\n"
    (folder / "my_mistakes.py").write_text(module, encoding="utf-8")
    with pytest.raises(SourceError, match=r"source my_mistakes:Mistaken") as caught:
        run(
            pipeline(folder, f"{{my_mistakes:Mistaken: {{target: {folder / 'shop.db'}}}}}"),
            once=True,
            spark=spark,
        )
    assert said in str(caught.value)


def test_the_verbs_know_such_a_source(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sell(folder, *FIRST)
    outbox(folder)
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(folder / "pipeline.yaml")])
    printed = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert "my_sources:Outbox" in printed
    assert "shop string, at string, paise bigint (as the source says)" in printed
