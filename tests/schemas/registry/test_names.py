"""Names, versions and naming rules, without a server."""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.schemas.registry.names import LONGEST_SUBJECT, fits, id_of, subject_of, version_of
from latecomer.schemas.registry.refusals import Refused


def outcome(read: Callable[[str], Any], text: str) -> Any:
    """What is read, or the refusal."""
    try:
        return read(text)
    except Refused as refused:
        return refused


@given(name=st.text("ab.", max_size=12), pattern=st.text("ab.*", max_size=8))
def test_a_pattern_fits_as_a_shell_would_have_it(name: str, pattern: str) -> None:
    assert fits(name, pattern) == (re.fullmatch(fnmatch.translate(pattern), name) is not None)


def test_a_pattern_takes_no_longer_for_being_odd() -> None:
    began = time.process_time()
    assert not fits("a" * 500, "*a" * 200 + "b")
    assert time.process_time() - began < 1


@given(name=st.text(max_size=30))
def test_a_name_is_itself_or_refused(name: str) -> None:
    found = outcome(subject_of, name)
    assert found == name or (isinstance(found, Refused) and found.code == 42208)
    assert str(found).replace("…", "").isascii() or found == name


@pytest.mark.parametrize("name", ["a" * LONGEST_SUBJECT, "orders-value", ":a", "...", "com.shop.Order"])
def test_names_that_may_be(name: str) -> None:
    assert subject_of(name) == name


@given(text=st.text("0123456789-+ latestx١", max_size=12))
def test_versions_and_ids_are_numbers_or_refused(text: str) -> None:
    for read, code in ((version_of, 42202), (id_of, 40403)):
        found = outcome(read, text)
        if isinstance(found, Refused):
            assert found.code == code
        else:
            assert found == (-1 if text == "latest" else int(text))
