"""Published changes as a stream: each once, whatever happens to the query or to the store meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import latecomer
from after.dataframes.dataframes_kit import make_lake, publish, read_by, retracted, same_rows
from cli.cli_kit import Lake, pane
from latecomer import PipelineError
from latecomer.after.dataframes.stream import ChangeReader, LatecomerSource
from latecomer.after.dataframes.tables import Table
from latecomer.errors import NotCovered, StoreMismatch
from latecomer.store.delta.table import Table as StoredTable

Step = tuple[dict[str, Any], dict[str, Any]]


class Query:
    """A query as Spark drives one, with a checkpoint that outlives it."""

    def __init__(self, lake: Lake, **options: str) -> None:
        self.options = {"pipeline": str(lake.file), "output": "minutes", "table": "panes", **options}
        self.planned: list[Step] = []
        """The batches of Spark's that are written down."""
        self.done = 0
        """So many of them are done."""
        self.had: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        """Spark says first how far the query is, then does again what was written down and not done."""
        source = LatecomerSource(self.options)
        self.reader = ChangeReader(self.options, source.schema())
        if self.planned:
            end = self.planned[-1][1]
            assert self.reader.partitions(end, end) == []

    def step(self, die: bool = False) -> list[dict[str, Any]]:
        """A trigger: what is new. One that dies has it planned and read, and not done."""
        if self.done == len(self.planned):
            end = self.reader.latestOffset()
            start = self.planned[-1][1] if self.planned else self.reader.initialOffset()
            if self.planned and start == end:
                return []
            self.planned.append((start, end))
        start, end = self.planned[-1]
        rows = [row for part in self.reader.partitions(start, end) for row in self._rows(part)]
        if not die:
            self.done += 1
            self.had += rows
        return sorted(rows, key=lambda row: (row["batch"], row.get("op") == "insert", str(row)))

    def _rows(self, part: Any) -> list[dict[str, Any]]:
        return pa.Table.from_batches(list(part.batches())).to_pylist()


def batches(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({row["batch"] for row in rows})


def test_every_change_comes_once(lake: Lake) -> None:
    query = Query(lake)
    assert batches(query.step()) == [1, 2]
    assert query.step() == []
    publish(lake, 3, *retracted(0, "a", 1, 9, 12))
    assert [(row["op"], row["sequence"], row["paise"]) for row in query.step()] == [
        ("retract", 1, 9),
        ("insert", 2, 12),
    ]
    same_rows(pa.Table.from_pylist(query.had, read_by(lake, Table.PANES).schema), read_by(lake, Table.PANES))


def test_a_query_that_died_has_the_same_rows_again(lake: Lake) -> None:
    query = Query(lake)
    lost = query.step(die=True)
    publish(lake, 3, pane(5, 0, merchant="c", paise=1))
    query.restart()
    assert query.step() == lost
    assert batches(query.step()) == [3]
    query.restart()
    assert query.step() == []


def test_a_batch_that_is_not_complete_is_not_seen(lake: Lake) -> None:
    query = Query(lake)
    query.step()
    lake.panes("minutes", 3, [pane(5, 0, merchant="c", paise=1)])  # its ledger is still to come
    assert query.step() == []
    lake.published(3, 0)
    assert batches(query.step()) == [3]


def test_a_trigger_may_have_a_limit(lake: Lake) -> None:
    for batch in range(3, 7):
        publish(lake, batch, pane(batch, 0, merchant="c", paise=1))
    query = Query(lake, maxBatchesPerTrigger="2")
    assert [batches(query.step()) for _ in range(2)] == [[1], [2, 3]]
    query.restart()  # and goes by how far the query was
    assert [batches(query.step()) for _ in range(3)] == [[4, 5], [6], []]


@pytest.mark.parametrize(("starting", "first"), [("2", [2]), ("3", []), ("latest", []), ("0", [1, 2])])
def test_where_a_query_begins(lake: Lake, starting: str, first: list[int]) -> None:
    query = Query(lake, startingBatch=starting)
    assert batches(query.step()) == first
    publish(lake, 3, pane(7, 0, merchant="c", paise=1))
    assert batches(query.step()) == [3]


def test_a_query_cannot_begin_further_than_the_store_is(lake: Lake) -> None:
    with pytest.raises(PipelineError, match=r"startingBatch: the store has 3 batches \(value: '9'\)"):
        Query(lake, startingBatch="9").step()


def test_files_that_are_merged_meanwhile_still_tell_their_batches(lake: Lake) -> None:
    """As `compact` does it: a batch that was planned before is read after, and the next ones are found."""
    publish(lake, 3, pane(7, 0, merchant="c", paise=1))
    query = Query(lake, maxBatchesPerTrigger="2")
    before = query.step(die=True)
    panes = lake.tables("minutes").panes
    files = panes.files()
    folder = panes.merged_folder(1, 3, "merged")
    from latecomer.store.files import write_table

    rows = panes.dataset(files).to_table()
    panes.rearrange([write_table(rows, folder / "part.parquet")], files)
    for file in files:
        Path(panes.location(file)).unlink()  # as after a sweep
    query.restart()
    assert query.step() == before
    assert batches(query.step()) == [2, 3]
    same_rows(pa.Table.from_pylist(query.had, read_by(lake, Table.PANES).schema), read_by(lake, Table.PANES))


def test_another_store_in_the_same_place_is_refused(lake: Lake) -> None:
    query = Query(lake)
    query.step()
    shutil.rmtree(lake.pipeline.store_path)
    again = make_lake(lake.file.parent)
    for batch in range(4):
        publish(again, batch, pane(batch, 0, merchant="a", paise=1))
    with pytest.raises(StoreMismatch, match="is not the one that this query has read so far; start the"):
        query.step()


def test_a_store_put_back_to_an_earlier_state_is_refused(lake: Lake, tmp_path: Path) -> None:
    shutil.copytree(lake.pipeline.store_path, tmp_path / "backup")
    publish(lake, 3, pane(7, 0, merchant="c", paise=1))
    query = Query(lake)
    query.step()
    shutil.rmtree(lake.pipeline.store_path)
    shutil.copytree(tmp_path / "backup", lake.pipeline.store_path)
    assert query.step() == []  # nothing is new
    with pytest.raises(StoreMismatch, match="has 3 batches, and this query has read batch 3"):
        query.restart()


def test_the_side_output_is_a_stream_until_retention_takes_it(lake: Lake) -> None:
    query = Query(lake, table="late", startingBatch="1")
    assert [row["paise"] for row in Query(lake, table="late").step()] == [7]
    assert query.step() == []
    from latecomer.store.coverage import LATE, kind_of_removal, removals

    table: StoredTable = removals(lake.store)
    table.append(4, table.schema.empty_table(), kind_of_removal(LATE, "minutes"))
    publish(lake, 3, pane(7, 0, merchant="c", paise=1))
    with pytest.raises(NotCovered, match="retention has removed the side output up to batch 4"):
        query.step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "results"}, "option table: a stream has what every batch adds (value: 'results')"),
        (
            {"as_of": "2026-04-25"},
            "option table: a stream has what every batch adds (value: 'as of a moment')",
        ),
        ({"startingBatch": "first"}, "option startingBatch: is not a number (value: 'first')"),
        ({"startingBatch": "-1"}, "option startingBatch: is too small (value: '-1')"),
        ({"maxBatchesPerTrigger": "0"}, "option maxBatchesPerTrigger: is too small (value: '0')"),
    ],
)
def test_wrong_options_of_a_stream(lake: Lake, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(PipelineError) as outcome:
        Query(lake, **options)
    assert message in str(outcome.value).splitlines()[0]


def test_a_downstream_query_follows_a_correction(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Through Spark: a query that adds up what it is told, stopped and started again, while a number is corrected."""
    totals: dict[str | None, int] = {}

    def apply(rows: DataFrame, _batch: int) -> None:
        for row in rows.select("merchant", "op", "paise").collect():
            sign = 1 if row.op == "insert" else -1
            totals[row.merchant] = totals.get(row.merchant, 0) + sign * int(row.paise)

    def follow() -> None:
        changes = latecomer.changes(spark, lake.file, "minutes")
        assert changes.isStreaming
        writing = changes.writeStream.foreachBatch(apply).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writing.trigger(availableNow=True).start().awaitTermination()

    follow()
    assert totals == {"a": 14, "b": 6, None: 3}
    publish(lake, 3, *retracted(0, "a", 1, 9, 12))
    follow()
    assert totals == {"a": 17, "b": 6, None: 3}
    follow()
    assert totals == {"a": 17, "b": 6, None: 3}


def test_a_stream_without_a_table_is_told_which(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    latecomer.register(spark)
    stream = spark.readStream.format("latecomer").options(pipeline=str(lake.file), output="minutes").load()
    writing = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=r"option\(.table., .panes.\) for published changes"):
        query.awaitTermination()
