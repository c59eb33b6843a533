from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from rich.cells import cell_len

from cli.cli_kit import NOON
from latecomer.cli.options import ALL, Format, show
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.zoned import moment_in_words

UTC = pa.timestamp("us", "UTC")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(rows: pa.Table, form: Format, out: io.StringIO | None = None, **options: Any) -> str:
    out = out or io.StringIO()
    show(rows, form, "nothing here", out=out, **options)
    return out.getvalue()


def column(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(values, kind)})


VALUES = [
    (pa.int64(), 2**62, 2**62),
    (UTC, NOON, "2026-04-25T12:00:00Z"),
    (UTC, END_OF_TIME, "9999-12-31T23:59:59.999999Z"),
    (pa.decimal128(38, 6), Decimal("600"), "600.000000"),
    (pa.decimal128(38, 6), Decimal("0.1"), "0.100000"),
    (pa.decimal128(38, 0), Decimal(10**37), 10**37),
    (pa.duration("us"), 30_000_000, 30.0),
    (pa.duration("us"), 1_500_000, 1.5),
    (pa.float64(), float("nan"), "NaN"),
    (pa.float64(), float("-inf"), "-Infinity"),
    (pa.float64(), 0.1, 0.1),
    (pa.bool_(), True, True),
    (pa.date32(), date(2026, 4, 25), "2026-04-25"),
    (pa.binary(), b"\x00\xff", "AP8="),
    (pa.string(), 'naïve "x"\n', 'naïve "x"\n'),
    (pa.string(), None, None),
]


@pytest.mark.parametrize(("kind", "value", "written"), VALUES)
def test_json_rounds_nothing(kind: pa.DataType, value: Any, written: Any) -> None:
    assert json.loads(shown(column([value], kind), Format.JSON)) == [{"x": written}]


@pytest.mark.parametrize(("kind", "value", "written"), VALUES)
def test_csv_can_be_read_back(kind: pa.DataType, value: Any, written: Any) -> None:
    header, row = csv.reader(io.StringIO(shown(column([value], kind), Format.CSV)))
    assert header == ["x"]
    if pa.types.is_decimal(kind):
        assert Decimal(row[0]) == value
    elif value is not None:
        assert row[0] == (str(written).lower() if isinstance(value, bool) else str(written))


def test_no_rows_are_a_sentence_a_list_or_a_header() -> None:
    nothing = column([], pa.int64())
    assert shown(nothing, Format.TABLE) == "nothing here\n"
    assert json.loads(shown(nothing, Format.JSON)) == []
    assert shown(nothing, Format.CSV) == "x\n"


def test_a_limit_of_none_of_the_rows_is_not_an_empty_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing here" not in shown(column([1, 2], pa.int64()), Format.TABLE, limit=0)
    assert json.loads(shown(column([1, 2], pa.int64()), Format.JSON, limit=1)) == [{"x": 1}]
    assert "note: the first 1 of 2 rows" in capsys.readouterr().err


def test_a_table_that_nobody_limited_has_a_hundred_rows_and_says_how_many_there_are() -> None:
    many = column(list(range(1_234)), pa.int64())
    lines = shown(many, Format.TABLE, limit=None).splitlines()
    assert len(lines) == 1 + 100 + 1
    assert lines[-1] == "the first 100 of 1,234 rows; --limit all shows every one"
    assert len(shown(many, Format.TABLE, limit=ALL).splitlines()) == 1 + 1_234
    assert len(json.loads(shown(many, Format.JSON, limit=None))) == 1_234
    assert len(shown(many, Format.CSV, limit=None).splitlines()) == 1 + 1_234


def test_away_from_a_terminal_a_table_is_as_wide_as_its_cells() -> None:
    rows = pa.table({"name": ["n" * 200, "日本"], "paise": [5, 123456789]})
    lines = shown(rows, Format.TABLE).splitlines()
    assert lines[1] == "n" * 200 + "          5"
    assert lines[2].startswith("日本 ")
    assert lines[2].endswith(" 123456789")


def test_on_a_narrow_terminal_text_folds_and_numbers_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    numbers = {f"number_{index}": [10**18 + index] for index in range(4)}
    text = shown(pa.table({"raw": ["r" * 90], **numbers}), Format.TABLE, Terminal())
    assert all(str(10**18 + index) in text for index in range(4))
    assert text.count("r") >= 90
    assert "…" not in text


def test_what_events_bring_is_shown_and_never_obeyed() -> None:
    rows = column(["\x1b[31m[red]boo[/red]\n\x9b"], pa.string())
    for out in (io.StringIO(), Terminal()):
        text = shown(rows, Format.TABLE, out)
        assert "\\x1b[31m[red]boo[/red]\\n\\x9b" in text


def test_decimals_keep_their_digits_unless_units_are_mixed() -> None:
    rows = column([Decimal("5.00"), Decimal("0.25")], pa.decimal128(18, 2))
    assert shown(rows, Format.TABLE).split() == ["x", "5.00", "0.25"]
    assert shown(rows, Format.TABLE, scales={}).split() == ["x", "5", "0.25"]


def test_moments_in_words() -> None:
    assert moment_in_words(END_OF_TIME) == "end of time"
    assert moment_in_words(BEGIN_OF_TIME) == "none yet"
    assert moment_in_words(NOON) == "2026-04-25T12:00:00Z"
    assert "end of time" in shown(column([END_OF_TIME], UTC), Format.TABLE)


def test_on_a_terminal_of_100_columns_names_of_columns_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary of a run is wider than that; its numbers and times are never cut."""
    monkeypatch.setenv("COLUMNS", "100")
    fates = ("on time", "late accepted", "side output", "dropped", "duplicate", "filtered", "dead letter")
    counted = pa.table({"output": ["minute_totals"], "received": [123456], **{name: [1] for name in fates}})
    lines = re.sub(r"\x1b\[\d+m", "", shown(counted, Format.TABLE, Terminal())).splitlines()
    assert max(map(len, lines)) <= 100
    assert "minute_totals" in lines[-1]
    assert "123456" in lines[-1]
    words = " ".join(lines).split()
    assert all(word in words for name in fates for word in name.split())
    moments = pa.table({f"moment_number_{nth}": pa.array([NOON], UTC) for nth in range(6)})
    narrow = shown(moments, Format.TABLE, Terminal())
    assert (narrow.count("2026-04-25"), narrow.count("T12:00:00Z")) == (6, 6), "the day above the time"
    monkeypatch.setenv("COLUMNS", "200")
    assert shown(moments, Format.TABLE, Terminal()).count("2026-04-25T12:00:00Z") == 6


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize(
    "rows",
    [
        pa.table({f"number_{nth}": [10**18 + nth] for nth in range(9)}),
        pa.table(
            {f"sum_of_fees_{nth}": pa.array([Decimal(10**35)], pa.decimal128(38, 2)) for nth in range(3)}
        ),
        pa.table({f"moment_{nth}": pa.array([NOON, END_OF_TIME], UTC) for nth in range(12)}),
        pa.table({"a_name_that_nobody_can_fold" * 4: ["v" * 300], "n": [1]}),
        pa.table({"merchant": ["日本" * 60] * 2, "count": [1, None], "at": pa.array([NOON, None], UTC)}),
        pa.table({f"text_{nth}": ["word " * 9] for nth in range(14)}),
    ],
)
def test_no_line_is_longer_than_the_terminal_is_wide(
    rows: pa.Table, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = re.sub(r"\x1b\[\d+m", "", shown(rows, Format.TABLE, Terminal()))
    assert max(map(cell_len, text.splitlines())) <= width
    if width == 100:  # and nothing is cut
        joined = re.sub(r"\s|[│─]", "", text)
        for column in rows.columns[:9]:
            if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
                assert str(column[0].as_py()) in joined
    assert "…" not in text


def test_where_a_row_does_not_fit_each_column_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = pa.table(
        {"output": ["totals", "minutes"], **{f"number_{nth}": [10**18 + nth] * 2 for nth in range(3)}}
    )
    lines = re.sub(r"\x1b\[\d+m", "", shown(rows, Format.TABLE, Terminal())).splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["output", "totals"],
        ["number_0", str(10**18)],
        ["number_1", str(10**18 + 1)],
        ["number_2", str(10**18 + 2)],
    ]
    assert (lines[0].split()[:2], lines[5].split()[:2]) == (["row", "1"], ["row", "2"])
