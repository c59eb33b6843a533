"""What tasks of Spark's make of lines is what this process makes of them: plain ones, bad ones, and both mixed."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.log.envelope import Given
from latecomer.log.log_task import LogPlan, LogTask, WrittenSplits, lane_folders, write_split
from latecomer.log.private_columns import LogLane
from latecomer.source.choose import source_of
from latecomer.source.decode.base import FileSplit, SourceFile
from latecomer.source.file_source import FileSource
from latecomer.source.found_files import UnreadableFiles
from latecomer.spark.base import InProcess, Runner, Shared
from latecomer.spark.runner import SparkRunner
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from source.source_kit import landed, pipeline_in

SCHEMA = {"at": "string", "txn": "string", "paise": "bigint", "fare": "decimal(9,2)", "day": "date"}
GIVEN = Given(batch=3, watermark=1_794_146_700_000_000, newest=1_794_147_000_000_000)
BAD = {
    "json": [
        b"{",
        b'{"at": "soon", "txn": "b1"}',
        b'{"at": "2026-11-08T14:00:00Z", "paise": "x"}',
        b'{"at": "2026-11-08T14:00:00Z", "txn": "\xff"}',
        b'{"txn": "no time"}',
        b'{"at": "2026-11-08T14:00:01Z"} {"at": 1}',
        b'{"at": "9026-11-08T14:00:00Z", "txn": "far"}',
        b" ",
    ],
    "csv": [
        b"soon,b1,1,1,2026-11-08",
        b"2026-11-08T14:00:00Z,a,x,1,",
        b"2026-11-08T14:00:00Z,\xff,1,1,",
        b"2026-11-08T14:00:00Z",
        b",no time,1,1,",
        b'2026-11-08T14:00:00Z,"never closed',
        b"9026-11-08T14:00:00Z,far,1,1,",
    ],
}


def plain(form: str, nth: int) -> bytes:
    row = {"at": f"2026-11-08T14:{nth // 60 % 60:02}:{nth % 60:02}Z", "txn": f"t{nth}", "paise": nth}
    row |= {"fare": f"{nth}.5", "day": "2026-11-08"}
    return (
        json.dumps({**row, "more": [nth]}).encode()
        if form == "json"
        else ",".join(map(str, row.values())).encode()
    )


def files_in(folder: Path, form: str) -> list[SourceFile]:
    """A file of plain lines, one of bad lines, and one of both."""
    many = [plain(form, nth) for nth in range(5_000)]
    texts = {
        "plain": many[:3_000],
        "bad": BAD[form] * 20,
        "mixed": random.Random(5).sample([*many[3_000:], *BAD[form] * 20], 2_000),
    }
    header = [",".join(SCHEMA).encode()] if form == "csv" else []
    found = []
    for nth, (name, lines) in enumerate(texts.items()):
        file = folder / "in" / f"{name}.{form}"
        file.write_bytes(b"\n".join([*header, *lines]) + b"\n")
        landed(file, nth)
        found.append(SourceFile(file.as_uri(), 1_794_146_400_000_000 + nth, file.stat().st_size))
    return found


def plan_of(folder: Path, form: str) -> tuple[FileSource, Shared[LogPlan]]:
    pipeline = pipeline_in(
        folder, files={"format": form}, schema=SCHEMA, event={"id": "txn"}, ledger=["paise"]
    )
    store = Store(pipeline, source_columns(pipeline))
    source = source_of(pipeline, store.columns.read_from(""))
    assert isinstance(source, FileSource)
    plan = LogPlan(source.portable(), store.reading(""), pipeline.watermark.needs, store.measures())
    return source, Shared(plan)


def logged(
    runner: Runner, folder: Path, plan: Shared[LogPlan], splits: Sequence[FileSplit]
) -> tuple[WrittenSplits, dict[LogLane, pa.Table]]:
    """What the lanes hold, in the order of positions, and what the driver is told."""
    folders = lane_folders(folder / "events", folder / "duplicates", folder / "letters")
    tasks = [LogTask(nth, [split], GIVEN, folders) for nth, split in enumerate(splits)]
    found = runner.run("log", partial(write_split, plan), tasks).tasks
    lanes = {
        lane: pa.concat_tables(
            [pq.read_table(file, partitioning=None) for each in found for file in each.files.get(lane, ())],
            promote_options="default",
        ).sort_by([("origin", "ascending"), ("position", "ascending")])
        for lane in LogLane
        if any(each.files.get(lane) for each in found)
    }
    return WrittenSplits.joined(found, plan.value.measures), lanes


@pytest.mark.parametrize("form", ["json", "csv"])
def test_lines_are_logged_alike(spark: SparkSession, tmp_path: Path, form: str) -> None:
    source, plan = plan_of(tmp_path, form)
    splits = [part for file in files_in(tmp_path, form) for part in source.decoder.splits(file, 40_000)]
    assert len(splits) > 5
    here, lanes_here = logged(InProcess(spark), tmp_path / "here", plan, splits)
    there, lanes_there = logged(SparkRunner(spark), tmp_path / "there", plan, splits)
    assert lanes_here.keys() == {LogLane.EVENTS, LogLane.BEHIND, LogLane.DEAD_LETTERS}
    for lane, rows in lanes_here.items():
        assert rows.equals(lanes_there[lane]), lane
    (our_ticks,), (their_ticks,) = here.ticks.values(), there.ticks.values()
    assert our_ticks is not None
    assert their_ticks is not None
    assert sorted(map(str, our_ticks.to_pylist())) == sorted(map(str, their_ticks.to_pylist()))
    assert replace(here, ticks={}, files={}) == replace(there, ticks={}, files={})
    reasons = set(lanes_here[LogLane.DEAD_LETTERS]["reason"].to_pylist())
    assert reasons == {"unreadable", "unreadable_event_time", "no_event_time", "too_far_ahead"}


def test_two_attempts_at_a_task_write_files_of_their_own(tmp_path: Path) -> None:
    """Whichever of them is committed: the other has neither taken its place nor written into its files."""
    source, plan = plan_of(tmp_path, "json")
    parts = [part for file in files_in(tmp_path, "json") for part in source.decoder.splits(file, 1 << 20)]
    folders = lane_folders(*(tmp_path / name for name in ("events", "duplicates", "letters")))
    first, second = (write_split(plan, LogTask(0, parts, GIVEN, folders)) for _ in range(2))
    assert first.files.keys() == second.files.keys() >= {LogLane.EVENTS, LogLane.DEAD_LETTERS}
    for lane, files in first.files.items():
        assert not {*files} & {*second.files[lane]}
        one, other = (pq.read_table(each[0], partitioning=None) for each in (files, second.files[lane]))
        assert one.equals(other)


def test_what_a_task_says_of_files_is_what_this_process_says(spark: SparkSession, tmp_path: Path) -> None:
    """All that it has found to be damaged, with the reasons."""
    source, plan = plan_of(tmp_path, "parquet")
    whole = io.BytesIO()
    pq.write_table(pa.table({"at": ["2026-11-08T14:00:00Z"], "txn": ["t"]}), whole)
    files = []
    for name, content in {
        "a": b"no file of Parquet",
        "b": whole.getvalue(),
        "c": whole.getvalue()[:-9],
    }.items():
        file = tmp_path / "in" / f"{name}.parquet"
        file.write_bytes(content)
        files.append(SourceFile(file.as_uri(), 0, len(content)))
    parts = [part for file in files for part in source.decoder.splits(file, 1 << 20)]
    folders = lane_folders(*(tmp_path / name for name in ("events", "duplicates", "letters")))
    in_one = [LogTask(0, parts, GIVEN, folders)]
    each_its_own = [LogTask(nth, [part], GIVEN, folders) for nth, part in enumerate(parts)]
    outcome = []
    for runner, tasks in (
        (InProcess(spark), in_one),
        (SparkRunner(spark), in_one),
        (SparkRunner(spark), each_its_own),
    ):
        with pytest.raises(UnreadableFiles) as raised:
            runner.run("log", partial(write_split, plan), tasks)
        outcome.append(raised.value.reasons)
    assert outcome[0] == outcome[1] == outcome[2]
    assert [path[-9:] for path in outcome[0]] == ["a.parquet", "c.parquet"]


def test_what_the_driver_is_told_is_packed_on_its_way() -> None:
    """With many partitions there are as many ticks as events."""
    ticks = pa.table(
        {"tick": list(range(100_000)), "partition": [f"tower-{nth % 997}" for nth in range(100_000)]}
    )
    written = WrittenSplits(100_000, ticks={"": ticks})
    sent = pickle.dumps(written)
    assert len(sent) < ticks.nbytes / 4
    assert pickle.loads(sent).ticks[""].equals(ticks)
    assert pickle.loads(pickle.dumps(WrittenSplits(3))) == WrittenSplits(3)
