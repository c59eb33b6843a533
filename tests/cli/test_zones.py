"""Times on the command line: read and printed in the zone of the output's windows, or in the one asked for."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.cli_kit import Cli, Lake
from latecomer.after.reading.comparable_values import moments
from latecomer.after.reading.reader import Reader
from latecomer.after.reconcile.against import _column
from latecomer.errors import StoreMismatch
from latecomer.model.zoned import read
from latecomer.model.zones import midnight
from latecomer.store.pins import read_pins, write_pins

ZONE = "America/New_York"
PIPELINE = """
name: flights
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: landed}
  schema: {departed: string, landed: string, origin: string, delay: bigint}
event: {time: departed, zone: America/New_York}
watermark: {delay: 1h}
outputs:
  days:
    window: {calendar: day, zone: America/New_York}
    by: [origin]
    aggregates: {flights: count(*)}
  quarters:
    window: {tumbling: 6h, zone: America/New_York}
    by: [origin]
    aggregates: {flights: count(*)}
  plain:
    window: {tumbling: 1d}
    by: [origin]
    aggregates: {flights: count(*)}
ledger: [delay]
"""
DAYS = [date(2013, 3, 9), date(2013, 3, 10), date(2013, 3, 11), date(2013, 11, 3)]


def flights(window: Any, moment: int, count: int) -> dict[str, Any]:
    start, end = window.assign_all(moment)[0]
    fired = {"sequence": 0, "op": "insert", "timing": "ON_TIME", "fired_at": end, "watermark": end}
    return {"window_start": start, "window_end": end, "origin": "JFK", "flights": count, **fired}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    file = tmp_path / "flights.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    lake = Lake(file)
    lake.store.pin()
    at = [midnight(day, ZONE) for day in DAYS]
    windows = {name: output.window for name, output in lake.pipeline.outputs.items()}
    for name, window in windows.items():
        lake.panes(name, 0, [flights(window, moment, 10 + nth) for nth, moment in enumerate(at)])
    lake.watermarks(0, [{"tick": 0, "at": at[-1], "watermark": at[-1]}])
    lake.ledger(0, [{"output": name} for name in windows])
    return lake


def starts(said: str) -> list[str]:
    return [row["window_start"] for row in json.loads(said)]


def test_results_of_a_zone_are_printed_in_it_and_in_any_other_that_is_asked_for(cli: Cli, lake: Lake) -> None:
    local = ["2013-03-09T00:00:00-05:00", "2013-03-10T00:00:00-05:00", "2013-03-11T00:00:00-04:00"]
    assert starts(cli("results", lake.file, "days", "-f", "json").out)[:3] == local
    utc = ["2013-03-09T05:00:00Z", "2013-03-10T05:00:00Z", "2013-03-11T04:00:00Z"]
    assert starts(cli("results", lake.file, "days", "-f", "json", "--zone", "UTC").out)[:3] == utc
    listed = csv.DictReader(io.StringIO(cli("results", lake.file, "days", "-f", "csv").out))
    assert [row["window_start"] for row in listed][:3] == local
    table = cli("results", lake.file, "quarters").out.splitlines()[2]
    assert table.split() == [local[1], "2013-03-10T06:00:00-04:00", "JFK", "11", "0", "ON_TIME"]
    assert starts(cli("results", lake.file, "plain", "-f", "json").out)[0] == "2013-03-09T00:00:00Z"
    kolkata = cli("panes", lake.file, "plain", "-f", "json", "--zone", "Asia/Kolkata")
    assert starts(kolkata.out)[0] == "2013-03-09T05:30:00+05:30"


def test_a_date_means_the_local_day_of_the_output(cli: Cli, lake: Lake) -> None:
    for name, count in (("days", 12), ("quarters", 12), ("plain", 12)):
        (row,) = json.loads(cli("panes", lake.file, name, "--window", "2013-03-11", "-f", "json").out)
        assert row["flights"] == count
    page = cli("explain", lake.file, "days", "--window", "2013-03-10", "--key", "origin=JFK", "--events", "0")
    assert page.out.startswith("days · 2013-03-10T00:00:00-05:00 to 2013-03-11T00:00:00-04:00 · origin=JFK\n")
    whole = json.loads(cli("explain", lake.file, "days", "--window", "2013-03-10", "-f", "json").out)
    assert whole["window"] == {"start": "2013-03-10T00:00:00-05:00", "end": "2013-03-11T00:00:00-04:00"}
    at_noon = cli("results", lake.file, "days", "--valid-at", "2013-03-10T23:30", "-f", "json")
    assert starts(at_noon.out) == ["2013-03-10T00:00:00-05:00"]
    late_in_utc = cli("results", lake.file, "days", "--valid-at", "2013-03-10T23:30Z", "-f", "json")
    assert starts(late_in_utc.out) == ["2013-03-10T00:00:00-05:00"]
    as_utc = cli("results", lake.file, "days", "--valid-at", "2013-03-10", "--zone", "UTC", "-f", "json")
    assert starts(as_utc.out) == ["2013-03-09T05:00:00Z"]


def test_a_time_that_comes_twice_is_the_first_and_one_that_is_skipped_is_after_the_jump() -> None:
    assert read("2013-11-03T01:30", ZONE) == read("2013-11-03T01:30-04:00")
    assert read("2013-03-10T02:30", ZONE) == read("2013-03-10T03:30-04:00")
    assert read("2026-03-08", "America/Havana") == read("2026-03-08T01:00-04:00")


def test_other_verbs_print_in_the_zone_that_is_asked_for(cli: Cli, lake: Lake) -> None:
    said = cli("watermarks", lake.file, "-f", "json", "--zone", ZONE)
    assert json.loads(said.out)[0]["watermark"] == "2013-11-03T00:00:00-04:00"
    assert (
        json.loads(cli("watermarks", lake.file, "-f", "json").out)[0]["watermark"] == "2013-11-03T04:00:00Z"
    )
    certified = cli("certify", lake.file, "days", "--at", "2013-03-11")
    assert "2013-03-11T00:00:00-04:00" in certified.out
    assert json.loads(cli("certify", lake.file, "days", "--at", "2013-03-11", "-f", "json").out)["rows"] == 2
    assert cli("rebuild", "list", lake.file, "days", "--zone", "UTC").status == 0


def test_the_picture_names_the_zone_of_its_clock(cli: Cli, lake: Lake, tmp_path: Path) -> None:
    asked = ["explain", lake.file, "days", "--window", "2013-03-10", "--svg", tmp_path / "day.svg"]
    for more, zone, begins in (
        ([], ZONE, "2013-03-10 00:00:00"),
        (["--zone", "UTC"], "UTC", "2013-03-09 05:00:00"),
    ):
        assert cli(*asked, *more).status == 0
        drawn = (tmp_path / "day.svg").read_text(encoding="utf-8")
        assert f"arrival clock, {zone};" in drawn
        assert begins in drawn


def test_an_unknown_zone_is_refused(cli: Cli, lake: Lake) -> None:
    said = cli("results", lake.file, "days", "--zone", "Newyork")
    assert said.status == 2
    assert "--zone 'Newyork' is not a time zone" in said.err
    assert "IANA name" in said.err


def test_reconcile_matches_local_dates(cli: Cli, lake: Lake, tmp_path: Path) -> None:
    counts = [10, 11, 12, 13]
    table = {"window_start": pa.array(DAYS), "origin": ["JFK"] * 4, "flights": counts}
    pq.write_table(pa.table(table), tmp_path / "days.parquet")
    said = cli("reconcile", lake.file, "days", "--against", tmp_path / "days.parquet")
    assert (said.status, said.out.splitlines()[0].rpartition(": ")[2]) == (0, "4 equal")
    text = "window_start,origin,flights\n" + "".join(
        f"{day},JFK,{count}\n" for day, count in zip(DAYS, counts, strict=True)
    )
    (tmp_path / "days.csv").write_text(text, encoding="utf-8")
    assert cli("reconcile", lake.file, "days", "--against", tmp_path / "days.csv").status == 0
    assert cli("reconcile", lake.file, "plain", "--against", tmp_path / "days.csv").status == 0
    as_utc = cli("reconcile", lake.file, "days", "--against", tmp_path / "days.csv", "--zone", "UTC")
    assert as_utc.status == 1
    naive = [datetime(day.year, day.month, day.day) for day in DAYS]
    pq.write_table(pa.table({**table, "window_start": pa.array(naive)}), tmp_path / "naive.parquet")
    assert cli("reconcile", lake.file, "days", "--against", tmp_path / "naive.parquet").status == 0
    with sqlite3.connect(tmp_path / "their.db") as database:
        database.execute("create table days (day text, origin text, n integer)")
        database.executemany(
            "insert into days values (?, 'JFK', ?)",
            [(str(day), n) for day, n in zip(DAYS, counts, strict=True)],
        )
    database.close()
    asked = ["--query", "select day as window_start, origin, n as flights from days", "--from", "2013-03-10"]
    found = cli("reconcile", lake.file, "days", "--against", f"sqlite:{tmp_path / 'their.db'}", *asked)
    assert (found.status, found.out.splitlines()[0].rpartition(": ")[2]) == (0, "3 equal")


def test_moments_of_a_database_without_a_zone_are_those_of_the_outputs() -> None:
    column = pa.chunked_array([_column("window_start", [datetime(2013, 3, 10), None])])
    assert moments(column, "window_start", ZONE)[0].as_py() == datetime(2013, 3, 10, 5, tzinfo=UTC)
    aware = pa.chunked_array([_column("window_start", [datetime(2013, 3, 10, tzinfo=UTC)])])
    assert moments(aware, "window_start", ZONE)[0].as_py() == datetime(2013, 3, 10, tzinfo=UTC)


def test_windows_that_an_earlier_version_cut_otherwise_are_refused(cli: Cli, lake: Lake) -> None:
    pins = read_pins(lake.store.root)
    assert pins is not None
    assert pins["outputs"]["quarters"].pop("clock") == "wall"
    assert "clock" not in pins["outputs"]["days"]
    write_pins(lake.store.root, pins)
    for ask in (lake.store.pins, lambda: Reader(lake.pipeline).results("quarters")):
        with pytest.raises(StoreMismatch, match=r"output quarters .* drifted .* give the output a new name"):
            ask()
    assert Reader(lake.pipeline).results("days").num_rows == 4
    said = cli("rebuild", "plan", lake.file, "quarters", "--from", "2013-03-10")
    assert said.status == 1
    assert "drifted from the wall clock of America/New_York" in said.err


def test_a_zone_that_is_new_in_the_file_is_another_window_as_validate_says_before_a_run(
    cli: Cli, lake: Lake
) -> None:
    pins = read_pins(lake.store.root)
    assert pins is not None
    assert pins["outputs"]["quarters"].pop("clock") == "wall"
    pins["outputs"]["quarters"]["window"]["zone"] = "UTC"
    assert "a run refuses" not in cli("validate", lake.file).err
    write_pins(lake.store.root, pins)
    for ask in (lake.store.pins, lambda: Reader(lake.pipeline).results("quarters")):
        with pytest.raises(StoreMismatch, match="output quarters was computed with another window"):
            ask()
    said = cli("validate", lake.file)
    assert said.status == 0
    assert "warning: a run refuses this file: output quarters was computed with another window" in said.err
