"""Expressions that make derived columns: types and values without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.model.expressions import UnknownType, expression
from latecomer.model.predicates import named_columns

COLUMNS = {
    "n": "bigint",
    "i": "int",
    "x": "double",
    "f": "float",
    "s": "string",
    "ok": "boolean",
    "at": "timestamp",
    "day": "date",
    "price": "decimal(10,2)",
    "pricing.base": "bigint",
    "net amount": "bigint",
}
ROW = {
    "n": 7,
    "i": 3,
    "x": 2.5,
    "s": "abc",
    "ok": True,
    "pricing.base": 100,
    "net amount": 9,
}

TYPES = {
    "n / 100": "double",
    "n + i": "bigint",
    "i * i": "int",
    "i + 1": "int",
    "i + 1L": "bigint",
    "n % 2": "bigint",
    "n div 2": "bigint",
    "-x": "double",
    "x * 2": "double",
    "n & 3": "bigint",
    "s || '!'": "string",
    "`net amount` * 2": "bigint",
    "`pricing.base` + n": "bigint",
    "n > 3 and not ok": "boolean",
    "s like 'a%' or n in (1, 2)": "boolean",
    "n between 1 and 5": "boolean",
    "s is not null": "boolean",
    "s is distinct from 'a'": "boolean",
    "case when n > 3 then 'many' else 'few' end": "string",
    "case n when 1 then 1 when 2 then 20000000000 end": "bigint",
    "if(ok, n, i)": "bigint",
    "coalesce(x, n)": "double",
    "nullif(s, '')": "string",
    "cast(n as decimal(20, 2))": "decimal(20,2)",
    "cast(price * 100 as bigint)": "bigint",
    "s::int": "int",
    "try_cast(s as date)": "date",
    "date '2026-01-01'": "date",
    "at + interval 1 day": "timestamp",
    "at - interval '2' hours": "timestamp",
    "day + 1": "date",
    "split(s, ',')[0]": "string",
    "element_at(split(s, ','), 1)": "string",
    "extract(hour from at)": "int",
    "date_trunc('hour', at)": "timestamp",
    "round(x, 2)": "double",
    "floor(x)": "bigint",
    "try_divide(n, i)": "double",
    "try_add(n, i)": "bigint",
    "abs(i)": "int",
    "pmod(n, 10)": "bigint",
    "greatest(n, i)": "bigint",
    "price": "decimal(10,2)",
    "1.5": "decimal(2,1)",
    "1e3": "double",
    "99999999999": "bigint",
}


@pytest.mark.parametrize(("written", "kind"), TYPES.items(), ids=TYPES.keys())
def test_its_type_is_known(written: str, kind: str) -> None:
    assert expression(written, COLUMNS).kind == kind


@pytest.mark.parametrize(
    "written", ["price * 2", "null", "array(s, n)", "at - at", "n + price", "interval 1 day"]
)
def test_a_type_that_is_not_known_is_to_be_said(written: str) -> None:
    with pytest.raises(UnknownType, match=r"its type is not known here; say it: cast\(.* as TYPE\)"):
        expression(written, COLUMNS)


LISTS = {
    "tags": "array<string>",
    "attrs": "map<string,bigint>",
    "items": "array<struct<sku:string,price:struct<net:decimal(9,2)>>>",
}


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("size(tags)", "int"),
        ("array_contains(tags, 'x') and size(attrs) > 1", "boolean"),
        ("tags[0] || get(tags, 1)", "string"),
        ("attrs['k'] + element_at(attrs, 'b')", "bigint"),
        ("array_max(map_values(attrs))", "bigint"),
        ("element_at(map_keys(attrs), 1)", "string"),
        ("sort_array(array_distinct(tags))[0]", "string"),
        ("items[0].sku", "string"),
        ("element_at(items, -1).price.net", "decimal(9,2)"),
        ("to_json(items)", "string"),
    ],
)
def test_what_is_in_lists_and_maps_has_a_type_and_only_spark_knows_its_value(written: str, kind: str) -> None:
    found = expression(written, LISTS)
    assert (found.kind, found.value) == (kind, None)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tags", "it is array<string>, and a derived column has one value; .* to_json"),
        ("items[0]", "it is struct<.*, and a derived column has one value"),
        ("items[0].color", "has no field color .*; there are sku, price"),
        ("tags[0].x", "its type is not known here"),
    ],
)
def test_a_derived_column_is_no_list(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        expression(written, LISTS)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("n +", "ends too early"),
        ("n n", "has n where it was not expected"),
        ("case n end", "not expected|too early"),
        ("n > ", "ends too early"),
        ("rand()", "depends on chance"),
        ("", "an empty expression"),
        ("cast(n as strin)", "unknown type 'strin'"),
        ("cast(n as decimal(", "not closed"),
    ],
)
def test_what_is_no_expression_is_refused(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        expression(written, COLUMNS)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("n / 100", 0.07),
        ("n + i * 2", 13),
        ("(n + i) * 2", 20),
        ("n - i - 1", 3),
        ("-n", -7),
        ("n / (i - 3)", None),
        ("n * 9223372036854775807", None),
        ("i * 2000000000", None),
        ("s || '-' || 'x'", "abc-x"),
        ("concat(s, '!')", "abc!"),
        ("concat(s, cast(n as string))", "abc7"),
        ("case when n > 3 then 'many' else 'few' end", "many"),
        ("case when n > 30 then 'many' end", None),
        ("case n when 7 then 'seven' end", "seven"),
        ("if(s = 'abc', n, 0)", 7),
        ("coalesce(null, n)", 7),
        ("ok and n > 3", True),
        ("n > 30 and n * 9223372036854775807 > 1", False),
        ("n < 30 or n * 9223372036854775807 > 1", True),
        ("s is null", False),
        ("s is not null", True),
        ("`net amount` + `pricing.base`", 109),
        ("x > 1 and n != x", True),
        ("n in (1, 7.0)", True),
        ("i not between 1 and 2.5", True),
        ("cast(n as tinyint)", 7),
        ("cast(n * 1000 as tinyint)", None),
    ],
)
def test_a_simple_expression_is_computed_without_spark(written: str, value: Any) -> None:
    assert expression(written, COLUMNS).of(ROW) == value


def test_null_makes_null() -> None:
    for written in ("n + 1", "n / 2", "n > 1", "s || 'x'", "-n", "cast(n as string)", "not ok"):
        assert expression(written, COLUMNS).of(dict.fromkeys(ROW)) is None


@pytest.mark.parametrize(
    "written", ["hour(at)", "upper(s)", "f > 1", "price * 2 > 1", "s like 'a'", "n % 2", "n = s"]
)
def test_of_others_spark_is_asked(written: str) -> None:
    assert expression(written, COLUMNS).value is None
    with pytest.raises(ValueError, match="only Spark"):
        expression(written, COLUMNS).of(ROW)


def test_names_are_found() -> None:
    written = "rupees > 5 and `net amount` < rupees and note = 'rupees'"
    assert named_columns(written, ["rupees", "net amount", "note", "other"]) == [
        "rupees",
        "net amount",
        "note",
    ]
