from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import SinkLogic
from latecomer.sink.keeper import SinkKeeper, sink_status
from latecomer.store.files import keep_to_user
from latecomer.store.store import open_store
from sink.feeding_kit import Fed, HandClock, eventually
from sink.sink_kit import SHAPE, apply, insert, opened, retract, rows_of_duckdb, shape_of

HOLD = """
import duckdb, sys
held = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reads")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.duckdb"


@contextmanager
def held_by_another(path: Path, how: str = "writes") -> Iterator[None]:
    """Another process has the file open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.stdin.close()


def ask(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(duckdb.connect(path)) as database:
        return database.execute(sql).fetchall()


def types_of(path: Path) -> dict[object, object]:
    return {row[0]: row[1] for row in ask(path, "DESCRIBE minute_totals")}


def refusal(sink: SinkLogic, batch: int) -> str:
    with pytest.raises(SinkError) as caught:
        apply(sink, batch, insert(0, "chai", 0))
    return str(caught.value)


def refused_opening(path: Path, **settings: object) -> str:
    with pytest.raises(SinkError) as caught:
        opened("duckdb", path, **settings)  # type: ignore[arg-type]
    return str(caught.value)


def test_every_type_is_duckdbs_own_and_no_value_is_rounded(path: Path) -> None:
    kinds = {
        "large": (pa.decimal128(38, 0), Decimal(10**37 + 1), "DECIMAL(38,0)"),
        "money": (pa.decimal128(18, 2), Decimal("12.50"), "DECIMAL(18,2)"),
        "small": (pa.int8(), -7, "TINYINT"),
        "whole": (pa.int64(), 2**63 - 1, "BIGINT"),
        "yes": (pa.bool_(), True, "BOOLEAN"),
        "day": (pa.date32(), date(2026, 4, 25), "DATE"),
        "digits": (pa.string(), "007\0", "VARCHAR"),
        "share": (pa.float64(), 0.1, "DOUBLE"),
        "nothing": (pa.float64(), None, "DOUBLE"),
        "bytes": (pa.binary(), b"\x00\xff", "BLOB"),
        "listed": (pa.list_(pa.struct([("n", pa.int32())])), [{"n": 1}, None], "STRUCT(n INTEGER)[]"),
        "mapped": (pa.map_(pa.string(), pa.int64()), [("a", 1)], "MAP(VARCHAR, BIGINT)"),
    }
    shape = shape_of({}, {name: kind for name, (kind, _, _) in kinds.items()})
    given = [value for _, value, _ in kinds.values()]
    apply(opened("duckdb", path, shape), 0, insert(0, (), 0, *given, shape=shape))
    (row,) = rows_of_duckdb(path)
    assert {name: row[name] for name in kinds} == {name: value for name, (_, value, _) in kinds.items()}
    types = types_of(path)
    assert {name: types[name] for name in kinds} == {name: kind for name, (_, _, kind) in kinds.items()}
    assert types["window_start"] == "TIMESTAMP WITH TIME ZONE"


def test_types_within_lists_are_widened_in_place(path: Path) -> None:
    def shape(*fields: tuple[str, pa.DataType]) -> object:
        return shape_of({}, {"items": pa.list_(pa.struct(list(fields))), "least": pa.int32()})

    narrow, wide = shape(("n", pa.int32())), shape(("n", pa.int64()), ("tag", pa.string()))
    apply(opened("duckdb", path, narrow), 0, insert(0, (), 0, [{"n": 1}], 5, shape=narrow))  # type: ignore[arg-type]
    ask(path, "CREATE VIEW mine AS SELECT items FROM minute_totals")
    sink = opened("duckdb", path, wide)  # type: ignore[arg-type]
    apply(sink, 1, insert(1, (), 0, [{"n": 2**40, "tag": "x"}], 6, shape=wide))  # type: ignore[arg-type]
    assert [row["items"] for row in rows_of_duckdb(path)] == [
        [{"n": 1, "tag": None}],
        [{"n": 2**40, "tag": "x"}],
    ]


def test_values_cannot_be_read_as_sql(path: Path) -> None:
    key = "'; DROP TABLE minute_totals; --"
    apply(opened("duckdb", path), 0, insert(0, key, 0))
    assert [row["merchant"] for row in rows_of_duckdb(path)] == [key]


def test_progress_is_in_the_same_database(path: Path) -> None:
    apply(opened("duckdb", path), 12, insert(0, "chai", 0))
    assert ask(path, "SELECT pipeline, output, batch FROM latecomer_progress") == [
        ("upi", "minute_totals", 12)
    ]


def test_the_same_database_serves_several_outputs_at_once(path: Path) -> None:
    """Sinks have a thread each, and DuckDB refuses what changes one table at once."""
    shapes = [shape_of({"merchant": pa.string()}, {"paise": pa.int64()}, f"output_{n}") for n in range(3)]
    failed: list[BaseException] = []

    def feed(number: int) -> None:
        try:
            shape = shapes[number]
            sink = opened("duckdb", path, shape)
            for batch in range(8):
                apply(sink, batch, insert(batch % 2, "chai", batch, batch, shape=shape))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=feed, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for shape in shapes:
        assert sorted(row["sequence"] for row in rows_of_duckdb(path, shape.output)) == [6, 7]


def test_a_dropped_table_is_filled_from_the_start(path: Path) -> None:
    apply(opened("duckdb", path), 12, insert(0, "chai", 0))
    ask(path, "DROP TABLE minute_totals")
    assert opened("duckdb", path).last_batch() == -1


def test_a_table_is_found_whatever_the_case_of_its_name(path: Path) -> None:
    apply(opened("duckdb", path, table="Totals"), 3, insert(0, "chai", 0))
    assert opened("duckdb", path, table="TOTALS").last_batch() == 3


def test_a_table_with_other_columns_is_refused(path: Path) -> None:
    ask(path, "CREATE TABLE minute_totals (window_start TEXT, paise DOUBLE)")
    text = refused_opening(path)
    assert text.startswith(
        f"duckdb sink {path}: the table minute_totals has other columns (without window_end, "
    )
    assert "paise double instead of decimal128(28, 0)); drop or rename it, or give the sink another" in text
    assert ask(path, "SELECT name FROM sqlite_master") == [("minute_totals",)]


def test_the_table_of_another_pipeline_is_refused(path: Path) -> None:
    opened("duckdb", path)
    assert "the table minute_totals belongs to output minute_totals of pipeline upi; give the sink" in (
        refused_opening(path, pipeline="cards")
    )


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("ledger of the shop\n" * 100)
    assert refused_opening(path) == (
        f"duckdb sink {path}: the file is not a DuckDB database; move it away, or give the sink another "
        "path. Nothing is lost: the next run catches this sink up."
    )


def test_a_folder_in_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir()
    assert "the file cannot be opened; see that it is a file in a folder you may write to" in (
        refused_opening(path)
    )


def test_a_file_that_was_half_made_is_no_obstacle(path: Path) -> None:
    path.with_name(f".{path.name}.tmp").write_text("half")
    assert opened("duckdb", path).last_batch() == -1


def test_without_the_package_the_error_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "it needs the package duckdb; install it: pip install 'latecomer[duckdb]'" in refused_opening(path)


@pytest.mark.parametrize("how", ["writes", "reads"])
def test_a_file_that_another_process_holds_is_refused_and_then_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.05)
    sink = opened("duckdb", path)
    with held_by_another(path, how):
        assert refusal(sink, 12) == (
            f"duckdb sink {path}: another program held the database for 0.05 s; close it or let it finish. "
            "Nothing is lost: the next run continues with batch 12."
        )
    apply(sink, 12, insert(0, "chai", 0))
    assert sink.last_batch() == 12


def test_a_file_that_is_held_for_a_moment_is_waited_for(path: Path) -> None:
    sink = opened("duckdb", path)
    with held_by_another(path):
        waiting = threading.Thread(target=apply, args=(sink, 0, insert(0, "chai", 0)))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
    waiting.join()
    assert sink.last_batch() == 0


def test_a_connection_of_the_same_process_that_reads_is_an_outage_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.05)
    sink = opened("duckdb", path)
    with closing(duckdb.connect(path, read_only=True)), pytest.raises(SinkOutage, match="held the database"):
        apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 0, insert(0, "chai", 0))
    assert sink.last_batch() == 0


def test_a_run_goes_on_without_a_file_that_is_held_and_catches_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.01)
    fed, clock = Fed(tmp_path, "[{duckdb: results.duckdb}, {jsonl: changes}]"), HandClock()
    keeper = SinkKeeper(fed.store, clock)
    keeper.start(-1)
    down, other = keeper.workers
    with held_by_another(tmp_path / "results.duckdb"):
        for batch in range(3):
            fed.publish(batch, "chai")
            keeper.announce(batch)
        eventually(lambda: down.outage is not None and not other.behind)
        shown = {row["sink"]: row for row in sink_status(open_store(fed.pipeline)).to_pylist()}
        assert (shown["duckdb"]["state"], shown["duckdb"]["behind"]) == ("down", 3)
        assert "another program held the database" in shown["duckdb"]["reason"]
    clock.seconds += 100
    keeper.finish()
    keeper.close()
    assert len(rows_of_duckdb(tmp_path / "results.duckdb", "totals")) == 3
    shown = {row["sink"]: row for row in sink_status(open_store(fed.pipeline)).to_pylist()}
    assert (shown["duckdb"]["state"], shown["duckdb"]["last_batch"]) == ("up to date", 2)


def test_a_database_that_was_taken_away_is_not_made_anew_in_the_middle(path: Path) -> None:
    sink = opened("duckdb", path)
    path.unlink()
    assert "the file cannot be opened; see that it is a file" in refusal(sink, 12)
    assert not path.exists()


def test_a_table_dropped_in_the_middle_is_one_sentence(path: Path) -> None:
    sink = opened("duckdb", path)
    ask(path, "DROP TABLE minute_totals")
    assert "the database refused (Catalog Error: Table with name minute_totals does not exist!" in (
        refusal(sink, 12)
    )


def test_many_keys_of_one_window_are_replaced_in_one_batch(path: Path) -> None:
    sink = opened("duckdb", path)
    keys = [None, *map(str, range(3_000))]
    apply(sink, 0, *(insert(0, key, 0) for key in keys))
    apply(
        sink, 1, *(insert(0, key, 1) for key in keys[:2_000]), *(retract(0, key, 0) for key in keys[2_500:])
    )
    found = [row["sequence"] for row in rows_of_duckdb(path)]
    assert (found.count(1), found.count(0)) == (2_000, 500)
    assert SHAPE.place == ("window_start", "window_end", "merchant")


def test_what_a_crash_left_beside_the_file_is_made_private_with_it(path: Path) -> None:
    opened("duckdb", path)
    beside = path.with_name(f"{path.name}.wal")
    beside.write_bytes(b"rows")
    for file in (path, beside):
        file.chmod(0o644)
    keep_to_user(path)
    assert [file.stat().st_mode & 0o777 for file in (path, beside)] == [0o600, 0o600]
