"""docs/migrating-from-withwatermark.md: both jobs run on the events of the page, and come to what its tables have."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cli.cli_kit import calling
from documents.tutorial_kit import commands, matches
from latecomer import Reader, load_pipeline, run
from latecomer.engine.ledger.report import BatchReport
from latecomer.model.durations import iso
from latecomer.model.verdicts import BEGIN_OF_TIME

PAGE = (Path(__file__).parents[2] / "docs" / "migrating-from-withwatermark.md").read_text(encoding="utf-8")
DAY = "2026-04-25T"
ENGINES = ("Spark", "latecomer")
Row = dict[str, str]


@pytest.mark.long
def test_both_jobs_do_what_the_page_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events, files = events_by_file()
    queries = list(started(spark, tmp_path, block("python")))
    for rows in files:
        put(rows, tmp_path)
        for query in queries:
            query.processAllAvailable()
    progress = [by_file(query) for query in queries]
    for query in queries:
        query.stop()

    pipeline_file = tmp_path / "shops.yaml"
    one_by_one = "path: arrivals, max_files_per_batch: 1"
    pipeline_file.write_text(block("yaml").replace("path: arrivals", one_by_one), encoding="utf-8")
    pipeline = load_pipeline(pipeline_file)
    reports: list[BatchReport] = []
    run(pipeline, drain=True, spark=spark, watch=reports.append)

    for each in progress:
        assert [fates["dropped"] for fates in each] == counts(files, "Spark", "dropped")
        assert [fates["duplicate"] for fates in each] == counts(files, "Spark", "duplicate")
    assert sum(counts(files, "Spark", "dropped")) == int(
        found(r"numRowsDroppedByWatermark`, (\d+) in the end")
    )
    for output in pipeline.outputs:
        for fate in {event[output] for event in events}:
            read = [fates_of(report, output)[fate] for report in reports[: len(files)]]
            assert read == counts(files, output, fate), f"{output}, {fate}"
    assert table("minute", "shop") == side_by_side(
        spark, tmp_path, Reader(pipeline), "minute_totals", "minute"
    )
    assert table("visit", "shop") == side_by_side(spark, tmp_path, Reader(pipeline), "visits", "visit")
    watermarks = table("file", "arrives")
    assert [row["latecomer"] for row in watermarks] == [moment(report.watermark) for report in reports[:-1]]
    for each in progress:
        assert [row["Spark"] for row in watermarks] == [fates["judged by"] for fates in each]

    monkeypatch.chdir(tmp_path)
    call = calling(capsys)
    printed = commands(PAGE)
    assert {command.text.split()[1] for command in printed} == {"late", "dead-letters", "ledger"}
    for command in printed:
        said = call(*shlex.split(command.text)[1:])
        assert said.status == 0, f"{command.text}: {said.err}"
        assert matches(command.expected, said.out), f"{command.text} prints\n{said.out}"


def test_the_job_may_hand_its_stream_in(spark: SparkSession, tmp_path: Path) -> None:
    events, files = events_by_file()
    file = tmp_path / "shops.yaml"
    source = block("yaml", 1).splitlines()[1]
    file.write_text(re.sub(r"^  files: .*$", source, block("yaml"), flags=re.MULTILINE), encoding="utf-8")
    [query] = started(spark, tmp_path, block("python", 1).replace('"shops.yaml"', f'"{file}"'))
    for rows in files:
        put(rows, tmp_path)
        query.processAllAvailable()
    query.stop()
    ledger = [row for row in Reader(load_pipeline(file)).ledger().to_pylist() if row["unit"] == "events"]
    for output in ("minute_totals", "visits"):
        for fate in {event[output] for event in events}:
            read = [int(row[fate]) for row in ledger if row["output"] == output and row["received"]]
            assert read == counts(files, output, fate), f"{output}, {fate}"


# The page


def events_by_file() -> tuple[list[Row], list[list[Row]]]:
    """The events of the page, and those of each file, with the moment at which it arrives."""
    arrives = {row["file"]: row["arrives"] for row in table("file", "arrives")}
    events = [{**row, "seen": arrives[row["file"]]} for row in table("file", "payment")]
    return events, [list(rows) for _, rows in groupby(events, lambda event: event["file"])]


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]


def found(pattern: str) -> str:
    match = re.search(pattern, PAGE, re.MULTILINE | re.DOTALL)
    assert match, pattern
    return match[1]


def table(*first: str) -> list[Row]:
    """The rows of the table whose head begins with these columns."""
    lines = found(rf"^(\| {re.escape(' | '.join(first))} \|.*?)(?:\n\n|\Z)").splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def counts(files: list[list[Row]], column: str, word: str) -> list[int]:
    """How many rows of each file have this word in this column."""
    return [sum(row[column] == word for row in rows) for rows in files]


# The job of Spark


def started(spark: SparkSession, folder: Path, job: str) -> Iterator[StreamingQuery]:
    """The queries of a job on the page, with its paths in this folder."""
    (folder / "arrivals").mkdir()
    written = re.sub(r'"(arrivals|checkpoints|tables)\b', rf'"{folder}/\1', job)
    names: dict[str, Any] = {"spark": spark}
    before = {query.id for query in spark.streams.active}
    exec(compile(written, "<the page>", "exec"), names)
    yield from (query for query in spark.streams.active if query.id not in before)


def put(rows: list[Row], folder: Path) -> None:
    """A file of the page, all at once."""
    new = folder / "new.json"
    new.write_text("".join(json.dumps(as_event(row)) + "\n" for row in rows), encoding="utf-8")
    new.rename(folder / "arrivals" / f"{rows[0]['file']}.json")


def as_event(row: Row) -> dict[str, Any]:
    at = row["at"] if "T" in row["at"] else DAY + row["at"]
    seen = f"{DAY}{row['seen']}Z"
    return {
        "txn": row["payment"],
        "at": f"{at}Z",
        "seen": seen,
        "shop": row["shop"],
        "paise": int(row["paise"]),
    }


def by_file(query: StreamingQuery) -> list[dict[str, Any]]:
    """For each batch with data: what was dropped of it, and the watermark that judged it."""
    found = []
    for progress in query.recentProgress:
        if progress.numInputRows:
            operators = progress.stateOperators
            dropped = sum(each.numRowsDroppedByWatermark for each in operators)
            repeated = sum(each.customMetrics.get("numDroppedDuplicateRows", 0) for each in operators)
            judged_by = progress.eventTime["watermark"].replace(".000Z", "Z")
            shown = "none" if judged_by.startswith("1970") else without_day(judged_by)
            found.append({"dropped": dropped, "duplicate": repeated, "judged by": shown})
    return found


# The pipeline


def fates_of(report: BatchReport, output: str) -> Mapping[str, int]:
    [entry] = [each for each in report.entries if (each.output, each.unit) == (output, "events")]
    return Counter({fate.value: int(number) for fate, number in entry.fates.items()})


def moment(micros: int) -> str:
    return "none" if micros == BEGIN_OF_TIME else without_day(str(iso(micros)))


def without_day(written: str) -> str:
    return written.removeprefix(DAY).removesuffix("Z")


# Both


def side_by_side(spark: SparkSession, folder: Path, reader: Reader, output: str, title: str) -> list[Row]:
    """What each has published for each window and shop, number after number."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for window, shop, paise in appended(spark, folder / "tables" / output):
        rows.setdefault((window, shop), {}).setdefault("Spark", []).append(str(paise))
    for pane in reader.panes(output).to_pylist():
        window = "..".join(f"{pane[end]:%H:%M:%S}" for end in ("window_start", "window_end"))
        rows.setdefault((window, pane["shop"]), {}).setdefault("latecomer", []).append(str(pane["paise"]))
    return [
        {title: window, "shop": shop, **{name: ", then ".join(by.get(name, ["none"])) for name in ENGINES}}
        for (window, shop), by in sorted(rows.items())
    ]


def appended(spark: SparkSession, table: Path) -> Iterator[tuple[str, str, int]]:
    """The window, the shop and the sum of each row that Spark has written."""
    read = spark.read.parquet(str(table))
    ends = (f"date_format({read.columns[0]}.{end}, 'HH:mm:ss') {end}_at" for end in ("start", "end"))
    for row in read.selectExpr(*ends, "shop", "paise").collect():
        yield f"{row.start_at}..{row.end_at}", row.shop, row.paise
