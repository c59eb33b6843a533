from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from latecomer.config.sinks import SqliteSink
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import SinkLogic
from latecomer.sink.both_shapes_tables import SqliteMigrated
from sink.sink_kit import SHAPE, Place, apply, insert, opened, retract, rows_of_sqlite, shape_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


def ask(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(sql).fetchall()
        database.commit()
    return found


def test_times_are_written_as_people_write_them(path: Path) -> None:
    apply(opened("sqlite", path), 3, insert(0, "chai", 0, Decimal(12500), 3))
    assert rows_of_sqlite(path) == [
        {
            "window_start": "2026-04-25T14:00:00Z",
            "window_end": "2026-04-25T14:01:00Z",
            "merchant": "chai",
            "paise": 12500,
            "payments": 3,
            "sequence": 0,
            "timing": "ON_TIME",
            "batch": 3,
            "fired_at": "2026-04-25T14:10:00Z",
        }
    ]


def test_no_value_is_rounded(path: Path) -> None:
    kinds = {
        "small": (pa.decimal128(18, 0), Decimal(10**18 - 1), 10**18 - 1),
        "large": (pa.decimal128(38, 0), Decimal(10**30 + 1), str(10**30 + 1)),
        "fits": (pa.decimal128(38, 0), Decimal(-7), -7),
        "money": (pa.decimal128(18, 2), Decimal("12.50"), "12.50"),
        "tiny": (pa.decimal128(18, 9), Decimal("0.000000001"), "0.000000001"),
        "whole": (pa.int64(), 2**63 - 1, 2**63 - 1),
        "yes": (pa.bool_(), True, 1),
        "day": (pa.date32(), date(2026, 4, 25), "2026-04-25"),
        "digits": (pa.string(), "007", "007"),
        "share": (pa.float64(), 0.1, 0.1),
        "not_a_number": (pa.float64(), float("nan"), "NaN"),
        "endless": (pa.float64(), float("inf"), float("inf")),
        "nothing": (pa.float64(), None, None),
        "bytes": (pa.binary(), b"\x00\xff", b"\x00\xff"),
    }
    shape = shape_of({}, {name: kind for name, (kind, _, _) in kinds.items()})
    given = [value for _, value, _ in kinds.values()]
    apply(opened("sqlite", path, shape), 0, insert(0, (), 0, *given, shape=shape))
    (row,) = rows_of_sqlite(path)
    assert {name: row[name] for name in kinds} == {name: written for name, (_, _, written) in kinds.items()}


def test_values_cannot_be_read_as_sql(path: Path) -> None:
    key = "'; DROP TABLE minute_totals; --"
    apply(opened("sqlite", path), 0, insert(0, key, 0))
    assert [row["merchant"] for row in rows_of_sqlite(path)] == [key]


def test_progress_is_in_the_same_database(path: Path) -> None:
    apply(opened("sqlite", path), 12, insert(0, "chai", 0))
    assert ask(path, "SELECT pipeline, output, batch FROM latecomer_progress") == [
        ("upi", "minute_totals", 12)
    ]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_batch_whose_progress_was_deleted_waits_until_the_table_is_filled_again(
    path: Path, kind: str
) -> None:
    sink = opened(kind, path)
    apply(sink, 0, insert(0, "chai", 0))
    with sink._transaction() as database:  # type: ignore[attr-defined]
        database.execute("DELETE FROM latecomer_progress")
    with pytest.raises(
        SinkOutage, match="its progress is gone; the table is checked again, and filled from the"
    ):
        apply(sink, 1, insert(1, "chai", 0))
    again = opened(kind, path)
    assert again.last_batch() == -1
    apply(again, 0, insert(0, "chai", 0))
    apply(again, 1, insert(1, "chai", 0))
    assert again.last_batch() == 1


def test_a_migration_finds_no_table_of_ours_where_nothing_was_written(path: Path) -> None:
    ask(path, "CREATE TABLE minute_totals (paise INTEGER)")
    sink = SqliteMigrated(SqliteSink(path=str(path)), path, "upi", SHAPE)
    with pytest.raises(SinkError, match="there is no minute_totals yet; run the pipeline first"):
        sink.look()


def test_one_output_may_feed_two_tables_of_a_database(path: Path) -> None:
    one, other = opened("sqlite", path, table="one"), opened("sqlite", path, table="other")
    apply(one, 0, insert(0, "chai", 0))
    assert other.last_batch() == -1
    apply(other, 0, insert(0, "chai", 0))
    assert rows_of_sqlite(path, "one") == rows_of_sqlite(path, "other") != []


def test_a_dropped_table_is_filled_from_the_start(path: Path) -> None:
    apply(opened("sqlite", path), 12, insert(0, "chai", 0))
    ask(path, "DROP TABLE minute_totals")
    assert opened("sqlite", path).last_batch() == -1


@pytest.mark.parametrize("key", ["chai", None])
def test_a_pane_finds_its_row_through_the_index(path: Path, key: str | None) -> None:
    opened("sqlite", path)
    with closing(sqlite3.connect(path)) as database:
        plan = database.execute(
            "EXPLAIN QUERY PLAN DELETE FROM minute_totals "
            "WHERE window_start IS ? AND window_end IS ? AND merchant IS ? AND sequence = ?",
            ("2026-04-25T14:00:00Z", "2026-04-25T14:01:00Z", key, 0),
        ).fetchall()
    assert [step[3] for step in plan] == [
        "SEARCH minute_totals USING INDEX latecomer_places_of_minute_totals "
        "(window_start=? AND window_end=? AND merchant=?)"
    ]


def test_an_output_may_be_named_like_an_index_of_another(path: Path) -> None:
    for output in ("totals", "totals_place", "select"):
        shape = shape_of({"merchant": pa.string()}, {"paise": pa.int64()}, output)
        sink = opened("sqlite", path, shape)
        apply(sink, 0, insert(0, "chai", 0, 5, shape=shape))
        assert len(rows_of_sqlite(path, output)) == 1


def test_batches_may_come_on_another_thread(path: Path) -> None:
    """Spark calls back on threads of its own."""
    sink = opened("sqlite", path)
    thread = threading.Thread(target=apply, args=(sink, 0, insert(0, "chai", 0)))
    thread.start()
    thread.join()
    assert sink.last_batch() == 0


def refusal(sink: SinkLogic, batch: int) -> str:
    with pytest.raises(SinkError) as caught:
        apply(sink, batch, insert(0, "chai", 0))
    return str(caught.value)


def refused_opening(path: Path, **settings: object) -> str:
    with pytest.raises(SinkError) as caught:
        opened("sqlite", path, **settings)  # type: ignore[arg-type]
    return str(caught.value)


def test_a_table_with_other_columns_is_refused(path: Path) -> None:
    ask(path, "CREATE TABLE minute_totals (window_start TEXT, paise REAL)")
    assert refused_opening(path) == (
        f"sqlite sink {path}: the table minute_totals has other columns (without window_end, without "
        "merchant, without payments, without sequence, without timing, without batch, without fired_at, "
        "paise REAL instead of untyped); drop or rename it, or give the sink another table. "
        "Nothing is lost: the next run catches this sink up."
    )
    assert ask(path, "SELECT name FROM sqlite_master") == [("minute_totals",)]


def test_the_table_of_another_pipeline_is_refused(path: Path) -> None:
    opened("sqlite", path)
    assert refused_opening(path, pipeline="cards") == (
        f"sqlite sink {path}: the table minute_totals belongs to output minute_totals of pipeline upi; "
        "give the sink another table. Nothing is lost: the next run catches this sink up."
    )


def test_the_progress_table_is_refused_as_a_target(path: Path) -> None:
    assert refused_opening(path, table="Latecomer_Progress") == (
        f"sqlite sink {path}: the table latecomer_progress holds the progress; give the sink another table. "
        "Nothing is lost: the next run catches this sink up."
    )


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("ledger of the shop\n" * 100)
    assert refused_opening(path) == (
        f"sqlite sink {path}: the file is not a SQLite database; move it away, or give the sink another "
        "path. Nothing is lost: the next run catches this sink up."
    )


def test_a_folder_in_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir()
    assert refused_opening(path) == (
        f"sqlite sink {path}: the file cannot be opened; see that it is a file in a folder you may write to. "
        "Nothing is lost: the next run catches this sink up."
    )


def test_a_folder_that_cannot_be_made_is_refused(path: Path) -> None:
    path.write_text("")
    text = refused_opening(path / "deeper" / "results.db")
    assert text.startswith(f"sqlite sink {path}/deeper/results.db: its folder cannot be made (")
    assert text.endswith("); give the sink another path. Nothing is lost: the next run catches this sink up.")


def test_a_locked_database_is_refused_and_then_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.05)
    sink = opened("sqlite", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert refusal(sink, 12) == (
            f"sqlite sink {path}: another program held the database for 0.05 s; close it or let it finish. "
            "Nothing is lost: the next run continues with batch 12."
        )
    apply(sink, 12, insert(0, "chai", 0))
    assert sink.last_batch() == 12


def test_a_reader_that_holds_on_past_the_commit_undoes_the_batch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.05)
    sink = opened("sqlite", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM minute_totals").fetchall()
        assert "another program held the database" in refusal(sink, 0)
    assert sink.last_batch() == -1
    assert rows_of_sqlite(path) == []


def test_a_database_that_was_taken_away_is_not_made_anew_in_the_middle(path: Path) -> None:
    sink = opened("sqlite", path)
    path.unlink()
    assert refusal(sink, 12) == (
        f"sqlite sink {path}: the file cannot be opened; see that it is a file in a folder you may write to. "
        "Nothing is lost: the next run continues with batch 12."
    )
    assert not path.exists()


def test_a_table_dropped_in_the_middle_is_one_sentence(path: Path) -> None:
    sink = opened("sqlite", path)
    ask(path, "DROP TABLE minute_totals")
    assert refusal(sink, 12) == (
        f"sqlite sink {path}: the database refused (no such table: minute_totals); run again, after fixing "
        "the file or giving the sink another path. Nothing is lost: the next run continues with batch 12."
    )


def test_the_same_database_serves_several_outputs(path: Path) -> None:
    hourly = shape_of({"merchant": pa.string()}, {"paise": pa.int64()}, "hourly")
    minute, hour = opened("sqlite", path), opened("sqlite", path, hourly)
    apply(minute, 0, insert(0, "chai", 0))
    apply(hour, 4, insert(0, "chai", 0, 5, shape=hourly))
    apply(minute, 1, retract(0, "chai", 0))
    assert (minute.last_batch(), hour.last_batch()) == (1, 4)
    assert Place("sqlite", path, rows_of_sqlite).standing(SHAPE) == {}
    assert len(rows_of_sqlite(path, "hourly")) == 1
