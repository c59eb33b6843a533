"""Columns of others: what is a number, a moment, or neither."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from latecomer.after.reading.comparable_values import exact, numbers, plain, together
from latecomer.errors import LatecomerError


def column(values: list[object], kind: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def test_numbers_of_every_type() -> None:
    assert numbers(column([1, None]), "n").to_pylist() == [Decimal(1), None]
    assert numbers(column([1.5], pa.float32()), "n").to_pylist() == [1.5]
    assert numbers(column([" 1.50 ", "2"]), "n").to_pylist() == [Decimal("1.5"), Decimal(2)]
    assert str(numbers(column(["NaN", "1"]), "n").to_pylist()[0]) == "nan"
    assert numbers(column([None, None], pa.bool_()), "n").to_pylist() == [None, None]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_text_of_every_kind_is_plain_text(kind: pa.DataType) -> None:
    assert plain(
        column(["a", None]).cast(kind) if kind != pa.string_view() else column(["a", None], kind)
    ).type == (pa.string())
    assert plain(column([b"a"], pa.large_binary())).type == pa.binary()


@pytest.mark.parametrize(
    ("values", "said"), [(["x" * 100], "is not a number"), ([True], "not numbers"), (["1e50"], "more digits")]
)
def test_what_is_no_number_is_named(values: list[object], said: str) -> None:
    with pytest.raises(LatecomerError, match=f"column paise.*{said}"):
        numbers(column(values), "paise")


def test_columns_are_held_in_one_type() -> None:
    exactly = together([column([1]), column([Decimal("0.25")])], "n")
    assert [each.to_pylist() for each in exactly] == [[Decimal("1.00")], [Decimal("0.25")]]
    assert {each.type for each in together([column([1]), column([0.5])], "n")} == {pa.float64()}
    with pytest.raises(LatecomerError, match="needs more than 38 digits"):
        together([column([Decimal(10**37)]), column([Decimal("0.0000001")])], "n")
    with pytest.raises(LatecomerError, match="has more digits than 38"):
        exact([Decimal("1" + "0" * 30 + ".000000001")], "n")
