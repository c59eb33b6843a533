"""Patterns: those of JavaScript, held against Python's `re` where both mean the same, and quick where `re` is not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.schemas.jsonschema import SchemaError, schema_of
from latecomer.schemas.jsonschema.patterns import LONGEST_PATTERN, NotRun, cost, matches

SOON = 60.0  # seconds: of a processor that may be lent to others

LETTERS = st.sampled_from(
    ["a", "b", "-", "0", r"\d", r"\w", r"\D", "[ab]", "[^a]", "[a-c0]", r"[\d-]", ".", r"\.", r"\-"]
)
PARTS = st.recursive(
    LETTERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"({'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    ),
    max_leaves=6,
)
PATTERNS = st.tuples(st.sampled_from(["", "^", r"\b"]), PARTS, st.sampled_from(["", "$", r"\B"])).map("".join)


@pytest.mark.drawn
@drawn(300)
@given(PATTERNS, st.lists(st.text("abc-0. ", min_size=1, max_size=6), min_size=3, max_size=6))
def test_patterns_are_found_where_python_finds_them(pattern: str, texts: list[str]) -> None:
    theirs = re.compile(pattern.replace("$", r"\Z"))
    for text in texts:
        assert matches(pattern, text) == bool(theirs.search(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("^a$", "a", "a\n"),  # JavaScript's $ is the end; Python's may stand before a last line break
        (r"^\d$", "7", "٧"),
        (r"^\w$", "a", "é"),
        (r"^\s$", "\u00a0", "\u200b"),
        (r"^\p{L}+$", "éa", "a1"),
        (r"^\P{Lu}$", "a", "A"),
        (r"^[\p{Lu}\d]$", "É", "é"),
        (r"^\u00e9$", "é", "e"),
        (r"^\u{1F600}$", "😀", "a"),
        (r"^\x41\cJ$", "A\n", "A"),
        ("^(?<year>[0-9]{4})$", "2026", "202"),
        ("", "", None),
        ("a|", "", None),
        ("^(|a)*$", "aa", "b"),
        # as they are without the flag `u`
        ("^a{,2}$", "a{,2}", "aa"),
        ("^{$", "{", "}"),
        (r"^[\w-.]+@x$", "a-b.c@x", "a+b@x"),
        (r"^\d-[\d-]$", "1--", "1-x"),
        (r"^[\\w-z]$", "x", "a"),
    ],
)
def test_patterns_are_those_of_javascript(pattern: str, found: str, not_found: str | None) -> None:
    assert matches(pattern, found)
    assert not_found is None or not matches(pattern, not_found)


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "*", "a**", "+a", "[b-a]", "a{2,1}", "\\", r"\u12"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaError, match="is no regular expression"):
        schema_of({"pattern": pattern})


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?!x)",
        "(?<=a)b",
        r"(a)\1",
        "((a{0,1000}){0,1000}){0,1000}",
        r"^\p{L}{1,1000}$",
        "a" * (LONGEST_PATTERN + 1),
    ],
)
def test_what_is_not_run_is_still_a_pattern(pattern: str) -> None:
    assert matches(pattern, "a") is None
    with pytest.raises(NotRun):
        cost(pattern)
    assert schema_of({"pattern": pattern}).root.pattern == pattern


def test_the_larger_a_pattern_the_more_it_costs() -> None:
    assert cost("^[A-Z]{3}$") <= 300
    assert cost("^[A-Z]{3}$") < cost("^.{1,255}$") < cost("^.{1,1000}$") <= 20_000


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(a*)*b", "(x+x+)+y"])
def test_no_pattern_tries_for_ever(pattern: str) -> None:
    begun = time.thread_time()
    assert not matches(pattern, "a" * 20_000 + "!" + "x" * 20_000)
    assert time.thread_time() - begun < SOON
