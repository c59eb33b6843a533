"""The alignment report: which partition held the watermark back, how long, and how far it was behind."""

from __future__ import annotations

import json
from datetime import timedelta

import pyarrow as pa
import typer

from cli.cli_kit import MINUTE, NOON, Cli, Lake
from latecomer.after.reading.reader import Reader
from latecomer.cli import app
from latecomer.log.timeline.keeper import Origin, TimelineKeeper
from latecomer.model.strategies import Bounded, TickSummary
from latecomer.store.delta.table import Table
from latecomer.store.layout import WATERMARKS


def tick(number: int, held_by: str | None, watermark: int | None, unheld: int | None) -> dict[str, object]:
    """A tick, a minute after the one before; watermark and others in minutes after noon."""
    return {
        "tick": number,
        "at": NOON + number * MINUTE,
        "held_by": held_by,
        "watermark": None if watermark is None else NOON + watermark * MINUTE,
        "unheld": None if unheld is None else NOON + unheld * MINUTE,
    }


def fill(lake: Lake) -> None:
    lake.watermarks(0, [tick(1, None, None, None), tick(2, "slow", None, 5), tick(3, "slow", 1, 8)])
    lake.watermarks(1, [tick(5, "fast", 8, 8), tick(6, "slow", 8, 9), tick(8, "other", 9, 11)])
    lake.watermarks(2, [tick(9, "alone", 11, None)])


def test_the_one_that_held_longest_comes_first(lake: Lake) -> None:
    fill(lake)
    rows = Reader(lake.pipeline).alignment().to_pylist()
    # From minute 2 to 5 and from 6 to 8; in minute 5 the others were no further, so nobody held it back.
    assert [(row["partition"], row["held_for"], row["times"]) for row in rows] == [
        ("slow", timedelta(minutes=5), 2),
        ("other", timedelta(minutes=1), 1),
    ]
    assert rows[0]["longest"] == timedelta(minutes=3)
    assert rows[0]["behind"] == timedelta(minutes=7)
    assert [rows[0][side].minute for side in ("since", "until")] == [2, 8]


def test_how_far_behind_is_not_known_before_the_first_watermark(lake: Lake) -> None:
    lake.watermarks(0, [tick(1, "unmarked", None, 5), tick(2, None, 5, None)])
    (row,) = Reader(lake.pipeline).alignment().to_pylist()
    assert (row["held_for"], row["behind"]) == (timedelta(minutes=1), None)


def test_a_partition_alone_holds_nobody_back(lake: Lake) -> None:
    lake.watermarks(0, [tick(1, "", None, None), tick(2, "", 1, None)])
    assert Reader(lake.pipeline).alignment().num_rows == 0


def test_two_that_stopped_together_are_both_named(lake: Lake) -> None:
    """Rows as a real timeline makes them: one broker with two partitions dies, the third goes on."""
    summaries = [TickSummary(0, 0, name, 1, 0) for name in ("a", "b", "c")]
    summaries += [TickSummary(minute, minute * MINUTE, "c", 1, minute * MINUTE) for minute in range(1, 60)]
    TimelineKeeper(lake.store.watermarks, Bounded("0s", every="1m")).extend(0, Origin(0), summaries)
    rows = Reader(lake.pipeline).alignment().to_pylist()
    # The first tick has no watermark yet, and in the second no partition was further.
    assert [(row["partition"], row["held_for"], row["behind"]) for row in rows] == [
        (name, timedelta(minutes=57), timedelta(minutes=58)) for name in ("a", "b")
    ]


def test_one_a_little_less_behind_does_not_hide_how_far_it_is(lake: Lake) -> None:
    summaries = [TickSummary(0, 0, "a", 1, 0), TickSummary(0, 0, "b", 1, 1), TickSummary(0, 0, "c", 1, 0)]
    summaries += [TickSummary(minute, minute * MINUTE, "c", 1, minute * MINUTE) for minute in range(1, 60)]
    TimelineKeeper(lake.store.watermarks, Bounded("0s", every="1m")).extend(0, Origin(0), summaries)
    (first, *_) = Reader(lake.pipeline).alignment().to_pylist()
    assert (first["partition"], first["behind"]) == ("a", timedelta(minutes=58))


def test_the_verb_warns_of_a_silent_partition_that_holds_the_watermark_now(lake: Lake, cli: Cli) -> None:
    summaries = [TickSummary(0, 0, name, 1, 0) for name in ("berlin", "mumbai", "mumbay")]
    summaries += [
        TickSummary(minute, minute * MINUTE, name, 1, minute * MINUTE)
        for minute in range(1, 60)
        for name in ("berlin", "mumbai")
    ]
    TimelineKeeper(lake.store.watermarks, Bounded("0s", every="1m")).extend(0, Origin(0), summaries)
    outcome = cli("watermarks", lake.file, "--alignment")
    assert outcome.status == 0
    assert "warning: partition 'mumbay' holds the watermark: silent for 58m" in outcome.err
    assert "2 partitions wait" in outcome.err
    lake.file.write_text(lake.file.read_text().replace("{delay: 30s}", "{delay: 30s, idle_after: 2m}"))
    assert "warning" not in cli("watermarks", lake.file).err


def test_the_verb_in_every_format(lake: Lake, cli: Cli) -> None:
    assert cli("watermarks", lake.file, "--alignment").out == "no partition has held the watermark back\n"
    fill(lake)
    table = cli("watermarks", lake.file, "--alignment").out.splitlines()
    assert table[0].split() == ["partition", "held_for", "times", "longest", "behind", "since", "until"]
    assert table[1].split()[:5] == ["slow", "5m", "2", "3m", "7m"]
    first = json.loads(cli("watermarks", lake.file, "--alignment", "-f", "json").out)[0]
    assert (first["partition"], first["held_for"], first["behind"]) == ("slow", 300, 420)
    assert first["since"] == "2026-04-25T12:02:00Z"
    lines = cli("watermarks", lake.file, "--alignment", "-f", "csv", "-n", "1").out.splitlines()
    assert lines[1:] == ["slow,300.0,2,180.0,420.0,2026-04-25T12:02:00Z,2026-04-25T12:08:00Z"]


def test_a_partition_without_a_name_is_none_in_the_table_of_the_timeline(lake: Lake, cli: Cli) -> None:
    lake.watermarks(0, [tick(1, None, None, None), tick(2, "", 1, None), tick(3, "slow", 1, 3)])
    head, *lines = cli("watermarks", lake.file).out.splitlines()
    held = head.split().index("held_by")
    assert [line.split()[held] for line in lines] == ["-", "-", "slow"]
    rows = json.loads(cli("watermarks", lake.file, "-f", "json").out)
    assert [row["held_by"] for row in rows] == [None, "", "slow"]


def test_a_limit_keeps_the_newest_ticks_in_order_of_time(lake: Lake, cli: Cli) -> None:
    fill(lake)
    head, *lines, last = cli("watermarks", lake.file, "--limit", "3").out.splitlines()
    ticks = head.split().index("tick")
    assert [line.split()[ticks] for line in lines] == ["6", "8", "9"]
    assert last == "the newest 3 of 7 rows; --limit all shows every one"
    said = cli("watermarks", lake.file, "-n", "2", "-f", "json")
    assert [row["tick"] for row in json.loads(said.out)] == [8, 9]
    assert "note: the newest 2 of 7 rows" in said.err
    options = typer.main.get_command(app).commands["watermarks"].params  # type: ignore[attr-defined]
    (limit,) = (each for each in options if each.name == "limit")
    assert "the newest N ticks in order of time" in limit.help


def test_a_table_that_nobody_limited_ends_with_the_newest_tick(lake: Lake, cli: Cli) -> None:
    lake.watermarks(0, [tick(number, None, number, None) for number in range(150)])
    head, *lines, _ = cli("watermarks", lake.file).out.splitlines()
    ticks = head.split().index("tick")
    assert [line.split()[ticks] for line in lines] == [str(number) for number in range(50, 150)]
    assert len(cli("watermarks", lake.file, "-n", "all").out.splitlines()) == 1 + 150


def test_a_timeline_of_the_first_version_is_read_and_written_on(lake: Lake) -> None:
    root = lake.store.watermarks.root
    names = [name for name in WATERMARKS.names if name != "unheld"]
    old = pa.schema([WATERMARKS.field(name) for name in names])
    row = {"batch": 0, "tick": 1, "at": NOON, "kind": "tick", "carry": "{}"}
    Table(root, old).append(
        0, pa.table({f.name: pa.array([row.get(f.name)], f.type) for f in old}, schema=old)
    )
    reader = Reader(lake.pipeline)
    assert reader.alignment().num_rows == 0
    lake.watermarks(1, [tick(2, "slow", 1, 3), tick(3, "slow", 1, 3)])
    (outcome,) = reader.alignment().to_pylist()
    assert (outcome["partition"], outcome["held_for"]) == ("slow", timedelta(minutes=1))
    assert reader.watermarks().num_rows == 3
