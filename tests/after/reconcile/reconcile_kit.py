"""A store made by hand in which everything is there that a gap can be explained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli.cli_kit import MINUTE, NOON, Lake, pane
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.gaps import Gap, Reconciliation
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.model.durations import iso

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
event: {time: event_time, id: txn_id}
watermark: {delay: 30s}
ledger: [paise]
outputs:
  totals:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: side_output
  kinds:
    window: {tumbling: 1m}
    by: [merchant, shop]
    aggregates: {paise: sum(paise), fee: sum(fee), km: sum(km), first: min(merchant), latest: max(event_time)}
  filled:
    window: {tumbling: 1m}
    aggregates: {paid: sum(paise), with_fee: count(fee)}
  early:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    trigger: {early: 10s}
  discarding:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    trigger: {early: 10s}
    accumulation: discarding
  sliding:
    window: {sliding: 2m, every: 1m}
    aggregates: {paise: sum(paise), payments: count(*)}
  sessions:
    window: {session: 30s}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
  whole:
    window: {global: true}
    aggregates: {paise: sum(paise), payments: count(*)}
  empty:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    emit_empty: true
"""


def lake_in(folder: Path) -> Lake:
    """A pipeline that has a store, with nothing in it yet."""
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    lake = Lake(file)
    lake.store.pin()
    return lake


def start(minute: int) -> str:
    found = iso(NOON + minute * MINUTE)
    assert found is not None
    return found


def row(minute: int, merchant: str | None, paise: int, payments: int = 1) -> dict[str, Any]:
    return pane(minute, 0, merchant=merchant, paise=paise, payments=payments)


def csv(folder: Path, lines: str, name: str = "source.csv") -> str:
    """A CSV file; `@3` stands for the window that starts three minutes after noon."""
    text = "\n".join(line.strip() for line in lines.strip().splitlines()) + "\n"
    for minute in range(9, -1, -1):
        text = text.replace(f"@{minute}", start(minute))
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def against(lake: Lake, output: str, source: str, **more: Any) -> Reconciliation:
    asked = Against(source, more.pop("query", None), more.pop("names", {}))
    return reconcile(lake.pipeline, output, asked, **more)


def gap_of(found: Reconciliation, aggregate: str) -> Gap:
    (gap,) = [gap for gap in found.gaps if gap.aggregate == aggregate]
    return gap


def listed(found: Reconciliation, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(each[name] for name in names) for each in found.rows.to_pylist()]


def late(minute: int, merchant: str | None, paise: int | None, nth: int = 0) -> dict[str, Any]:
    """An event of the side output, for the window that starts so many minutes after noon."""
    begin = NOON + minute * MINUTE
    return {
        "window_start": begin,
        "window_end": begin + MINUTE,
        "watermark": begin + 10 * MINUTE,
        "verdict": "late",
        "event_time": begin + nth,
        "arrival_time": begin + 11 * MINUTE,
        "origin": "f",
        "position": nth,
        "merchant": merchant,
        "paise": paise,
    }
