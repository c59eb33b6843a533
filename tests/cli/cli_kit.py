"""A store made by hand, row by row, so that reading it needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from latecomer import Pipeline, load_pipeline
from latecomer.cli import main
from latecomer.model.durations import UNITS
from latecomer.model.strategies import Bounded
from latecomer.model.timeline import Timeline
from latecomer.store.layout import DEAD_LETTERS, LEDGER, WATERMARKS, PaneLayout, arrow_type
from latecomer.store.publications import BatchCloser
from latecomer.store.store import OutputTables, Store
from latecomer.windowing.aggregates import states_of

MINUTE = UNITS["m"]
NOON = 1_777_118_400_000_000
"""2026-04-25T12:00:00Z."""

PIPELINE = """
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema:
    event_time: timestamp
    arrival_time: timestamp
    txn_id: string
    merchant: string
    paise: bigint
    fee: decimal(18,2)
    km: double
    shop: int
    payer: string
    token: binary
event: {time: event_time, id: txn_id, producer: payer, producer_seq: shop}
watermark: {delay: 30s}
outputs:
  minute_totals:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: retract
    sinks: [{sqlite: results.db}]
  everything:
    window: {tumbling: 1m}
    aggregates:
      total: sum(paise)
      filled: count(fee)
      first: min(merchant)
      largest: max(fee)
      mean: avg(paise)
      mean_fee: avg(fee)
      mean_km: avg(km)
      spread: variance(paise)
      spread_fee: stddev(fee)
      spread_km: stddev_pop(km)
      payers: approx_count_distinct(payer)
      median: approx_percentile(paise, 0.5)
      tokens: approx_count_distinct(token)
  by_shop:
    window: {tumbling: 1m}
    by: [merchant, shop]
    aggregates: {payments: count(*)}
ledger: [paise]
"""


@lru_cache(maxsize=64)
def _loaded(file: Path, _written: bytes) -> Pipeline:
    """The pipeline in a file, read once for each text that is written into it: YAML takes longer than the tables."""
    return load_pipeline(file)


@dataclass
class Lake:
    """A pipeline's file and store, filled row by row."""

    file: Path

    @property
    def pipeline(self) -> Pipeline:
        return _loaded(self.file, self.file.read_bytes())

    @property
    def store(self) -> Store:
        pipeline = self.pipeline
        assert pipeline.source.columns is not None
        return Store(pipeline, pipeline.source.columns)

    def tables(self, output: str) -> OutputTables:
        store = self.store
        layout = PaneLayout(store.pipeline.outputs[output], store.layout)
        states = states_of(layout, store.measures())
        private = [(name, arrow_type(kind)) for state in states for name, kind in state.columns.items()]
        return store.output_tables(output, pa.schema([*layout.published, *private]))

    def panes(self, output: str, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        table = self.tables(output).panes
        table.append(batch, rows_of(table.schema, [{"batch": batch, **row} for row in rows]))

    def partials(self, output: str, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        table = self.tables(output).partials
        table.append(batch, rows_of(table.schema, rows))

    def late(self, output: str, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        table = self.tables(output).late
        table.append(batch, rows_of(table.schema, [{"batch": batch, **row} for row in rows]))

    def watermarks(self, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        carry = Timeline(Bounded("0s")).carry()
        filled = [{"batch": batch, "kind": "tick", "carry": carry, **row} for row in rows]
        self.store.watermarks.append(batch, rows_of(WATERMARKS, filled))

    def dead_letters(self, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        self.store.dead_letters.append(
            batch, rows_of(DEAD_LETTERS, [{"batch": batch, **row} for row in rows])
        )

    def ledger(self, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        nothing = {name: Decimal(0) for name in LEDGER.names[3:]}
        filled = [{**nothing, "batch": batch, "unit": "events", **row} for row in rows]
        self.store.ledger.append(batch, rows_of(LEDGER, filled))

    def published(self, batch: int, at: int) -> None:
        """Close a batch as an engine does whose wall clock stands there."""
        BatchCloser(self.store, lambda: at).close(batch, rows_of(LEDGER, []))


def rows_of(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = {field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in schema}
    return pa.table(columns, schema=schema)


def pane(
    minute: int, sequence: int | None, op: str = "insert", timing: str = "ON_TIME", **values: Any
) -> dict[str, Any]:
    """A pane of the window that starts `minute` minutes after noon."""
    start = NOON + minute * MINUTE
    fired = {"fired_at": start + 2 * MINUTE, "watermark": start + MINUTE}
    return {
        "window_start": start,
        "window_end": start + MINUTE,
        "sequence": sequence,
        "op": op,
        "timing": timing,
        **fired,
        **values,
    }


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 4, 25, 12, minute, second, tzinfo=UTC)


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str


Cli = Callable[..., Said]


def calling(capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line as a function that tells its status and what it printed."""

    def call(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    return call


VERBS = {
    "results": ["results", "FILE", "minute_totals"],
    "open": ["results", "FILE", "minute_totals", "--open"],
    "nowcast": ["results", "FILE", "minute_totals", "--nowcast"],
    "as-of-arrival": ["results", "FILE", "minute_totals", "--as-of-arrival", "2026-04-25T13:00:00Z"],
    "as-of": ["results", "FILE", "minute_totals", "--as-of", "2026-04-25T13:00:00Z"],
    "served": ["results", "FILE", "minute_totals", "--serving"],
    "panes": ["panes", "FILE", "minute_totals"],
    "explain": ["explain", "FILE", "minute_totals", "--window", "2026-04-25T12:00Z", "--key", "merchant=a"],
    "late": ["late", "FILE", "minute_totals"],
    "dead-letters": ["dead-letters", "FILE"],
    "watermarks": ["watermarks", "FILE"],
    "gaps": ["gaps", "FILE"],
    "advise": ["advise", "FILE"],
    "ledger": ["ledger", "FILE"],
    "status": ["status", "FILE"],
    "alerts": ["check", "FILE"],
    "removals": ["ledger", "FILE", "--removals"],
    "correct": ["correct", "FILE", "minute_totals"],
    "serving": ["serving", "FILE", "minute_totals", "--sql", "duckdb"],
    "certify": ["certify", "FILE", "minute_totals"],
    "reconcile": ["reconcile", "FILE", "minute_totals", "--against", "FOLDER/other.csv"],
    "compact": ["compact", "FILE"],
    "dry-run": ["compact", "FILE", "--dry-run"],
    "rebuilds": ["rebuild", "list", "FILE", "minute_totals"],
    "validate": ["validate", "FILE"],
    "doctor": ["doctor", "FILE"],
}
ON_SPARK = {
    "run": ["run", "FILE", "--once"],
    "check": ["ledger", "FILE", "--check"],
    "replay": ["replay", "FILE"],
    "letters": ["dead-letters", "replay", "FILE"],
    "plan": ["rebuild", "plan", "FILE", "minute_totals", "--from", "2026-04-25"],
    "apply": ["rebuild", "apply", "FILE", "minute_totals", "--from", "2026-04-25"],
    "log": ["reconcile", "FILE", "minute_totals", "--against", "log"],
}
"""These are asked of stores in which they cannot get as far as Spark."""


def words(lake: Lake, verb: list[str]) -> list[str]:
    return [word.replace("FILE", str(lake.file)).replace("FOLDER", str(lake.file.parent)) for word in verb]
