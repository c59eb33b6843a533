"""Sums and differences in an explanation have all their digits, and one JSON type."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from latecomer.after.explain.explanation import sums
from latecomer.after.explain.fates import Event, JudgedEvent
from latecomer.after.explain.life import LifePane, PublishedNumber, total
from latecomer.model.panes import Timing
from latecomer.model.verdicts import Fate

LONGEST = Decimal("12345678901234567890123456789012345.67")


def paid(fee: Decimal | None) -> JudgedEvent:
    return JudgedEvent(Event(0, 0, 0, 0, payload={"fee": fee}), Fate.ON_TIME)


def test_the_sum_of_no_events_is_written_as_any_other() -> None:
    asked: Any = SimpleNamespace(measures={"fee": "decimal(18,2)"})
    assert sums(asked, []) == {"fee": "0.00"}
    assert sums(asked, [paid(None)]) == {"fee": "0.00"}
    assert sums(asked, [paid(Decimal("600.00"))]) == {"fee": "600.00"}


def test_a_sum_of_decimals_keeps_every_digit() -> None:
    assert total([paid(LONGEST), paid(Decimal("0.01"))], "fee") == Decimal(
        "12345678901234567890123456789012345.68"
    )


def test_a_difference_of_decimals_keeps_every_digit() -> None:
    values = {"fee": LONGEST}
    unknown = dict.fromkeys(("published_at", "ended_at", "fired_at", "watermark"))
    pane = LifePane(0, 1, (), values, 1, Timing.LATE, batch=0, **unknown)
    outcome = PublishedNumber(pane, before={"fee": Decimal("0.01")})
    assert outcome.differences == {"fee": Decimal("12345678901234567890123456789012345.66")}
