"""Unknown fields: which they are, what is kept of them, and that the pattern says the same."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.unknown_fields import (
    BETWEEN,
    KnownFields,
    cutting,
    known_fields,
    members,
    unknown_members,
    unknown_names,
)

KNOWN = ["id", "a b", 'quote"d', "ü", "pricing.base", "pricing.tax.rate", "x.y"]
LISTS = {
    "id": "array<string>",
    "tip": "array<struct<base:bigint,tax:array<struct<rate:int>>>>",
    "x": "map<string,struct<id:int,`i`:string>>",
    "pricing.base": "array<map<string,struct<rate:int>>>",
}
NAMES = st.sampled_from(
    [*KNOWN, "pricing", "tax", "base", "rate", "tip", "x", "", "idd", "i", "id\\", "{", "\n"]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([Decimal("1.10"), Decimal("1E+400"), Decimal("-0.0")]),
    st.text(max_size=5),
    st.sampled_from(['"', "\\", "},", '","id":1', "\\u0041"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
    max_leaves=6,
)
PATTERNS: dict[str, re.Pattern[str]] = {}
RECORDS = st.lists(st.tuples(NAMES, VALUES), max_size=6).map(tuple)


def written(value: Any, draw: Any) -> str:
    """A value as JSON with any white space; objects are pairs, so that a field may come twice."""
    space = draw(st.sampled_from(["", "", " ", "\t ", "\r\n"]))
    match value:
        case tuple():
            pairs = (
                f"{json.dumps(name, ensure_ascii=False)}{space}:{written(each, draw)}" for name, each in value
            )
            return f"{{{space}{f'{space},{space}'.join(pairs)}{space}}}"
        case list():
            return f"[{space}{','.join(written(each, draw) for each in value)}]"
        case Decimal():
            return f"{space}{value}"
    return space + json.dumps(value, ensure_ascii=draw(st.booleans()) if isinstance(value, str) else True)


def unknown_text(text: str, known: KnownFields) -> str | None:
    """What is kept of a record: an object of its unknown fields, as they were written; None where it has none."""
    kept = [text[each.begin : each.end] for each in unknown_members(text, known)]
    return "{" + ",".join(kept) + "}" if kept else None


def cut(text: str, known: KnownFields) -> str | None:
    """The same with the pattern; the text itself where it does not match."""
    key = repr(known)
    if key not in PATTERNS:
        PATTERNS[key] = cutting(known)
    found = PATTERNS[key].match(text)
    if found is None:
        return text
    left = "".join(found.groups()).rstrip(BETWEEN)
    return f"{{{left}}}" if left else None


@given(RECORDS, st.data())
def test_what_is_kept_is_what_is_not_known_letter_for_letter(
    record: tuple[Any, ...], data: st.DataObject
) -> None:
    text, known = written(record, data.draw), known_fields(KNOWN)
    kept = unknown_text(text, known)
    whole = [text[each.begin : each.end] for each in members(text)]
    left = [] if kept is None else [kept[each.begin : each.end] for each in members(kept)]
    assert left == [text[each.begin : each.end] for each in unknown_members(text, known)]
    assert [each for each in whole if each in left] == left
    gone = [each.name for each in members(text) if text[each.begin : each.end] not in left]
    assert set(gone) <= {*KNOWN, "pricing", "x"}


@given(RECORDS, st.data())
def test_the_pattern_keeps_the_same(record: tuple[Any, ...], data: st.DataObject) -> None:
    text, known = written(record, data.draw), known_fields(data.draw(st.sampled_from([KNOWN, LISTS])))
    kept, found = unknown_text(text, known), cut(text, known)
    if found == text and kept != text:  # known and unknown fields take turns too often
        return
    assert (kept is None) == (found is None)
    if kept is not None and found is not None:
        assert [kept[each.begin : each.end] for each in members(kept)] == [
            found[each.begin : each.end] for each in members(found)
        ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"id":1}', None),
        ("{}", None),
        ('{"id":1,"tip":123456789012345678901234567890}', '{"tip":123456789012345678901234567890}'),
        ('{"tip":1.10,"id":{"tip":2}}', '{"tip":1.10}'),
        ('{"t":{"id":1},"id":2,"u":[{"id":3}]}', '{"t":{"id":1},"u":[{"id":3}]}'),
        ('{"pricing":{"base":1},"id":2}', None),
        ('{"pricing":null}', None),
        ('{"pricing":5}', '{"pricing":5}'),
        ('{"pricing":{"base":1,"surge":2}}', '{"pricing":{"base":1,"surge":2}}'),
        (r'{"tip":"a\"b\\","id":1}', r'{"tip":"a\"b\\"}'),
        ('{"tip":1,"tip":2}', '{"tip":1,"tip":2}'),
    ],
)
def test_examples(text: str, kept: str | None) -> None:
    known = known_fields(["id", "pricing.base"])
    assert unknown_text(text, known) == kept
    assert cut(text, known) == kept


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"items":[{"sku":"a"},null,{}],"prices":{"x":{"net":1}}}', []),
        ('{"items":null,"prices":{},"tags":[{"any":1}]}', []),
        ('{"items":[{"sku":"a"},{"sku":"b","color":"red"}]}', ["items[].color"]),
        ('{"prices":{"x":{"net":1,"tax":2}}}', ["prices[].tax"]),
        ('{"items":[{"parts":[{"n":1},{"m":1}]}]}', ["items[].parts[].m"]),
        ('{"cart":{"items":[{"sku":"a","n":1}]}}', ["cart.items[].n"]),
    ],
)
def test_objects_in_lists_and_maps_are_known_if_all_their_fields_are(text: str, names: list[str]) -> None:
    known = known_fields(
        {
            "items": "array<struct<sku:string,parts:array<struct<n:int>>>>",
            "prices": "map<string,struct<net:int>>",
            "tags": "array<string>",
            "cart.items": "array<struct<sku:string>>",
        }
    )
    assert unknown_names(text, known) == names
    assert unknown_text(text, known) == cut(text, known) == (text if names else None)


def test_a_record_that_cannot_be_cut_is_kept_whole() -> None:
    known = known_fields(["id"])
    deep = '{"id":1,"t":' + "[" * 30 + "]" * 30 + "}"
    turns = "{" + ",".join(f'"id":1,"t{nth}":2' for nth in range(30)) + "}"
    for text in (deep, turns, "[1]", "{'id':1,'t':2}"):
        assert cut(text, known) == text


@pytest.mark.parametrize("ending", ["}", "", ',"id"', "]}"])
def test_the_pattern_takes_no_longer_for_what_does_not_match(ending: str) -> None:
    known = known_fields(["id", "pricing.base"])
    text = '{"t":[' + ",".join('{"a":"\\n"}' for _ in range(20_000)) + '],"id":' + "1" * 50_000 + ending
    assert cut(text, known) is not None


def test_names_for_a_report() -> None:
    known = known_fields(["id", "pricing.tax.rate"])
    assert unknown_names('{"pricing":{"tax":{"rate":1,"on":2},"base":1},"id":1,"t":1,"t":2}', known) == [
        "pricing.tax.on",
        "pricing.base",
        "t",
    ]
    assert unknown_names("nothing", known) == []
