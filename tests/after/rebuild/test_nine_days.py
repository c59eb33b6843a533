"""Nine days under a wrong filter, put right in one step: whoever reads meanwhile sees them all old or all new."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from latecomer import Pipeline, Reader, load_pipeline, run
from latecomer.after.rebuild import rebuilding
from latecomer.after.replay.replaying import replay
from latecomer.engine.ledger.check import check_ledger
from latecomer.errors import PipelineError, StoreMismatch
from latecomer.model.durations import to_micros
from latecomer.store.failpoints import failpoint
from spark_kit import require_explained

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
DAYS, BROKEN = 11, range(1, 10)
"""In nine of the days UPI payments came as `unknown`: all of them on even days, half of them on odd ones."""
PIPELINE = """\
name: payments
store: ./store
source:
  files: {path: arrivals, order_by: arrival_time}
  schema:
    {event_time: string, arrival_time: string, id: string, method: string, kind: string, paise: bigint}
event: {time: event_time, id: id}
watermark: {delay: 1m}
ledger: [paise]
outputs:
  daily:
    window: {tumbling: 1d}
    by: [method]
    where: "WHERE"
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 1h
    late: update
    sinks: [{delta: warehouse}, {sqlite: results.db}]
"""
WRONG = "kind = 'sale'"
RIGHT = "(kind = 'sale' or method = 'upi') and method <> 'test'"

Row = dict[str, Any]
Numbers = Mapping[tuple[datetime, str], tuple[int, int]]
"""Day and method → paise and payments."""


def payment(day: int, nth: int, method: str, kind: str = "sale") -> Row:
    at = FIRST + timedelta(days=day, minutes=45 * nth)
    return {
        "event_time": at.isoformat(),
        "arrival_time": (at + timedelta(seconds=2)).isoformat(),
        "id": f"{day}-{nth}",
        "method": method,
        "kind": kind,
        "paise": 100 + 32 * day + nth,
    }


def payments(days: Iterable[int] = range(DAYS)) -> Iterator[Row]:
    for day in days:
        for nth in range(24):
            method = "test" if nth % 12 == 5 else "card" if nth % 3 == 0 else "upi"
            unknown = method == "upi" and day in BROKEN and (day % 2 == 0 or nth % 2 == 0)
            yield payment(day, nth, method, "unknown" if unknown else "sale")


def wrongly(row: Row) -> bool:
    return bool(row["kind"] == "sale")


def rightly(row: Row) -> bool:
    return bool((row["kind"] == "sale" or row["method"] == "upi") and row["method"] != "test")


def counted(rows: Iterable[Row], kept: Callable[[Row], bool]) -> Numbers:
    """What a loop over the payments says."""
    numbers: dict[tuple[datetime, str], tuple[int, int]] = {}
    for row in filter(kept, rows):
        place = datetime.fromisoformat(row["event_time"]).replace(hour=0, minute=0), row["method"]
        paise, many = numbers.get(place, (0, 0))
        numbers[place] = paise + row["paise"], many + 1
    return numbers


FIRST_DAY = counted(payments([0]), wrongly)  # before the range: it stays as it was published
OLD = {**FIRST_DAY, **counted(payments(BROKEN), wrongly)}
NEW = {**FIRST_DAY, **counted(payments(BROKEN), rightly)}


def land(folder: Path, name: str, rows: Iterable[Row]) -> None:
    folder.joinpath("arrivals").mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    folder.joinpath("arrivals", name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def file(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline file, after ten days under the wrong filter and most of an eleventh."""
    folder = tmp_path_factory.mktemp("nine_days")
    land(folder, "0.json", payments())
    pipeline = folder / "payments.yaml"
    pipeline.write_text(PIPELINE.replace("WHERE", WRONG), encoding="utf-8")
    run(load_pipeline(pipeline), once=True, spark=spark)
    return pipeline


@pytest.mark.parametrize(
    ("wrote", "instead", "reason"),
    [
        ("tumbling: 1d", "tumbling: 12h", "changed its window"),
        ("by: [method]", "by: [kind]", "changed its by"),
        ("sum(paise)", "avg(paise)", "changed its aggregates"),
        ("payments: count(*)", "sales: count(*)", "changed its aggregates"),
        ("late: update", "late: update\n    accumulation: discarding", "changed its accumulation"),
    ],
)
def test_what_cannot_change_is_refused(file: Path, wrote: str, instead: str, reason: str) -> None:
    changed = file.with_name("changed.yaml")
    without_sinks, _ = PIPELINE.split("    sinks:")
    changed.write_text(without_sinks.replace("WHERE", RIGHT).replace(wrote, instead), encoding="utf-8")
    with pytest.raises(
        PipelineError, match=f"outputs.daily.*{reason}(?s:.*)give the changed output a new name"
    ):
        rebuilding.plan(load_pipeline(changed), "daily")


@pytest.mark.long
def test_readers_see_nine_days_old_or_nine_days_new(
    spark: SparkSession, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_pipeline(file)
    file.write_text(PIPELINE.replace("WHERE", RIGHT), encoding="utf-8")
    pipeline = load_pipeline(file)
    nine_days = to_micros(FIRST + timedelta(days=1)), to_micros(FIRST + timedelta(days=10))

    plan = rebuilding.plan(pipeline, "daily", *nine_days, spark=spark)

    readers: dict[str, Callable[[], Numbers]] = {
        "store": lambda: in_store(before, pipeline),
        "delta": lambda: in_delta(file),
        "sqlite": lambda: in_sqlite(file),
    }
    assert {kind: plan.record.counts[kind] for kind in ("new", "changed", "withdrawn")} == {
        "new": 4,  # UPI on even days, where nothing of it had been counted
        "changed": 5,  # and on odd ones
        "withdrawn": 9,
    }
    assert plan.record.sums["payments"] == tuple(payments_of(each) for each in (OLD, NEW))
    assert [read() for read in readers.values()] == [OLD] * 3  # planning has published nothing
    with pytest.raises(
        StoreMismatch, match=r"another where than the file.*latecomer rebuild apply FILE daily"
    ):
        in_store(pipeline)

    between = read_at_every_step(monkeypatch, readers)
    with polled(readers) as seen:
        applied = rebuilding.apply(pipeline, "daily", plan_id=plan.id, spark=spark)

    assert applied.batch is not None
    for name, numbers in seen.items():
        require_one_turn(name, numbers)
        require_one_turn(f"{name}, step by step", [OLD, *between[name], NEW])
        assert len(between[name]) >= 6, name
    require_to_go_on(pipeline, spark)
    require_explained(pipeline, "daily")


def payments_of(numbers: Numbers) -> int:
    """Of what changes: UPI and tests of the nine days."""
    return sum(many for (day, method), (_, many) in numbers.items() if day > FIRST and method != "card")


def require_one_turn(name: str, numbers: list[Numbers]) -> None:
    """Old from the beginning, new to the end, and nothing else in between."""
    torn = next((each for each in numbers if each not in (OLD, NEW)), None)
    assert torn is None, (name, torn)
    assert numbers == sorted(numbers, key=lambda each: each == NEW), name
    assert (numbers[0], numbers[-1]) == (OLD, NEW), name


def require_to_go_on(pipeline: Pipeline, spark: SparkSession) -> None:
    """The day that was open is counted by the new filter, all of it; books and replay agree."""
    more = [payment(10, 30, "upi", "unknown"), payment(10, 31, "test"), payment(11, 3, "card")]
    more.append(payment(11, 4, "card"))  # the one before it raises the watermark, this one meets it
    land(pipeline.store_path.parent, "1.json", more)
    run(pipeline, once=True, spark=spark)
    expected = {**NEW, **counted([*payments([10]), *more[:2]], rightly)}
    assert in_store(pipeline) == expected
    assert in_delta(pipeline.store_path) == in_sqlite(pipeline.store_path) == expected
    assert (
        rebuilding.apply(pipeline, "daily", to_micros(FIRST + timedelta(days=1)), spark=spark).batch is None
    )
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


# Reading


@contextmanager
def polled(readers: Mapping[str, Callable[[], Numbers]]) -> Iterator[dict[str, list[Numbers]]]:
    """Threads that read as fast as they can: once at least before the body, and once after it."""
    seen: dict[str, list[Numbers]] = {name: [] for name in readers}
    failed: list[BaseException] = []
    reading, over = threading.Semaphore(0), threading.Event()

    def poll(name: str) -> None:
        try:
            seen[name].append(readers[name]())
            reading.release()
            while not over.is_set():
                seen[name].append(readers[name]())
            seen[name].append(readers[name]())
        except BaseException as error:
            failed.append(error)
            reading.release()

    threads = [threading.Thread(target=poll, args=(name,), name=f"poll-{name}") for name in readers]
    for thread in threads:
        thread.start()
    for _ in threads:
        reading.acquire()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failed, failed


def read_at_every_step(
    monkeypatch: pytest.MonkeyPatch, readers: Mapping[str, Callable[[], Numbers]]
) -> dict[str, list[Numbers]]:
    """Let every failpoint read instead: what stands between any two steps of publishing."""
    seen: dict[str, list[Numbers]] = {name: [] for name in readers}

    def look(step: str, batch: int) -> None:
        for name, read in readers.items():
            seen[name].append(read())

    for name, module in list(sys.modules.items()):
        if name.startswith("latecomer.") and getattr(module, "failpoint", None) is failpoint:
            monkeypatch.setattr(module, "failpoint", look)
    return seen


def in_store(*pipelines: Pipeline) -> Numbers:
    """The days by the pipeline file that the store goes by: it changes while this is asked."""
    for pipeline in pipelines[:-1]:
        try:
            return _numbers(Reader(pipeline).results("daily").to_pylist())
        except StoreMismatch:
            continue
    return _numbers(Reader(pipelines[-1]).results("daily").to_pylist())


def in_delta(beside: Path) -> Numbers:
    return _numbers(DeltaTable(str(beside.with_name("warehouse"))).to_pyarrow_table().to_pylist())


def in_sqlite(beside: Path) -> Numbers:
    with closing(sqlite3.connect(beside.with_name("results.db"), timeout=30)) as database:
        database.row_factory = sqlite3.Row
        rows = [dict(row) for row in database.execute("select * from daily")]
    return _numbers([{**row, "window_start": datetime.fromisoformat(row["window_start"])} for row in rows])


def _numbers(rows: Iterable[Row]) -> Numbers:
    return {(row["window_start"], row["method"]): (row["paise"], row["payments"]) for row in rows}
