"""Advice on raw files, before any pipeline exists: known delays come back, in every format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from latecomer import Advice, LatecomerError, PipelineError, advise
from latecomer.model.written_times import written_moment
from latecomer.observe.advise import raw
from latecomer.observe.advise.raw_files import RawSource, micros_of
from observe.advise.advise_kit import BEGIN, SECOND, Row, iso, rows, written

COLUMNS = {"event_time": "event_time", "arrival": "arrival_time"}


def settings_of(found: Advice) -> dict[tuple[int, int], Any]:
    (output,) = found.outputs
    return {(each.setting.delay // SECOND, each.setting.lateness // SECOND): each for each in output.settings}


def by_hand(given: list[Row], delay: int, lateness: int, window: int = 60) -> tuple[int, int, int]:
    """On time, late and too late, event by event: ticks of a second, each judged by those before it."""
    newest, open_tick, pending = None, None, None
    counts = [0, 0, 0]
    for row in sorted(given, key=lambda row: row.arrival_time):
        tick = row.arrival_time // SECOND
        if tick != open_tick:
            newest = pending if newest is None or (pending or 0) > newest else newest
            open_tick = tick
        end = (row.event_time // (window * SECOND) + 1) * window * SECOND
        overdue = None if newest is None else newest - end
        late = overdue is not None and overdue >= delay * SECOND
        too_late = overdue is not None and overdue >= (delay + lateness) * SECOND
        counts[2 if too_late else 1 if late else 0] += 1
        pending = row.event_time if pending is None else max(pending, row.event_time)
    return counts[0], counts[1], counts[2]


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_every_format_says_the_same(tmp_path: Path, form: str) -> None:
    found = advise(
        written(tmp_path, form),
        **COLUMNS,
        by=["region"],
        measures=["amount"],
        delays=["0s", "30s"],
        lateness=["5m"],
    )
    assert (found.kind, found.events, found.of_events) == ("files", 3_000, 3_000)
    assert found.age.least == 500_000
    assert found.age.most == 600 * SECOND + 500_000
    assert found.age.percentiles[0.5] == pytest.approx(1.5 * SECOND, rel=0.002)
    # What is a minute behind is so behind the newest before its own second.
    assert 57 * SECOND <= found.behind.percentiles[0.99] <= 59.2 * SECOND
    outcome = settings_of(found)
    for delay, lateness in ((0, 300), (30, 300)):
        answer = outcome[delay, lateness]
        assert (answer.on_time, answer.late, answer.too_late) == by_hand(rows(), delay, lateness)
    (far,) = found.late_groups
    assert (far.column, far.value) == ("region", "far")
    of_far = {each.aggregate: each for each in found.biases if each.group == ("region", "far")}
    mine = [row for row in rows() if row.region == "far"]
    assert of_far["events"].with_all == len(mine)
    gone = [row for row in mine if row.arrival_time - row.event_time > 600 * SECOND]
    assert of_far["events"].relative == pytest.approx(-len(gone) / len(mine))
    totals = {each.aggregate: each for each in found.biases if each.group is None}
    assert totals["sum of amount"].with_all == sum(row.amount for row in rows())
    assert (totals["avg of amount"].relative or 0) < 0


def test_partitions_hold_each_other(tmp_path: Path) -> None:
    given = [
        Row(row.event_time - (45 * SECOND if row.shard == "b" else 0), *list(vars(row).values())[1:])
        for row in rows()
    ]
    file = written(tmp_path, "parquet", given)
    together, apart = (
        advise(file, **COLUMNS, delays=["0s"]),
        advise(file, **COLUMNS, partition="shard", delays=["0s"]),
    )
    assert {each.value for each in apart.partitions} == {"a", "b"}
    assert apart.behind.percentiles[0.9] < together.behind.percentiles[0.9], (
        "a shard is behind the other, not itself"
    )
    assert apart.outputs[0].settings[0].on_time > together.outputs[0].settings[0].on_time
    assert "watermark.idle_after" in {each.field for each in apart.advised}


def test_a_partition_that_differs_much_has_its_own_delay(tmp_path: Path) -> None:
    given = []
    for nth in range(6_000):
        slow = nth % 2
        behind = (nth * 37 % 97) * SECOND if slow else 0
        given.append(Row(BEGIN + nth * SECOND - behind, BEGIN + nth * SECOND, "ab"[slow], "x", 1))
    found = advise(written(tmp_path, "parquet", given), **COLUMNS, partition="shard")
    own = {each.field: each.written for each in found.advised if "delays" in each.field}
    assert own == {"watermark.delays.a": "0s"}


def test_a_folder_a_pattern_and_a_delta_table_are_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    whole = written(tmp_path, "parquet")
    table = pq.read_table(whole)
    for nth in range(3):
        pq.write_table(table.slice(nth * 1_000, 1_000), folder / f"{2 - nth}.parquet")
    write_deltalake(str(tmp_path / "table"), table)
    expected = advise(whole, **COLUMNS, delays=["5s"]).as_json()
    for source in (folder, f"{folder}/*.parquet", tmp_path / "table"):
        found = advise(source, **COLUMNS, delays=["5s"]).as_json()
        assert {**found, "source": ""} == {**expected, "source": ""}


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 10**9)])
def test_numbers_with_a_unit_are_times(tmp_path: Path, unit: str, factor: int) -> None:
    file, text = tmp_path / "a.json", tmp_path / "a.csv"
    lines = [
        {"at": (BEGIN // SECOND + nth) * factor, "seen": (BEGIN // SECOND + nth + 2) * factor}
        for nth in range(50)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text.write_text("at,seen\n" + "".join(f"{line['at']},{line['seen']}\n" for line in lines))
    for each in (file, text):
        found = advise(each, event_time="at", arrival="seen", unit=unit)
        assert found.age.percentiles[0.5] == pytest.approx(2 * SECOND, rel=0.002)


def test_times_without_a_zone_are_of_the_one_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        "at,seen\n2026-04-25 17:30:00,2026-04-25T12:00:03Z\n2026-04-25 17:30:01.5,2026-04-25T12:00:04Z\n"
    )
    found = advise(file, event_time="at", arrival="seen", zone="Asia/Kolkata")
    assert (found.age.least, found.age.most) == (2.5 * SECOND, 3 * SECOND)


def test_without_an_arrival_column_a_file_arrived_when_it_was_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("at\n2026-04-25T12:00:00Z\n2026-04-25T12:00:01Z\n")
    found = advise(file, event_time="at")
    assert found.age.most == file.stat().st_mtime_ns // 1_000 - BEGIN


def test_rows_that_are_no_events_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    good = [{"at": iso(BEGIN + nth * SECOND), "seen": iso(BEGIN + nth * SECOND)} for nth in range(20)]
    bad = [
        "{",
        "[]",
        "{}",
        '{"at": "soon", "seen": "2026-04-25T12:00:00Z"}',
        '{"at": "2026-02-31T00:00:00Z", "seen": null}',
    ]
    far = json.dumps({"at": "2126-04-25T12:00:00Z", "seen": iso(BEGIN)})
    file.write_text("\n".join([*map(json.dumps, good), *bad, far]) + "\n")
    found = advise(file, event_time="at", arrival="seen")
    assert found.events == 20
    assert [note.split(":")[-1].split(";")[0].strip() for note in found.notes[:2]] == ["5", "1"]
    assert "dead letters" in found.notes[1]


def test_fields_of_objects_are_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    lines = [
        {"meta": {"at": iso(BEGIN + nth * SECOND), "os": "x"}, "seen": iso(BEGIN + (nth + 1) * SECOND)}
        for nth in range(9)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = advise(file, event_time="meta.at", arrival="seen", by=["meta.os"])
    assert found.age.most == SECOND
    assert [each.value for each in found.groups] == ["x"]


def test_a_sample_agrees_with_the_whole_within_its_error(tmp_path: Path) -> None:
    file = written(tmp_path, "parquet", rows(60_000))
    whole = advise(file, **COLUMNS, delays=["10s"], lateness=["0s"])
    part = advise(file, **COLUMNS, delays=["10s"], lateness=["0s"], sample=0.2)
    assert part.of_events == whole.events == 60_000
    assert 11_000 < part.events < 13_000
    assert part.sampling_error is not None
    shares = [found.outputs[0].settings[0].on_time_share for found in (part, whole)]
    assert abs(shares[0] - shares[1]) < part.sampling_error
    assert part.as_json()["outputs"][0]["settings"][0]["upserts_a_day"] is None


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({}, "--event-time: is needed for raw files"),
        ({"event_time": "evnt_time"}, "did you mean event_time?"),
        ({**COLUMNS, "by": ["regionn"]}, "--by: the files have no such column (value: 'regionn')"),
        ({**COLUMNS, "unit": "h"}, "--unit: is not a unit of time"),
        ({**COLUMNS, "zone": "Mars"}, "--zone: is not a time zone"),
        ({**COLUMNS, "window": "soon"}, "--window: is not a duration"),
        ({**COLUMNS, "every": "0s"}, "--every: is too short"),
        ({**COLUMNS, "sample": 2}, "--sample: is not a share"),
        ({**COLUMNS, "target_completeness": 1}, "--target-completeness: is not a share"),
        ({**COLUMNS, "max_latency": "x"}, "--max-latency: is not a duration"),
        ({**COLUMNS, "outputs": ["totals"]}, "--output: raw files have no outputs"),
        ({**COLUMNS, "nonsense": 1}, "nonsense: there is no such option"),
        ({"event_time": "amount", "arrival": "arrival_time"}, "unit is not given (value: 'amount')"),
        ({"event_time": "region", "arrival": "arrival_time"}, "no row has a readable event time"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: dict[str, Any], outcome: str) -> None:
    with pytest.raises(PipelineError) as error:
        advise(written(tmp_path, "parquet", rows(20)), **options)
    assert outcome in str(error.value)


@pytest.mark.parametrize(
    ("column", "options", "outcome"),
    [
        (
            pa.array([{"a": 1}]),
            {"arrival": "odd"},
            "--arrival: is a column of type struct<a: int64>, which holds",
        ),
        (
            pa.array([{"a": 1}]),
            {"measures": ["odd"]},
            "--measure: is a column of type struct<a: int64>, which holds",
        ),
        (
            pa.array([0], pa.timestamp("us", "UTC")),
            {"measures": ["odd"]},
            "which holds no numbers (value: 'odd')",
        ),
        (
            pa.array([[1]]),
            {"by": ["odd"]},
            "--by: is a column of type list<element: int64>, which holds several",
        ),
        (pa.array([{"a": 1}]), {"producer": "odd"}, "--producer: is a column of type struct<a: int64>"),
        (pa.array([2**31 - 1], pa.date32()), {"arrival": "odd"}, "out of bounds timestamp"),
    ],
)
def test_a_column_that_cannot_be_what_it_is_named_for(
    tmp_path: Path, column: pa.Array, options: dict[str, Any], outcome: str
) -> None:
    times = pa.array([BEGIN], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": times, "odd": column}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError) as error:
        advise(tmp_path / "a.parquet", event_time="at", **options)
    assert outcome in str(error.value)
    assert "(value: 'at')" not in str(error.value), "the column that was named for it"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_numbers_that_are_written_as_text(tmp_path: Path, kind: pa.DataType) -> None:
    times = pa.array([BEGIN, BEGIN + SECOND], pa.timestamp("us", "UTC"))
    amounts = pa.array(["3", "none"]).cast(kind)
    pq.write_table(pa.table({"at": times, "seen": times, "amount": amounts}), tmp_path / "a.parquet")
    found = advise(tmp_path / "a.parquet", event_time="at", arrival="seen", measures=["amount"])
    assert {each.aggregate: each.with_all for each in found.biases}["sum of amount"] == 3


@pytest.mark.parametrize("number", [int, float])
def test_numbers_beyond_the_calendar_are_no_times(tmp_path: Path, number: type) -> None:
    """Nanoseconds that are read as seconds."""
    at = [number(BEGIN * 1_000 + nth) for nth in range(9)]
    pq.write_table(pa.table({"at": at, "seen": at}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError, match="no row has a readable event time"):
        advise(tmp_path / "a.parquet", event_time="at", arrival="seen", unit="s")


def test_a_day_that_no_month_has_changes_no_other_row(tmp_path: Path) -> None:
    file, good = tmp_path / "a.csv", "2026-04-25T12:00:00Z,2026-04-25T12:00:03Z"
    counts = []
    for bad in ("", "2026-02-30T00:00:00,2026-04-25T12:00:05Z"):
        file.write_text(f"at,seen\n{good}\n20260425T120001,2026-04-25T12:00:04Z\n{bad}\n")
        counts.append(advise(file, event_time="at", arrival="seen").events)
    assert counts == [1, 1]


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-25",
        "2026-04-25 17:30",
        "2026-04-25T24:00",
        "2026-02-30",
        "2026-04-25T17:30Z",
        "2026-04-25T17:30+05:30",
        "2026-04-25T17:30:00+05:30",
        "2026-04-25T17:30:00.1234567+0530",
        "2026-04-25T17:30:00+05:75",
        "2026-04-25T17:30:00+18:00",
        "2026-04-25T17:30:00+19:00",
    ],
)
def test_a_text_is_a_time_where_a_pipeline_reads_one(text: str) -> None:
    source = RawSource("files", "at", zone="Asia/Kolkata")
    times, readable = micros_of(pa.array([text]), source, "--event-time")
    assert (int(times[0]) if readable[0] else None) == written_moment(text, source.zone)


@pytest.mark.parametrize(
    "name", ["nothing.parquet", "broken.parquet", "empty", "cut.json.gz", "cut.csv.gz", "cut.bz2"]
)
def test_files_that_cannot_be_read_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1nonsense")
    (tmp_path / "empty").mkdir()
    for cut in ("cut.json.gz", "cut.csv.gz"):
        (tmp_path / cut).write_bytes(gzip.compress(b'{"event_time": 1}\n')[:-9])
    (tmp_path / "cut.bz2").write_bytes(b"BZh9nonsense")
    with pytest.raises(LatecomerError) as error:
        advise(tmp_path / name, **COLUMNS)
    assert str(tmp_path / name) in str(error.value)


def test_it_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([BEGIN], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "a.parquet")
    shown = advise(tmp_path / "a.parquet", event_time="at", sample=0.999)._repr_html_()
    assert shown.startswith("<")
    assert "<h2>What settings would mean: supposed windows</h2>" in shown
    assert "(95 %).</p>" in shown


def test_a_long_history_has_longer_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many seconds as there is room for, then tens of seconds: the same as if that had been asked for."""
    folder = written(tmp_path, "parquet")
    exact = advise(folder, **COLUMNS, partition="region")
    assert not any("ticks are" in note for note in exact.notes)
    monkeypatch.setattr(raw, "MOST_HEADS", 200)
    found = advise(folder, **COLUMNS, partition="region")
    (note,) = [note for note in found.notes if "ticks are" in note]
    assert "--every 1s measures all of them" in note
    assert found.as_json()["tick"] in ("10s", "1m", "10m")
    asked = advise(folder, **COLUMNS, partition="region", every=found.as_json()["tick"])
    assert settings_of(found) == settings_of(asked)
    assert found.behind == asked.behind
    assert found.age == exact.age
    assert advise(folder, **COLUMNS, partition="region", every="1s").behind == exact.behind
