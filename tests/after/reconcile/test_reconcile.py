"""Results held against another account of them. No Spark."""

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

from after.reconcile.reconcile_kit import against, csv, gap_of, lake_in, late, listed, row, start
from cli.cli_kit import MINUTE, NOON, Lake, at, pane
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.gaps import Tolerance
from latecomer.errors import NoStore, PipelineError
from latecomer.errors.redacting import redacted
from latecomer.log.measures import fields_of_letter, number_in_letter
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


# What a row is


def test_windows_and_keys_are_equal_missing_extra_or_different(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(0, None, 5), row(1, "amul", 7), row(2, "bata", 3)])
    source = csv(
        tmp_path,
        """window_start,merchant,paise,payments
        @0,amul,10,1
        @0,,5,1
        @1,amul,9,2
        @3,amul,4,1""",
    )
    found = against(lake, "totals", source)
    assert found.counts == {"equal": 2, "different": 1, "missing": 1, "extra": 1}
    assert not found.equal
    assert not found.explained
    assert listed(found, "window_start", "merchant", "change", "paise", "paise_source") == [
        (at(3), "amul", "missing", None, 4),
        (at(2), "bata", "extra", 3, None),
        (at(1), "amul", "different", 7, 9),
    ]
    paise = gap_of(found, "paise")
    assert (paise.results, paise.source, paise.gap, paise.unexplained) == (25, 28, 3, 3)
    assert paise.percent == Decimal("10.7143")
    assert gap_of(found, "payments").gap == 1


def test_the_number_that_stands_is_compared_not_one_that_was_replaced(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.panes("totals", 1, [{**row(0, "amul", 12, 2), "sequence": 1, "timing": "LATE"}])
    assert against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,12")).equal
    assert not against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10")).equal


def test_an_empty_window_that_is_told_has_no_row_in_any_source(lake: Lake, tmp_path: Path) -> None:
    lake.panes("empty", 0, [row(0, "amul", 10), row(1, "amul", 0, 0)])
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 0, 0)])
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,10,1")
    assert against(lake, "empty", source).counts["equal"] == 2
    assert against(lake, "totals", source).counts["extra"] == 1


def test_the_end_of_a_window_counts_where_the_source_says_it(lake: Lake, tmp_path: Path) -> None:
    lake.panes("sessions", 0, [row(0, "amul", 10)])
    assert against(lake, "sessions", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10")).equal
    other = csv(tmp_path, "window_start,window_end,merchant,paise\n@0,@2,amul,10")
    assert against(lake, "sessions", other).counts == {"equal": 0, "different": 0, "missing": 1, "extra": 1}


def test_a_global_window_needs_no_start(lake: Lake, tmp_path: Path) -> None:
    ends = {"window_start": FIRST_MOMENT, "window_end": END_OF_TIME}
    lake.panes("whole", 0, [{**pane(0, 0, paise=10, payments=2), **ends}])
    assert against(lake, "whole", csv(tmp_path, "paise,payments\n10,2")).equal
    assert not against(lake, "whole", csv(tmp_path, "paise,payments\n11,2")).equal


def test_a_range_leaves_out_other_windows_on_both_sides(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 1), row(1, "amul", 2), row(2, "amul", 3)])
    source = csv(tmp_path, "window_start,merchant,paise\n@1,amul,2\n@3,amul,4")
    found = against(lake, "totals", source, since=at(1), until=at(3))
    assert found.counts == {"equal": 1, "different": 0, "missing": 0, "extra": 1}
    assert against(lake, "totals", source, since=at(1), until=at(2)).equal


# Types


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


# Tolerance


@pytest.mark.parametrize(
    ("written", "ours", "theirs", "equal"),
    [
        ("0.01", "1.00", "1.01", True),
        ("0.01", "1.00", "1.0100001", False),
        ("1%", "99", "100", True),
        ("1%", "98.99", "100", False),
        ("29%", "71", "100", True),
        ("0", "1", "1", True),
    ],
)
def test_a_tolerance_is_exact_at_its_edge(written: str, ours: str, theirs: str, equal: bool) -> None:
    assert Tolerance.parse(written).allows(Decimal(ours), Decimal(theirs)) is equal


def test_floating_point_numbers_are_equal_to_nine_digits() -> None:
    assert Tolerance().allows(0.1 + 0.2, 0.3)
    assert not Tolerance().allows(0.3001, 0.3)
    assert Tolerance().allows(float("nan"), float("nan"))
    assert not Tolerance().allows(None, 0.0)


@pytest.mark.parametrize("written", ["", "x", "-1", "nan", "%", "1%%"])
def test_what_is_no_tolerance_is_refused(written: str) -> None:
    with pytest.raises(PipelineError, match="is not a tolerance"):
        Tolerance.parse(written)


def test_a_tolerance_makes_near_rows_equal(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 100), row(1, "amul", 100)])
    source = csv(tmp_path, "window_start,merchant,paise\n@0,amul,101\n@1,amul,103")
    found = against(lake, "totals", source, tolerance=Tolerance.parse("2"))
    assert found.counts == {"equal": 1, "different": 1, "missing": 0, "extra": 0}
    assert against(lake, "totals", source, tolerance=Tolerance.parse("3%")).equal


# The gap explained


def test_the_side_output_explains_what_it_holds(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 7)])
    lake.late("totals", 0, [late(0, "amul", 3), late(0, "amul", None, 1), late(2, "bata", 4)])
    source = csv(
        tmp_path,
        """window_start,merchant,paise,payments
        @0,amul,13,3
        @1,amul,7,1
        @2,bata,4,1""",
    )
    found = against(lake, "totals", source)
    assert found.counts == {"equal": 1, "different": 1, "missing": 1, "extra": 0}
    assert found.explained
    assert gap_of(found, "paise").known["side_output"] == 7
    assert gap_of(found, "payments").known["side_output"] == 3
    assert gap_of(found, "paise").unexplained == 0
    assert listed(found, "explained") == [(True,), (True,)]


def test_gaps_that_cancel_out_are_not_explained(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 10)])
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,15,1\n@1,amul,5,1")
    found = against(lake, "totals", source)
    assert gap_of(found, "paise").gap == 0
    assert not found.explained
    lake.dead_letters(0, [{"raw": '{"paise": 1}', "reason": "no_event_time"}] * 2)
    assert not against(lake, "totals", source).explained


def test_a_side_output_that_the_source_lacks_too_explains_nothing(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.late("totals", 0, [late(0, "amul", 3)])
    found = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,10,1"))
    assert found.equal
    assert gap_of(found, "paise").known["side_output"] == 0


def test_what_the_accounts_explain_in_part_stays_unexplained(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.late("totals", 0, [late(0, "amul", 3)])
    found = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,14,2"))
    assert gap_of(found, "paise").unexplained == 1
    assert not found.explained


def test_open_windows_explain_what_they_hold(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.partials("totals", 0, [row(1, "amul", 5), row(1, "amul", 6, 2)])
    found = against(
        lake, "totals", csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,10,1\n@1,amul,11,3")
    )
    assert found.counts["missing"] == 1
    assert gap_of(found, "paise").known["not_closed"] == 11
    assert found.explained


def test_of_a_window_told_early_only_what_came_since_is_not_closed(lake: Lake, tmp_path: Path) -> None:
    for output, left in (("early", row(0, "amul", 15, 3)), ("discarding", row(0, "amul", 5, 1))):
        lake.panes(output, 0, [{**row(0, "amul", 10, 2), "timing": "EARLY"}])
        lake.partials(output, 0, [left])
        source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,15,3")
        found = against(lake, output, source)
        assert gap_of(found, "paise").known["not_closed"] == 5
        assert gap_of(found, "payments").known["not_closed"] == 1
        assert found.explained


def test_dead_letters_explain_what_their_text_says(lake: Lake, tmp_path: Path) -> None:
    lake.panes("filled", 0, [pane(0, 0, paid=10, with_fee=1)])
    raws = ['{"paise": 3, "fee": 1}', '{"paise": "4", "fee": null}', "{not json", None]
    lake.dead_letters(0, [{"raw": raw, "reason": "no_event_time"} for raw in raws])
    found = against(lake, "filled", csv(tmp_path, "window_start,paid,with_fee\n@0,17,2"))
    assert gap_of(found, "paid").known["dead_letter"] == 7
    assert gap_of(found, "with_fee").known["dead_letter"] == 1
    assert found.explained
    assert listed(found, "explained") == [(None,)]  # in total: the letters have no window
    assert "2 dead letters have no paise that can be read: counted as none" in found.notes
    worse = against(lake, "filled", csv(tmp_path, "window_start,paid,with_fee\n@0,18,2"))
    assert gap_of(worse, "paid").unexplained == 1
    assert not worse.explained
    assert listed(worse, "explained") == [(False,)]


def test_in_a_range_only_dead_letters_with_an_event_time_there_count(lake: Lake, tmp_path: Path) -> None:
    lake.panes("sliding", 0, [pane(0, 0, paise=10, payments=1)])
    raw = '{"paise": 3}'
    lake.dead_letters(
        0,
        [
            {"raw": raw, "reason": "too_far_ahead", "event_time": NOON + MINUTE // 2},
            {"raw": raw, "reason": "too_far_ahead", "event_time": NOON + 5 * MINUTE},
            {"raw": raw, "reason": "no_event_time"},
        ],
    )
    source = csv(tmp_path, "window_start,paise,payments\n@0,13,2")
    found = against(lake, "sliding", source, since=at(0), until=at(1))
    assert gap_of(found, "paise").known["dead_letter"] == 3
    assert found.explained
    assert "1 dead letter has no event time that tells the window: left out" in found.notes
    # Without a range each is in both windows that slide over it.
    assert gap_of(against(lake, "sliding", source), "paise").known["dead_letter"] == 18


def test_the_ledger_tells_what_was_dropped_in_all_and_no_more(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.ledger(
        0,
        [
            {"output": "totals", "unit": "events", "dropped": 2},
            {"output": "totals", "unit": "assignments", "dropped": 2},
            {"output": "totals", "unit": "paise", "dropped": 9},
            {"output": "sessions", "unit": "paise", "dropped": 100},
        ],
    )
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,19,3")
    found = against(lake, "totals", source)
    assert gap_of(found, "paise").known["dropped"] == 9
    assert gap_of(found, "payments").known["dropped"] == 2
    assert found.explained
    within = against(lake, "totals", source, since=at(0))
    assert gap_of(within, "paise").known["dropped"] is None
    assert not within.explained
    assert "how much was dropped is not known for paise, payments; --against log shows it" in within.notes


def test_only_sums_and_counts_have_totals(lake: Lake, tmp_path: Path) -> None:
    lake.panes("kinds", 0, [pane(0, 0, merchant="amul", shop=1, paise=1, first="amul")])
    found = against(lake, "kinds", csv(tmp_path, "window_start,merchant,shop,first\n@0,amul,1,bata"))
    assert found.counts["different"] == 1
    assert gap_of(found, "first").gap is None
    assert not found.explained
    assert "only sums and counts can be explained, and none was compared" in found.notes


@pytest.mark.parametrize(
    ("raw", "amount"),
    [
        ('{"paise": 3}', 3),
        ('{"paise": "3"} and more', 3),
        ('{"paise": "x"}', None),
        ('{"paise": "1,5"}', None),
        ('{"paise": true}', None),
        ('{"paise": null}', None),
        ('{"paise": [1]}', None),
        ("{}", None),
        ("", None),
    ],
)
def test_a_measure_is_read_out_of_raw_text(lake: Lake, raw: str, amount: int | None) -> None:
    assert number_in_letter(fields_of_letter(raw), "paise", lake.pipeline) == amount


# What is refused


WRONG: dict[str, tuple[str, str]] = {
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


def test_there_must_be_such_an_output_and_a_store(tmp_path: Path, lake: Lake) -> None:
    source = csv(tmp_path, "window_start,merchant,paise\n@0,amul,1")
    with pytest.raises(PipelineError, match="did you mean totals"):
        against(lake, "totls", source)
    lonely = Lake(tmp_path / "lonely" / "pipeline.yaml")
    lonely.file.parent.mkdir()
    lonely.file.write_text(lake.file.read_text())
    with pytest.raises(NoStore):
        against(lonely, "totals", source)


# Passwords


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ana@db/books", "postgresql://ana@db/books"),
        ("postgres://ana:s3cret@db:5432/books", "postgres://ana:***@db:5432/books"),
        ("postgresql://ana:s3@cret@db/books", "postgresql://ana:***@db/books"),
        ("postgresql://ana:s3/cret@db/books", "postgresql://ana:***@db/books"),
        ("postgresql://db/books?user=ana&password=s3cret", "postgresql://db/books?user=ana&password=***"),
        (
            "postgresql://db/books?pasword=s3cret&sslmode=require",
            "postgresql://db/books?pasword=***&sslmode=require",
        ),
        ("POSTGRESQL://ana:s3cret@db", "POSTGRESQL://ana:***@db"),
        ("postgresql:///books", "postgresql:///books"),
        ("books.csv", "books.csv"),
        ("mysql://ana:s3cret@db/books", "mysql://ana:***@db/books"),
        ("host=db user=ana password=s3cret", "host=db user=ana password=***"),
        ("host=db PASSWORD = 's3 cret' port=1", "host=db PASSWORD = *** port=1"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_totals_have_the_digits_of_what_was_compared_whatever_the_amounts_are(
    lake: Lake, tmp_path: Path
) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    for theirs in ("10", "12", "12.00"):
        found = against(lake, "totals", csv(tmp_path, f"window_start,merchant,paise\n@0,amul,{theirs}"))
        scales = {field.name: field.type.scale for field in found.totals.schema if field.name != "aggregate"}
        assert scales.pop("percent") == 4
        assert set(scales.values()) == {0}
    fraction = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10.25"))
    assert fraction.totals["results"].type.scale == fraction.totals["gap"].type.scale == 2
    assert {str(each) for each in fraction.totals["gap"].to_pylist()} == {"0.25"}
