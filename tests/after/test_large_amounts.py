"""What is done after a run adds up the largest amounts exactly: their sums have more digits than Python adds up by
itself."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from latecomer.after.reading import accounts
from latecomer.after.reading.accounts import Accounts, Span
from latecomer.after.replay import comparison
from latecomer.model.aggregates import parse_aggregate
from latecomer.model.durations import to_moment

ONE, TWO = Decimal("9999999999999999999999.999999"), Decimal("19999999999999999999999.999998")
"""The largest amount of an event, and twice as much."""


def test_what_dead_letters_would_have_added(monkeypatch: pytest.MonkeyPatch) -> None:
    letter = {"raw": f'{{"fee": {ONE}}}', "event_time": to_moment(0), "source_partition": "p"}
    letters = pa.Table.from_pylist([letter, letter])
    monkeypatch.setattr(accounts, "standing_letters", lambda _: letters)
    monkeypatch.setattr(accounts, "standing_failed", lambda *_: letters.slice(0, 0))
    monkeypatch.setattr(accounts, "removed_until", lambda *_: -1)
    view = SimpleNamespace(source_name=str)
    pipeline = SimpleNamespace(views={"": view}, source_of=lambda _: "")
    window = SimpleNamespace(assign_all=lambda _: [SimpleNamespace(start=0)])
    output = SimpleNamespace(aggregates={"fees": parse_aggregate("sum(fee)")}, window=window, where=None)
    store: Any = SimpleNamespace(pipeline=pipeline)
    book: Any = SimpleNamespace(output=output, name="minutes")
    assert Accounts(store, book, Span()).dead_letters().amounts == {"fees": TWO}


def test_fates_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    in_ledgers = iter([{("minutes", "fee"): {"dropped": Decimal(0)}}, {("minutes", "fee"): {"dropped": TWO}}])
    monkeypatch.setattr(comparison, "_totals", lambda _: next(in_ledgers))
    side: Any = SimpleNamespace(store=SimpleNamespace(as_amounts=lambda rows: rows))
    rows = comparison.compare_fates(side, side, ["minutes"]).to_pylist()
    assert {row["difference"] for row in rows if row["fate"] == "dropped"} == {TWO}
