"""A store for tests of DataFrames."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from after.dataframes.dataframes_kit import make_lake, publish, retracted
from cli.cli_kit import MINUTE, NOON, Lake, pane, rows_of
from latecomer.store.layout import LEDGER
from latecomer.store.publications import BatchCloser


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three batches: numbers of three windows, one of which is corrected, and something in every other table."""
    lake = make_lake(tmp_path / "a lake")
    money = {"fees": Decimal("1.25"), "mean": Decimal("0.625"), "most_km": 0.1, "first_day": 20_000}
    first = [
        pane(minute, 0, merchant=name, paise=minute + 1, **money) for minute in range(3) for name in "ab"
    ]
    lake.dead_letters(
        0, [{"reason": "decode", "raw": "{", "raw_bytes": b"\xff", "origin": "f", "position": 1}]
    )
    late = {"window_start": NOON, "window_end": NOON + MINUTE, "verdict": "too_late", "merchant": "a"}
    event = {"event_time": NOON + 1, "arrival_time": NOON + 9 * MINUTE, "paise": 7, "fee": Decimal("0.10")}
    nested = {"tags": ["x", None], "parts": [("p", Decimal("1.500"))], "place": {"city": "Pune", "pin": 4}}
    lake.late("minutes", 0, [{**late, **event, **nested, "origin": "f", "position": 2}])
    nothing = {name: Decimal(0) for name in LEDGER.names[3:]}
    line = {
        **nothing,
        "batch": 0,
        "output": "minutes",
        "unit": "events",
        "received": Decimal(7),
        "on_time": Decimal(7),
    }
    BatchCloser(lake.store, lambda: NOON).close(0, rows_of(LEDGER, [line]))
    publish(lake, 1, *first)
    publish(lake, 2, *retracted(0, "a", 0, 1, 9), pane(1, 0, merchant=None, paise=3))
    return lake
