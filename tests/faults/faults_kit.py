"""A small pipeline that goes through every commit there is, and everything it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import VARIABLE
from latecomer.store.store import open_store


class Died(BaseException):
    """Stands for the end of the process: nothing that handles ordinary errors may catch it."""


SCRIPT = """
import sys
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
run(load_pipeline(sys.argv[1]), drain=True)
"""
PIPELINE = """\
name: killed
store: ./store
source:
  files: {path: in, order_by: arrival_time, max_files_per_batch: 1}
event: {time: event_time, id: txn, partition: tower}
watermark: {delay: 10s}
ledger: [paise]
outputs:
  totals:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*), spread: stddev(paise), payers: approx_count_distinct(txn),
      often: "top_k(tower, 2)", begins: first(txn), middle: median(paise)}
    allowed_lateness: 90s
    late: update
    sinks: [{sqlite: results.db}, {delta: results}]
  alerts:
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise), some: "collect(merchant, 3)"}
    allowed_lateness: 90s
    late: retract
    sinks: [{jsonl: alerts}, {parquet: changes}]
"""
START = datetime(2026, 11, 8, 14, 0, tzinfo=UTC)

BOUNDARIES = (
    "events.written",
    "dead_letters.committed",
    "duplicates.committed",
    "events.committed",
    "watermarks.committed",
    "totals.panes.written",
    "totals.panes.committed",
    "totals.late.written",
    "totals.late.committed",
    "totals.partials.committed",
    "alerts.panes.committed",
    "alerts.late.committed",
    "alerts.partials.committed",
    "ledger.committed",
    "publications.committed",
    "sink.sqlite.written",
    "sink.delta.written",
    "sink.jsonl.written",
    "sink.parquet.written",
    "sinks.applied",
)
QUIET_BOUNDARIES = (
    "watermarks.committed",
    "totals.panes.committed",
    "totals.partials.committed",
    "ledger.committed",
    "publications.committed",
    "sinks.applied",
)
"""A drain receives nothing: these are the steps it has."""


def in_turn(names: Collection[str] = BOUNDARIES) -> list[str]:
    """These boundaries once each, in an order in which one run after the other can die at the next of them.

    Outputs are published side by side: where one dies, the other may be through with that batch. Sinks live
    their own lives: the one that is to die is taken away before (`take_sink_away`), and filled from the start.
    """
    later = ("alerts.", "ledger.", "sink")
    ordered = [name for name in BOUNDARIES if name in names]
    places = [f"{name}@1" for name in ordered if not name.startswith(later)]
    places += [f"{name}@2" for name in ordered if name.startswith(later) and name != "sinks.applied"]
    return [*places, "sinks.applied@3"]


SINKS = {"sqlite": "results.db", "delta": "results", "jsonl": "alerts", "parquet": "changes"}


def take_sink_away(file: Path, boundary: str) -> None:
    """Before a run that dies at a boundary of a sink: it has to come to every batch again, and to that one."""
    part, _, kind = boundary.partition("@")[0].removesuffix(".written").partition(".")
    if part == "sink":
        place = file.parent / SINKS[kind]
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()


def write_pipeline(folder: Path, sinks_for_rows: bool = False) -> Path:
    """Three files of payments: prompt, late, too late, sent twice, and unreadable; side output and dead letters may
    have sinks, too."""
    (folder / "in").mkdir(parents=True)
    for number in range(3):
        file = folder / "in" / f"{number}.json"
        with open(file, "w", encoding="utf-8") as lines:
            for step in range(30):
                second = number * 60 + step * 2
                behind = (0, 1, 3, 70, 0, 240, 2)[step % 7]
                nth = number * 30 + step - (1 if step % 11 == 10 else 0)
                if step % 13 == 12:
                    lines.write("{not json\n")
                    continue
                lines.write(json.dumps(_payment(nth, second, behind if step % 11 != 10 else 0)) + "\n")
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    path = folder / "pipeline.yaml"
    path.write_text(_with_sinks_for_rows() if sinks_for_rows else PIPELINE, encoding="utf-8")
    return path


SINKS_FOR_ROWS = ("letters.sqlite", "late.jsonl", "late.delta")
"""What `left_behind` has of them."""


def _with_sinks_for_rows() -> str:
    text = PIPELINE + "    late_to: [{delta: late_alerts}]\ndead_letters_to: [{sqlite: results.db}]\n"
    return text.replace("  alerts:\n", "    late_to: [{jsonl: late_totals}]\n  alerts:\n")


def _payment(nth: int, second: int, behind: int) -> dict[str, Any]:
    arrived = START + timedelta(seconds=second)
    return {
        "txn": f"t{nth}",
        "tower": f"tower{nth % 2}",
        "merchant": ("amul", "bata", None)[nth % 3],
        "paise": 100 + nth * 7,
        "event_time": (arrived - timedelta(seconds=behind)).isoformat(),
        "arrival_time": arrived.isoformat(),
    }


def tables_of(pipeline: Pipeline) -> dict[str, Table]:
    """Every table of the store."""
    store = open_store(pipeline)
    tables = {
        name: getattr(store, name)
        for name in ("events", "duplicates", "dead_letters", "watermarks", "ledger", "publications")
    }
    for output in pipeline.outputs:
        kept = store.output_tables(output, None)
        tables |= {f"{output}.{name}": getattr(kept, name) for name in ("partials", "panes", "late")}
    return tables


def left_behind(path: Path) -> dict[str, list[str]]:
    """Every row of every table and sink, in an order of its own; only file names and the wall clock may differ."""
    found, times = left_without_sqlite(path), publication_times(load_pipeline(path))
    with closing(sqlite3.connect(path.parent / "results.db")) as database:
        selected = database.execute("select * from totals")
        names = [column[0] for column in selected.description]
        rows = [dict(zip(names, row, strict=True)) for row in selected]
        found["sqlite"] = sorted(map(repr, without_clock(rows, times)))
        if (path.parent / "late_totals").exists():
            letters = database.execute("select * from dead_letters order by batch, position").fetchall()
            found["letters.sqlite"] = [repr(row).replace(str(path.parent), "") for row in letters]
    return found


def left_without_sqlite(path: Path, film: Mapping[int, datetime] | None = None) -> dict[str, list[str]]:
    """Likewise, of a pipeline that has no SQLite sink.

    In a copy of a folder in use a sink may be ahead of the store: what it has of a batch is then from the run that
    was copied, and so is its wall clock, which `film` has.
    """
    pipeline, folder = load_pipeline(path), path.parent
    found = {name: table_rows(table, pipeline) for name, table in tables_of(pipeline).items()}
    times = publication_times(pipeline)
    delta = Table(folder / "results", None)
    rows = delta.query("select * from t").to_pylist() if delta.exists else []
    found["delta"] = sorted(map(repr, without_clock(rows, times, film)))
    found["jsonl"] = list(map(repr, without_clock(map(json.loads, _lines(folder / "alerts")), times, film)))
    if (folder / "late_totals").exists():
        found["late.jsonl"] = [
            line.replace(str(pipeline.base), "") for line in _lines(folder / "late_totals")
        ]
        found["late.delta"] = table_rows(Table(folder / "late_alerts", None), pipeline)
    found["parquet"] = sorted(file.name for file in (folder / "changes").glob("*.parquet"))
    return found


def _lines(folder: Path) -> list[str]:
    return [
        line
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def table_rows(table: Table, pipeline: Pipeline) -> list[str]:
    if not table.exists:
        return []
    here, rows = str(pipeline.base), table.query("select * from t").to_pylist()
    if table.root.name == "publications":
        rows = [{"batch": row["batch"], "output": row["output"]} for row in rows]
    return sorted(repr(row).replace(here, "") for row in rows)


def publication_times(pipeline: Pipeline) -> dict[int, datetime]:
    """When each batch was published: one time each, and none before the batch before it."""
    table = open_store(pipeline).publications
    found = (
        table.query("select * from t where output is null order by batch").to_pylist() if table.exists else []
    )
    times = {row["batch"]: row["published_at"] for row in found}
    assert len(times) == len(found)
    assert list(times.values()) == sorted(times.values())
    return times


def without_clock(
    rows: Iterable[dict[str, Any]],
    times: Mapping[int, datetime],
    film: Mapping[int, datetime] | None = None,
) -> list[dict[str, Any]]:
    """A sink's rows but for the wall clock, which is that of the batch and nothing else."""
    kept = []
    for row in rows:
        said, batch = row.pop("published_at"), row["batch"]
        at = datetime.fromisoformat(said) if isinstance(said, str) else said
        assert at in (times[batch], (film or times)[batch])
        kept.append(row)
    return kept


def run_and_die(file: Path, failpoint: str, environment: Mapping[str, str]) -> int:
    """A process that runs the pipeline to its end, or to a failpoint: what it returned."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)],
        env={**os.environ, **environment, VARIABLE: failpoint},
        capture_output=True,
        timeout=600,
        check=False,
    ).returncode
