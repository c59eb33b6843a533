"""Patterns: held against Python's `re` where both mean the same, and quick where `re` is not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.model.jsonschema.patterns import MOST_STATES, NoPattern, NotRun, Pattern

SOON = 120.0  # seconds: of a processor that may be lent to others; what is not bounded would take hours

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
    ours, theirs = Pattern(pattern), re.compile(pattern.replace("$", r"\Z"))
    for text in texts:
        assert ours.found_in(text) == bool(theirs.search(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("^a$", "a", "a\n"),  # JavaScript's $ is the end; Python's may stand before a last line break
        (r"^\d$", "7", "٧"),
        (r"^\w$", "a", "é"),
        (r"^\s$", "\u00a0", "\u200b"),
        ("^.$", "\x85", "\u2028"),
        (r"^\p{L}+$", "éa", "a1"),
        (r"^\P{Lu}$", "a", "A"),
        (r"^[\p{Lu}\d]$", "É", "é"),
        (r"^\u00e9$", "é", "e"),
        (r"^\u{1F600}$", "😀", "a"),
        (r"^\x41\cJ$", "A\n", "A"),
        (r"^[\b]$", "\b", "b"),
        (r"^[^]$", "a", ""),
        ("^(?<year>[0-9]{4})$", "2026", "202"),
        ("^a{,2}$", "a{,2}", "aa"),  # no repetition in JavaScript
        ("^{$", "{", "}"),
        ("", "", None),
        ("a|", "", None),
        ("^(|a)*$", "aa", "b"),
    ],
)
def test_patterns_are_those_of_javascript(pattern: str, found: str, not_found: str | None) -> None:
    assert Pattern(pattern).found_in(found)
    assert not_found is None or not Pattern(pattern).found_in(not_found)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[a",
        "*",
        "a**",
        "+a",
        "^*",
        "{2}",
        "[b-a]",
        "a{2,1}",
        r"\u12",
        "(?<>a)",
        "\\",
        r"\cé",
        r"\u{110000}",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(NoPattern):
        Pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?i)a",
        r"\k<x>",
        r"\Aa",
        r"\p{Greek}",
        "[a&&b]",
        r"\ud800",
        "a{2001}",
        "((a{50}){50}){50}",
        "(" * 40 + ")" * 40,
        "a" * 20_000,
    ],
)
def test_what_is_not_run_is_said(pattern: str) -> None:
    with pytest.raises(NotRun):
        Pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "^(a*)*$",
        "(a*)*b",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*)(.*)(.*)(.*)(.*)x",
        "(a?){500}a{500}$",
        "^((a{0,9}){0,9}){0,9}$",
        "(()*)*",
        "(){1000000}",
        "(a{0}){1000000}",
    ],
)
def test_no_pattern_tries_for_ever(pattern: str) -> None:
    begun = time.thread_time()
    Pattern(pattern).found_in("a" * 200 + "!")
    assert time.thread_time() - begun < SOON


def test_steps_are_counted() -> None:
    spent: list[int] = []
    Pattern("^(a|b)*$").found_in("ab" * 100, spent.append)
    assert 200 < sum(spent) < 200 * MOST_STATES
