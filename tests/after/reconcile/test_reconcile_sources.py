"""Sources that results are compared with: files, tables and queries, and those that are refused. No Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from after.reconcile.reconcile_kit import against, csv, gap_of, row, start
from cli.cli_kit import Lake, at, pane
from latecomer.after.reconcile.against import Against
from latecomer.errors import PipelineError

KINDS = [
    {
        **pane(0, 0, merchant="amul", shop=1, paise=2**60 + 1, km=0.3, first="amul"),
        "fee": Decimal("12.50"),
        "latest": datetime(2026, 4, 25, 12, 0, 30, tzinfo=UTC),
    },
    {**pane(1, 0, merchant=None, shop=None, paise=None, km=None, first=None), "fee": None, "latest": None},
]
NAMES = ["window_start", "merchant", "shop", "paise", "fee", "km", "first", "latest"]


def as_csv(folder: Path, paise: int) -> dict[str, Any]:
    return {
        "source": csv(
            folder,
            f"""{",".join(NAMES)}
            @0,amul,1,{paise},12.5,0.30000000000000004,amul,2026-04-25T17:30:30+05:30
            @1,,,,,,,""",
        )
    }


def in_columns(paise: int) -> dict[str, pa.Array]:
    """The same numbers in other types than the store has."""
    return {
        "window_start": pa.array([at(0), at(1)], pa.timestamp("ns")),
        "merchant": pa.array(["amul", None]).dictionary_encode(),
        "shop": pa.array([Decimal("1.0"), None], pa.decimal128(5, 1)),
        "paise": pa.array([Decimal(paise), None], pa.decimal128(30, 4)),
        "fee": pa.array([12.5, None], pa.float64()),
        "km": pa.array([0.1 + 0.2, None], pa.float64()),
        "first": pa.array(["amul", None], pa.large_string()),
        "latest": pa.array([datetime(2026, 4, 25, 12, 0, 30), None], pa.timestamp("us")),
    }


def as_parquet(folder: Path, paise: int) -> dict[str, Any]:
    pq.write_table(pa.table(in_columns(paise)), folder / "source.parquet")
    return {"source": str(folder / "source.parquet")}


def as_parquet_folder(folder: Path, paise: int) -> dict[str, Any]:
    rows = pa.table(in_columns(paise))
    (folder / "parts").mkdir(exist_ok=True)
    for nth in range(2):
        pq.write_table(rows.slice(nth, 1), folder / "parts" / f"{nth}.parquet")
    return {"source": str(folder / "parts")}


def as_delta(folder: Path, paise: int) -> dict[str, Any]:
    columns = in_columns(paise)
    columns["window_start"] = columns["window_start"].cast(pa.timestamp("us", "UTC"))
    columns["merchant"] = columns["merchant"].cast(pa.string())
    write_deltalake(str(folder / "delta"), pa.table(columns), mode="overwrite")
    return {"source": str(folder / "delta")}


def as_sqlite(folder: Path, paise: int) -> dict[str, Any]:
    with closing(sqlite3.connect(folder / "books.db")) as database:
        database.execute("drop table if exists told")
        database.execute(f"create table told ({', '.join(NAMES)})")
        outcome = (start(0), "amul", 1, paise, "12.50", 0.1 + 0.2, "amul", "2026-04-25 12:00:30")
        database.execute(f"insert into told values ({', '.join('?' * len(NAMES))})", outcome)
        database.execute("insert into told (window_start) values (?)", (start(1),))
        database.commit()
    return {"source": f"sqlite:{folder / 'books.db'}", "query": "select * from told"}


EVERY_SOURCE = [as_csv, as_parquet, as_parquet_folder, as_delta, as_sqlite]


@pytest.mark.parametrize("write", EVERY_SOURCE)
def test_numbers_are_compared_by_value_whatever_their_type(
    lake: Lake, tmp_path: Path, write: Callable[..., dict[str, Any]]
) -> None:
    lake.panes("kinds", 0, KINDS)
    found = against(lake, "kinds", **write(tmp_path, 2**60 + 1))
    assert found.rows.to_pylist() == []
    assert found.counts["equal"] == 2
    # One paisa in 10^18 is beyond what floating point tells apart.
    found = against(lake, "kinds", **write(tmp_path, 2**60 + 2))
    assert found.counts["different"] == 1
    assert gap_of(found, "paise").gap == 1


def test_a_decimal_that_is_no_whole_number_is_not_rounded(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    found = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10.000001"))
    assert gap_of(found, "paise").gap == Decimal("0.000001")
    assert against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10.0")).equal


def test_columns_are_mapped_and_those_not_there_are_not_compared(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    source = csv(tmp_path, "ts,shop,paise,sum\n@0,amul,99,10")
    found = against(lake, "totals", source, names={"ts": "window_start", "shop": "merchant", "sum": "paise"})
    assert found.equal
    assert "not compared: payments (the source does not have it)" in found.notes


# What is refused


WRONG: dict[str, tuple[str, ...]] = {
    "merchant,paise\namul,1": ("has no column window_start", "--map COLUMN=window_start"),
    "window_start,paise\n@0,1": ("has no column merchant", "it has window_start, paise"),
    "window_start,merchant\n@0,amul": ("has none of the output's aggregates", "--map COLUMN=paise"),
    "window_start,merchant,paise\nnoon,amul,1": ("holds what is not a moment", "'noon'"),
    "window_start,merchant,paise\n@0,amul,one": ("column paise: holds what is not a number", "'one'"),
    "window_start,merchant,paise\n,amul,1": ("is null in 1 of 1 rows", "leave such rows out"),
    "window_start,merchant,paise\n@0,amul,1\n@0,amul,2": ("has 2 rows for one window and key", "amul"),
    "window_start,merchant,paise,paise\n@0,amul,1,2": ("has a column twice", "'paise'"),
    "window_start,merchant,paise\n@0": ("cannot be read", "source.csv"),
    "": ("cannot be read", "source.csv"),
    "window_start;merchant;paise\n@0;amul;1,5": (
        "has semicolons, not commas",
        "'window_start;merchant;paise'",
    ),
    "window_start\tmerchant\tpaise\n@0\tamul\t1": ("has tabs, not commas", "write a comma between columns"),
    "window_start,merchant,paise\n@0,amul,1,5": (
        "Expected 3 columns, got 4",
        "its header is window_start,merchant,paise",
        "a point in decimals (1.5)",
    ),
}


def test_an_error_without_a_message_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> pa.Table:
        raise OSError

    monkeypatch.setattr("latecomer.after.reconcile.against._read_path", fail)
    with pytest.raises(PipelineError, match="cannot be read: OSError"):
        Against(csv(tmp_path, "window_start")).rows()


@pytest.mark.parametrize("text", WRONG)
def test_a_source_that_cannot_be_compared_is_refused(lake: Lake, tmp_path: Path, text: str) -> None:
    with pytest.raises(PipelineError) as refused:
        against(lake, "totals", csv(tmp_path, text))
    for outcome in WRONG[text]:
        assert outcome in str(refused.value)


def test_sources_that_are_not_there_or_not_meant(lake: Lake, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    database = tmp_path / "books.db"
    sqlite3.connect(database).close()
    database.touch()
    source = csv(tmp_path, "window_start,merchant,paise\n@0,amul,1")
    foreign, rows = pa.array([b"caf\xe9"]), tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"merchant": pa.Array.from_buffers(pa.string(), 1, foreign.buffers())}), rows)
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"window_start,merchant,paise\n@0,caf\xe9,1")
    for asked, outcome in (
        ({"source": str(rows)}, "cannot be read: "),
        ({"source": str(latin)}, "cannot be read: "),
        ({"source": "nowhere.csv"}, "there is no such file or folder (value: 'nowhere.csv')"),
        ({"source": str(text)}, "is neither Parquet nor CSV"),
        ({"source": f"sqlite:{database}"}, "query: is missing"),
        ({"source": f"sqlite:{database}.gone", "query": "select 1"}, "there is no such file"),
        ({"source": f"sqlite:{database}", "query": "select * from gone"}, "no such table: gone"),
        ({"source": f"sqlite:{database}", "query": "create table x (a)"}, "not authorized"),
        ({"source": f"sqlite:{text}", "query": "select * from t"}, "file is not a database"),
        ({"source": f"sqlite:{database}", "query": "select 1 as a, 2 as a"}, "returns the column a twice"),
        ({"source": source, "query": "select 1"}, "query: is for databases alone"),
        ({"source": source, "names": {"merchnt": "merchant"}}, "did you mean merchant?"),
        ({"source": source, "names": {"merchant": "paisa"}}, "did you mean paise?"),
        ({"source": "log", "names": {"a": "paise"}}, "map: is for other sources"),
    ):
        with pytest.raises(PipelineError) as refused:
            against(lake, "totals", **asked)
        assert outcome in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        "attach '{}' as other",
        "vacuum into '{}'",
        "pragma journal_mode = wal",
        "select load_extension('{}')",
        "select 1 as window_start; vacuum into '{}'",
        "pragma writable_schema = 1",
        "select * from pragma_writable_schema",
        "select fts3_tokenizer('{}', x'00')",
        "with x as (select 1) insert into payments select * from x",
        "delete from payments returning *",
        "create temp table gone (a)",
        "begin",
    ],
)
def test_a_query_on_sqlite_cannot_write_either(lake: Lake, tmp_path: Path, query: str) -> None:
    as_sqlite(tmp_path, 1)
    written = tmp_path / "written"
    with pytest.raises(PipelineError, match="SQLite cannot answer it"):
        against(lake, "totals", f"sqlite:{tmp_path / 'books.db'}", query=query.format(written))
    assert sorted(file.name for file in tmp_path.glob("books.db*")) == ["books.db"]
    assert not written.exists()
