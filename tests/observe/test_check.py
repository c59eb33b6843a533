"""`latecomer check`: the alerts from a store alone, and exit codes for cron."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli.cli_kit import MINUTE, NOON, PIPELINE, Cli, Lake, pane, rows_of
from latecomer import check_alerts
from latecomer.errors import NoStore
from latecomer.observe import check as checking
from latecomer.observe.alerts import SignalState
from latecomer.store.layout import LEDGER
from latecomer.store.rebuilds import Rebuilds

HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
ONLY = PIPELINE.replace("ledger: [paise]", "ledger: [paise]\nalerts: {lag: 2m}")


class Past:
    """A lake whose batches were published by the clock. They are written together: many commits take long."""

    def __init__(self, folder: Path, text: str = ONLY) -> None:
        file = folder / "pipeline.yaml"
        file.write_text(text, encoding="utf-8")
        self.lake = Lake(file)
        self.lake.store.pin()
        self.now = NOON
        self._number = 0
        self._tables: dict[str, list[dict[str, Any]]] = {}
        self._panes: list[dict[str, Any]] = []

    def batch(
        self, at: int, received: int = 0, aside: int = 0, lag: int = MINUTE, kind: str = "tick", late: int = 0
    ) -> None:
        number, self._number, self.now = self._number, self._number + 1, at
        row = {"batch": number, "tick": number, "at": at, "watermark": at - lag, "kind": kind}
        self._tables.setdefault("watermarks", []).append(row)
        self._tables.setdefault("publications", []).append({"batch": number, "published_at": at})
        line = {
            **dict.fromkeys(LEDGER.names[3:], 0),
            "batch": number,
            "output": "minute_totals",
            "unit": "events",
            "received": received,
            "on_time": received - aside,
            "side_output": aside,
        }
        self._tables.setdefault("ledger", []).extend([line] if received else [])
        self._panes += [
            {"batch": number, **pane(0, nth + 1, timing="LATE", merchant=f"m{nth}")} for nth in range(late)
        ]

    def write(self) -> None:
        """Put the batches into the store."""
        store, last = self.lake.store, self._number - 1
        for name, rows in self._tables.items():
            table = getattr(store, name)
            table.append(last, rows_of(table.schema, rows))
        if self._panes:
            table = self.lake.tables("minute_totals").panes
            table.append(last, rows_of(table.schema, self._panes))
        self._tables, self._panes = {}, []


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path)


def quiet_days(past: Past) -> None:
    """Two days with half a percent set aside: a batch an hour, and in the end one a minute."""
    for hour in range(48):
        past.batch(NOON + hour * HOUR, received=10_000, aside=50)
    for minute in range(1, 60):
        past.batch(NOON + 47 * HOUR + minute * MINUTE, received=1000, aside=5)


def states(past: Past, after: int = 0, output: str = "minute_totals") -> dict[str, SignalState]:
    past.write()
    verdicts = checking.check(past.lake.pipeline, past.now + after)
    return {each.alert.name: each.state for each in verdicts if each.output in (output, None)}


def test_a_store_that_is_well(past: Past) -> None:
    quiet_days(past)
    assert states(past) == {
        "lag": SignalState.OK,
        "side_output_spike": SignalState.OK,
        "side_output_sustained": SignalState.OK,
        "corrections_drift": SignalState.UNKNOWN,
        "ledger": SignalState.OK,
    }


def test_a_spike_in_a_store(past: Past) -> None:
    quiet_days(past)
    for minute in range(1, 30):
        past.batch(NOON + 48 * HOUR + minute * MINUTE, received=1000, aside=300)
    assert states(past)["side_output_spike"] is SignalState.FIRING
    assert states(past, output="by_shop")["side_output_spike"] is SignalState.UNKNOWN, (
        "another output, never heard of"
    )


def test_a_spike_while_a_rebuild_is_published(past: Past) -> None:
    quiet_days(past)
    for minute in range(1, 30):
        past.batch(NOON + 48 * HOUR + minute * MINUTE, received=1000, aside=300)
    past.batch(past.now + MINUTE, kind="rebuild")
    assert states(past)["side_output_spike"] is SignalState.BACKFILL


def test_a_spike_while_a_rebuild_is_computed(past: Past) -> None:
    quiet_days(past)
    for minute in range(1, 30):
        past.batch(NOON + 48 * HOUR + minute * MINUTE, received=1000, aside=300)
    Path(Rebuilds(past.lake.store.root, "minute_totals").draft()).mkdir(parents=True)
    assert states(past)["side_output_spike"] is SignalState.BACKFILL


def test_a_watermark_that_stays_behind(past: Past) -> None:
    quiet_days(past)
    for minute in range(1, 30):
        past.batch(NOON + 48 * HOUR + minute * MINUTE, received=10, lag=10 * MINUTE)
    assert states(past)["lag"] is SignalState.FIRING


def test_a_run_that_has_died(past: Past) -> None:
    quiet_days(past)
    assert states(past, after=30_000_000)["lag"] is not SignalState.FIRING
    assert states(past, after=HOUR)["lag"] is SignalState.FIRING, "nobody runs it: the clock goes on"


def test_the_first_load_of_a_store_is_a_backfill_for_a_day(past: Past) -> None:
    for minute in range(40):
        past.batch(NOON + minute * MINUTE, received=1000, lag=90 * DAY)
    assert states(past)["lag"] is SignalState.BACKFILL
    assert states(past, after=2 * DAY)["lag"] is SignalState.FIRING


def test_corrections_that_drift_over_weeks(past: Past) -> None:
    for day in range(28):
        past.batch(NOON + day * DAY, received=10_000, late=20 + 2 * day)
    assert states(past)["corrections_drift"] is SignalState.FIRING


def test_corrections_that_do_not(past: Past) -> None:
    for day in range(28):
        past.batch(NOON + day * DAY, received=10_000, late=20 + (7 * day) % 5)
    assert states(past)["corrections_drift"] is SignalState.OK


def test_a_line_that_does_not_balance(past: Past) -> None:
    past.batch(NOON, received=10)
    past.write()
    past.lake.ledger(1, [{"output": "minute_totals", "received": 5}])
    assert states(past)["ledger"] is SignalState.FIRING


def test_without_a_budget_there_is_no_alert_of_lag(tmp_path: Path) -> None:
    past = Past(tmp_path, PIPELINE)
    past.batch(NOON, received=10, lag=DAY)
    assert states(past, after=HOUR)["lag"] is SignalState.OFF


# The verb


@pytest.fixture
def clocked(past: Past, monkeypatch: pytest.MonkeyPatch) -> Iterator[Past]:
    monkeypatch.setattr(checking, "wall_clock", lambda: past.now)
    return past


def test_exit_codes(clocked: Past, cli: Cli) -> None:
    quiet_days(clocked)
    clocked.write()
    well = cli("check", clocked.lake.file)
    assert (well.status, well.out.split()[:3]) == (0, ["alert", "output", "state"])
    clocked.now += HOUR
    ill = cli("check", clocked.lake.file)
    assert ill.status == 3
    assert "the watermark is behind the wall clock by more than its budget" in ill.out


def test_json_and_csv(clocked: Past, cli: Cli) -> None:
    clocked.batch(NOON, received=10)
    clocked.write()
    said = cli("check", clocked.lake.file, "--format", "json")
    rows: list[dict[str, Any]] = json.loads(said.out)
    assert [row["alert"] for row in rows][:2] == ["lag", "side_output_spike"]
    assert rows[0].keys() == {"alert", "output", "state", "severity", "value", "limit", "reason"}
    table = cli("check", clocked.lake.file, "--format", "csv").out
    assert table.startswith("alert,output,state,severity,value,limit,reason\n")


def test_a_table_has_figures_with_their_units(clocked: Past, cli: Cli) -> None:
    clocked.batch(NOON, received=3_000, aside=370)
    clocked.write()
    lines = cli("check", clocked.lake.file).out.splitlines()
    (line,) = (each for each in lines if each.startswith("side_output_sustained") and "12.33 %" in each)
    assert line.split("12.33 %")[1].split() == ["5.00", "%"]
    assert "0.1233" not in line


def test_without_a_store_it_cannot_be_said(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(ONLY, encoding="utf-8")
    said = cli("check", file)
    assert said.status == 1
    assert "error: " in said.err
    with pytest.raises(NoStore):
        check_alerts(Lake(file).pipeline)


def test_from_python(clocked: Past) -> None:
    clocked.batch(NOON, received=10)
    clocked.write()
    found = check_alerts(clocked.lake.pipeline)
    assert isinstance(found, pa.Table)
    assert found.schema == checking.SCHEMA


def test_it_needs_no_spark(clocked: Past) -> None:
    clocked.batch(NOON, received=10)
    clocked.write()
    code = "import sys; sys.modules['pyspark'] = None; from latecomer.cli import main; main()"
    command = [sys.executable, "-c", code, "--quiet", "check", str(clocked.lake.file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stderr) == (3, ""), said.stderr  # the store is of last spring
