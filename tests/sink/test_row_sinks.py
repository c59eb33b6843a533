"""Side output and dead letters in sinks: each row once and as the reader has it, whatever happens on the way."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from latecomer.cli import main
from latecomer.config.load import load_pipeline
from latecomer.config.sinks import Stream
from latecomer.errors import PipelineError, SinkError
from latecomer.sink import make_sink
from latecomer.sink.keeper import SinkKeeper, check_sinks, sink_status, still_wanted
from latecomer.sink.published import feed_of
from latecomer.sink.status import NOTES
from latecomer.store.store import open_store
from sink.feeding_kit import Fed, HandClock, eventually
from sink.row_kit import found_in, of_reader, sinks_in, wanted_in
from sink.sink_kit import crashing

KINDS = ("sqlite", "duckdb", "iceberg", "delta", "jsonl", "parquet")


def brought_up(fed: Fed, complete: int) -> None:
    keeper = SinkKeeper(fed.store)
    keeper.start(complete)
    keeper.finish()
    keeper.close()


@pytest.mark.parametrize("which", ["late", "dead"])
def test_every_kind_of_sink_holds_what_the_reader_has(tmp_path: Path, which: str) -> None:
    fed = Fed(tmp_path, late_to=sinks_in(tmp_path, "late"), dead_letters_to=sinks_in(tmp_path, "dead"))
    check_sinks(fed.store)
    fed.set_aside(0, late=3, dead=2)
    fed.set_aside(1)
    fed.set_aside(2, late=2)
    fed.set_aside(3, dead=3)
    brought_up(fed, 3)
    rows = of_reader(fed.pipeline, which)
    assert rows.num_rows == {"late": 10, "dead": 5}[which]
    for kind in KINDS:
        assert found_in(tmp_path, which, kind) == wanted_in(rows, kind), kind


def test_rows_come_while_the_run_goes_on_and_nothing_comes_twice(tmp_path: Path) -> None:
    fed = Fed(tmp_path, late_to="[{jsonl: late_lines}]", dead_letters_to="[{jsonl: dead_lines}]")
    for batch in range(4):
        keeper = SinkKeeper(fed.store)
        keeper.start(2 * batch - 1)
        for number in (2 * batch, 2 * batch + 1):
            fed.set_aside(number, late=number % 3, dead=(number + 1) % 2)
            keeper.announce(number)
        keeper.finish()
        keeper.close()
    for which in ("late", "dead"):
        assert found_in(tmp_path, which, "jsonl") == wanted_in(of_reader(fed.pipeline, which), "jsonl")


def test_a_row_sink_that_is_down_holds_nobody_and_is_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.01)
    fed, clock = Fed(tmp_path, late_to="[{sqlite: both.db}, {jsonl: late_lines}]"), HandClock()
    keeper = SinkKeeper(fed.store, clock)
    keeper.start(-1)
    fed.set_aside(0, late=1)
    keeper.announce(0)
    eventually(lambda: not any(worker.behind for worker in keeper.workers))
    down, other = keeper.workers
    with closing(sqlite3.connect(tmp_path / "both.db", isolation_level=None)) as held:
        held.execute("begin exclusive")
        for batch in (1, 2):
            fed.set_aside(batch, late=2)
            keeper.announce(batch)
        eventually(lambda: down.outage is not None and not other.behind)
        shown = {row["sink"]: row for row in sink_status(open_store(fed.pipeline)).to_pylist()}
        assert (shown["sqlite"]["behind"], shown["jsonl"]["behind"]) == (2, 0)
        assert {(row["output"], row["stream"]) for row in shown.values()} == {("totals", "late")}
        assert found_in(tmp_path, "late", "jsonl") == wanted_in(of_reader(fed.pipeline, "late"), "jsonl")
        held.execute("rollback")
    clock.seconds += 100
    keeper.finish()
    keeper.close()
    assert found_in(tmp_path, "late", "sqlite") == wanted_in(of_reader(fed.pipeline, "late"), "sqlite")


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_was_killed_is_applied_once(tmp_path: Path, kind: str) -> None:
    chosen = next(each for each in yaml.safe_load(sinks_in(tmp_path, "late")) if kind in each)
    fed = Fed(tmp_path, late_to=json.dumps([chosen]))
    fed.set_aside(0, late=2)
    fed.set_aside(1, late=3)
    (listed,) = fed.pipeline.listed_sinks()
    feed = feed_of(fed.store, listed)
    logic = make_sink(listed.sink, fed.pipeline, feed.shape)
    logic.open()
    logic.apply(0, feed.rows(0))
    with crashing(kind, 1):
        logic.apply(1, feed.rows(1))
    again = make_sink(listed.sink, fed.pipeline, feed.shape)
    again.open()
    assert again.last_batch() == 0
    brought_up(fed, 1)
    assert found_in(tmp_path, "late", kind) == wanted_in(of_reader(fed.pipeline, "late"), kind)


def test_a_sink_that_is_added_later_gets_everything(tmp_path: Path) -> None:
    fed = Fed(tmp_path)
    fed.set_aside(0, late=2, dead=1)
    fed = Fed(tmp_path, dead_letters_to="[{jsonl: dead_lines}]")
    fed.set_aside(1, dead=1)
    brought_up(fed, 1)
    assert found_in(tmp_path, "dead", "jsonl") == wanted_in(of_reader(fed.pipeline, "dead"), "jsonl")


def test_a_table_belongs_to_one_stream(tmp_path: Path) -> None:
    Fed(tmp_path, dead_letters_to="[{sqlite: {path: both.db, table: aside}}, {delta: d}, {jsonl: j}]")
    first = Fed(tmp_path, dead_letters_to="[{sqlite: {path: both.db, table: aside}}, {delta: d}, {jsonl: j}]")
    first.set_aside(0, dead=1)
    brought_up(first, 0)
    for written in ("{delta: d}", "{jsonl: j}", "{sqlite: {path: both.db, table: aside}}"):
        other = Fed(tmp_path, late_to=f"[{written}]")
        with pytest.raises(SinkError, match="belongs to the lane of dead letters of pipeline fed"):
            check_sinks(other.store)


def test_whose_a_sink_is_is_said(tmp_path: Path) -> None:
    fed = Fed(tmp_path, late_to="[{jsonl: lines}]")
    fed.set_aside(0, late=1)
    brought_up(fed, 0)
    moved = tmp_path / "lines" / ".latecomer.json"
    owner = json.loads(moved.read_text(encoding="utf-8"))
    assert owner["output"] == "totals.late"
    moved.write_text(json.dumps({**owner, "output": "other.late"}), encoding="utf-8")
    with pytest.raises(
        SinkError, match="the folder belongs to the side output of other of pipeline fed as jsonl"
    ):
        check_sinks(fed.store)


def test_a_store_of_an_earlier_version_may_lack_columns(tmp_path: Path) -> None:
    fed = Fed(tmp_path, dead_letters_to="[{jsonl: dead_lines}]")
    letters = fed.store.dead_letters
    older = pa.schema([field for field in letters.schema if field.name not in ("detail", "raw_bytes")])
    letters.schema = older
    fed.set_aside(0, dead=1)
    fed.store = open_store(fed.pipeline)
    brought_up(fed, 0)
    (row,) = found_in(tmp_path, "dead", "jsonl")
    assert (row["raw"], row["detail"], row["raw_bytes"]) == ("{\ufffd", None, None)


# What the pipeline file may say


INBOX = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "sinks.md").read_text("utf-8"), re.S
)[1]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[None]:
    panes_only = """
class PanesOnly(latecomer.Sink):
    target: str
    def logic(self, pipeline, shape):
        raise AssertionError("nothing is run here")
"""
    (tmp_path / "row_sinks.py").write_text(INBOX + panes_only, encoding="utf-8")
    yield
    sys.modules.pop("row_sinks", None)


@pytest.mark.usefixtures("own")
def test_the_documented_sink_takes_rows(tmp_path: Path) -> None:
    place = tmp_path / "inbox"
    fed = Fed(
        tmp_path, dead_letters_to=f"[{{row_sinks:Inbox: {place}}}]", late_to="[{row_sinks:Inbox: also}]"
    )
    fed.set_aside(0, dead=2)
    fed.set_aside(1)
    fed.set_aside(2, dead=1)
    brought_up(Fed(tmp_path, dead_letters_to=f"[{{row_sinks:Inbox: {place}}}]"), 2)
    letters = [row for file in sorted(place.glob("*.json")) for row in json.loads(file.read_text("utf-8"))]
    assert [(row["batch"], row["position"]) for row in letters] == [(0, 100), (0, 101), (2, 100)]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("late_to", "dead_letters_to", "outcome"),
    [
        (
            "[{row_sinks:PanesOnly: x}]",
            "[]",
            r"late_to\[0\]: row_sinks:PanesOnly takes panes only.*takes_rows = True",
        ),
        ("[]", "[{row_sinks:PanesOnly: x}]", r"dead_letters_to\[0\]: row_sinks:PanesOnly takes panes only"),
        ("[]", "[{row_sinks:Nobody: x}]", r"dead_letters_to\[0\]: module row_sinks has no class Nobody"),
        (
            "[{row_sinks:Inbox: {target: x, colour: red}}]",
            "[]",
            r"outputs\.totals\.late_to\[0\]\.colour: unknown key",
        ),
        ("[{jsonl: {pth: x}}]", "[]", r"late_to\[0\].*pth: unknown key.*did you mean path"),
        ("[]", "[{jsonl: {pth: x}}]", r"dead_letters_to\[0\].*pth: unknown key.*did you mean path"),
        ("[]", "[{pulsar: x}]", r"dead_letters_to\[0\]: unknown sink pulsar"),
        (
            "[{jsonl: same}]",
            "[{jsonl: same}]",
            r"dead_letters_to\[0\]: writes where the side output of totals",
        ),
        ("[{delta: store/late}]", "[]", r"late_to\[0\]: shares a folder with the store"),
        ("[]", "[{jsonl: in/dead}]", r"dead_letters_to\[0\]: shares a folder with the source"),
        ("[{delta: 'ftp://bucket/late'}]", "[]", r"late_to\[0\]: ftp is not supported"),
    ],
)
def test_a_wrong_sink_is_told_with_its_place(
    tmp_path: Path, late_to: str, dead_letters_to: str, outcome: str
) -> None:
    with pytest.raises(PipelineError, match=re.compile(outcome, re.S)) as caught:
        Fed(tmp_path, late_to=late_to, dead_letters_to=dead_letters_to)
    assert "pipeline.yaml:" in str(caught.value)


def test_a_sink_that_would_never_get_a_row_is_refused(tmp_path: Path) -> None:
    fed = Fed(tmp_path, late_to="[{jsonl: lines}]")
    text = fed.file.read_text(encoding="utf-8")
    fed.file.write_text(text.replace("late: retract", "late: retract\n    too_late: drop"), encoding="utf-8")
    with pytest.raises(
        PipelineError, match="late_to: would never get a row: late is retract and too_late is drop"
    ):
        load_pipeline(fed.file)


def test_one_database_may_hold_panes_side_output_and_dead_letters(tmp_path: Path) -> None:
    one = "[{sqlite: all.db}]"
    fed = Fed(tmp_path, one, late_to=one, dead_letters_to=one)
    check_sinks(fed.store)
    with closing(sqlite3.connect(tmp_path / "all.db")) as database:
        named = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    assert {"totals", "totals_late", "dead_letters"} <= named


def test_validate_and_status_speak_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fed = Fed(tmp_path, "[{sqlite: all.db}]", late_to="[{jsonl: lines}]", dead_letters_to="[{delta: dead}]")
    fed.set_aside(0, late=1, dead=1)
    with pytest.raises(SystemExit):
        main(["validate", str(fed.file)])
    said = capsys.readouterr().out
    assert "side output is written to jsonl lines" in said
    assert "dead letters are written to delta dead" in said
    with pytest.raises(SystemExit):
        main(["status", str(fed.file), "--format", "json"])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["output"], row["stream"], row["sink"], row["behind"]) for row in rows] == [
        ("totals", "panes", "sqlite", 0),
        ("totals", "late", "jsonl", 1),
        (None, "dead_letters", "delta", 1),
    ]


# What retention asks


def wanted(fed: Fed, until: int = 9) -> int | None:
    found = still_wanted(fed.store, Stream.DEAD_LETTERS, None, until)
    return None if found is None else found[0]


def test_what_a_sink_lacks_is_known_without_opening_it(tmp_path: Path) -> None:
    fed = Fed(tmp_path, dead_letters_to="[{jsonl: dead_lines}, {sqlite: both.db}]")
    for batch in (0, 1, 3):
        fed.set_aside(batch, dead=1)
    assert wanted(fed) == 0
    assert not (tmp_path / "dead_lines").exists()
    brought_up(fed, 1)
    assert wanted(fed) == 3
    assert wanted(fed, until=2) is None
    brought_up(fed, 3)
    assert wanted(fed) is None
    # One that is down has come as far as the last run noted; and nobody knows without a note.
    (tmp_path / "both.db").write_text(
        "this is not a database, and long enough to be looked at", encoding="utf-8"
    )
    assert wanted(fed) is None
    fed.set_aside(4, dead=1)
    assert wanted(fed) == 4
    (fed.store.root / NOTES).unlink()
    assert wanted(fed) == 0


@pytest.mark.usefixtures("own")
def test_a_sink_that_cannot_be_asked_has_what_was_noted(tmp_path: Path) -> None:
    fed = Fed(tmp_path, dead_letters_to=f"[{{row_sinks:Inbox: {tmp_path / 'inbox'}}}]")
    fed.set_aside(0, dead=1)
    assert wanted(fed) == 0
    brought_up(fed, 0)
    assert wanted(fed) is None
