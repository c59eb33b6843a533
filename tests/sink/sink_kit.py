"""Panes as the tests write them, and ways to look into a sink."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable

from latecomer.config.sinks import SINKS
from latecomer.model.durations import to_moment
from latecomer.model.panes import Op, Pane, Timing
from latecomer.sink import PaneShape, SinkLogic, open_sink
from postgres_kit import ask_at

MOMENT = pa.timestamp("us", "UTC")
START = 1_777_125_600_000_000  # 2026-04-25T14:00:00Z
MINUTE = 60_000_000
FIRED = START + 10 * MINUTE
TARGET = "LATECOMER_TEST_TARGET"
"""Where the tests' Postgres is."""
OPENED: list[SinkLogic] = []


def shape_of(
    keys: dict[str, pa.DataType], values: dict[str, pa.DataType], output: str = "minute_totals"
) -> PaneShape:
    columns = {"window_start": MOMENT, "window_end": MOMENT, **keys, **values}
    columns |= {"sequence": pa.int32(), "timing": pa.string(), "op": pa.string()}
    columns |= {"batch": pa.int64(), "fired_at": MOMENT}
    return PaneShape(output, tuple(keys), tuple(values), pa.schema(list(columns.items())))


SHAPE = shape_of({"merchant": pa.string()}, {"paise": pa.decimal128(28, 0), "payments": pa.int64()})
BY_TWO = shape_of({"merchant": pa.string(), "till": pa.int64()}, {"paise": pa.int64()})


def pane(op: Op, window: int, key: Any, sequence: int, *values: Any, shape: PaneShape = SHAPE) -> Pane:
    start = START + window * MINUTE
    of_key = key if isinstance(key, tuple) else (key,)
    timing = Timing.LATE if sequence else Timing.ON_TIME
    given = values or (Decimal(sequence * 100), sequence)[: len(shape.values)]
    return Pane(
        start, start + MINUTE, of_key, dict(zip(shape.values, given, strict=True)), sequence, timing, op
    )


def insert(window: int, key: Any, sequence: int, *values: Any, shape: PaneShape = SHAPE) -> Pane:
    return pane(Op.INSERT, window, key, sequence, *values, shape=shape)


def retract(window: int, key: Any, sequence: int, *values: Any, shape: PaneShape = SHAPE) -> Pane:
    return pane(Op.RETRACT, window, key, sequence, *values, shape=shape)


def table_of(batch: int, panes: Sequence[Pane], shape: PaneShape = SHAPE) -> pa.Table:
    rows = [
        {
            "window_start": to_moment(one.window_start),
            "window_end": to_moment(one.window_end),
            **dict(zip(shape.keys, one.key, strict=True)),
            **one.values,
            "sequence": one.sequence,
            "timing": str(one.timing),
            "op": str(one.op),
            "batch": batch,
            "fired_at": to_moment(FIRED),
        }
        for one in panes
    ]
    return pa.Table.from_pylist(rows, shape.schema)


def opened(
    kind: str, path: Path, shape: PaneShape = SHAPE, pipeline: str = "upi", **settings: Any
) -> SinkLogic:
    if kind == "postgres":
        settings = {"target": os.environ.get(TARGET), "schema": schema_at(path), **settings}
    elif kind == "iceberg":
        path.mkdir(exist_ok=True)
        settings = {**catalog_at(path), "table": f"shop.{shape.name}", **settings}
    else:
        settings = {"path": str(path), **settings}
    sink = open_sink(SINKS[kind](**settings), path, pipeline, shape)
    OPENED.append(sink)
    return sink


def catalog_at(path: Path) -> dict[str, Any]:
    """A catalog of Iceberg tables in a folder."""
    properties = {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": str(path)}
    return {"catalog": "lake", "properties": properties}


def let_go() -> None:
    """Close whatever was opened here."""
    while OPENED:
        OPENED.pop().close()


def schema_at(path: Path) -> str:
    """The schema that stands for a path: in a server there are none."""
    return f"at {hashlib.sha256(str(path).encode()).hexdigest()[:20]}"


def apply(sink: SinkLogic, batch: int, *panes: Pane) -> None:
    sink.apply(batch, table_of(batch, panes, sink.shape))


def rows_of_delta(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return rows


def rows_of_sqlite(path: Path, table: str = "minute_totals") -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f'SELECT * FROM "{table}"')]


def rows_of_duckdb(path: Path, table: str = "minute_totals") -> list[dict[str, Any]]:
    with closing(duckdb.connect(path, read_only=True)) as database:
        rows: list[dict[str, Any]] = database.sql(f'SELECT * FROM "{table}"').to_arrow_table().to_pylist()
        return rows


def iceberg_table(path: Path, table: str = "minute_totals") -> IcebergTable:
    found = catalog_at(path)
    with closing(load_catalog(found["catalog"], **found["properties"])) as catalog:
        return catalog.load_table(f"shop.{table}")


def rows_of_iceberg(path: Path, table: str = "minute_totals") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = iceberg_table(path, table).scan().to_arrow().to_pylist()
    return rows


def rows_of_postgres(path: Path, table: str = "minute_totals") -> list[dict[str, Any]]:
    rows = ask_at(os.environ[TARGET], f'select * from "{schema_at(path)}"."{table}"')
    return [{name: value for name, value in row.items() if name != "_lc_place"} for row in rows]


def lines_of(path: Path) -> list[dict[str, Any]]:
    files = sorted(path.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


@dataclass(frozen=True)
class Place:
    """Where a sink of each kind lives in a test, and what stands in it."""

    kind: str
    path: Path
    rows: Callable[[Path], list[dict[str, Any]]]

    def take_away(self) -> None:
        if self.kind == "postgres":
            ask_at(os.environ[TARGET], f'drop schema "{schema_at(self.path)}" cascade')
        else:
            self.path.rename(self.path.with_name("old"))
            if self.kind == "iceberg":
                self.path.mkdir()  # the catalog is still there, with nothing in it

    def standing(self, shape: PaneShape = SHAPE) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """(window_start, keys) → (sequence, values), all as text, so that kinds compare; one row each."""
        found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in self.rows(self.path):
            place = (_text(row["window_start"]), *(row[key] for key in shape.keys))
            assert place not in found
            found[place] = (row["sequence"], row["timing"], *(_text(row[name]) for name in shape.values))
        return found


def expected(
    standing: dict[tuple[int, int, tuple[Any, ...]], Pane],
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What the model says stands, as `Place.standing` reads it."""
    return {
        (_text(to_moment(start)), *key): (one.sequence, str(one.timing), *map(_text, one.values.values()))
        for (start, _, key), one in standing.items()
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


class Crash(Exception):
    """The process dies here."""


@contextmanager
def crashing(kind: str, batch: int) -> Iterator[None]:
    """Die once written and before committed, as a SIGKILL at the failpoint would."""

    def die(name: str, at: int) -> None:
        if (name, at) == (f"sink.{kind}.written", batch):
            raise Crash(name)

    shared = {
        "parquet": "change_files",
        "jsonl": "change_files",
        "sqlite": "database",
        "duckdb": "database",
        "postgres": "database",
    }
    module = shared.get(kind, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"latecomer.sink.{module}.failpoint", die)
        with pytest.raises(Crash):
            yield
