"""The ledger: received = the sum of the fates."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.ledger import Entry, unbalanced
from latecomer.model.oracle.interpreter import _taken_from
from latecomer.model.verdicts import Fate
from scenarios import quick

AMOUNTS = st.decimals(-(10**12), 10**12, places=2, allow_nan=False, allow_infinity=False)


def entry(received: int | str, **fates: int | str) -> Entry:
    return Entry(
        7, "minutes", "paise", Decimal(received), {Fate(name): Decimal(n) for name, n in fates.items()}
    )


def test_an_entry_balances_when_its_fates_add_up() -> None:
    assert entry(10, on_time=7, late_accepted=2, dead_letter=1).difference == 0


def test_the_difference_is_what_was_lost() -> None:
    assert entry("10.00", on_time="9.99").difference == Decimal("0.01")
    assert entry(1, on_time=1, duplicate=1).difference == -1


def test_an_entry_without_fates_accounts_for_nothing() -> None:
    assert entry(0).difference == 0
    assert entry(3).accounted == 0


def test_only_the_entries_that_do_not_balance_are_named() -> None:
    lost = entry(3, on_time=2)
    assert unbalanced([entry(3, on_time=3), lost, entry(0)]) == [lost]


def test_opposite_errors_in_two_entries_do_not_cancel() -> None:
    assert len(unbalanced([entry(3, on_time=2), entry(3, on_time=4)])) == 2


def test_an_entry_shows_both_sides_and_every_fate() -> None:
    assert str(entry("1E+3", on_time=2, dropped=1)) == (
        "batch 7, output minutes, paise: received 1000 != on_time 2 + late_accepted 0 + side_output 0 + "
        "dropped 1 + duplicate 0 + filtered 0 + failed 0 + dead_letter 0"
    )


def test_an_entry_of_long_decimals_balances() -> None:
    assert unbalanced([entry(10**30 + 1, on_time=10**30, late_accepted=1)]) == []


@given(st.lists(AMOUNTS, min_size=len(Fate), max_size=len(Fate)), AMOUNTS)
@quick
def test_whatever_is_taken_from_one_fate_shows_as_the_difference(
    amounts: list[Decimal], lost: Decimal
) -> None:
    fates = dict(zip(Fate, amounts, strict=True))
    whole = Entry(0, "out", "paise", sum(amounts, Decimal(0)), fates)
    assert whole.difference == 0
    for fate in Fate:
        short = Entry(0, "out", "paise", whole.received, fates | {fate: fates[fate] - lost})
        assert short.difference == lost


def test_repaired_rows_are_subtracted_exactly() -> None:
    letters: list[Any] = [SimpleNamespace(payload={"fee": Decimal("9999999999999999999999.999999")})] * 2
    entry = _taken_from(letters, Entry(0, "minutes", "fee", Decimal(0)))
    twice = Decimal("-19999999999999999999999.999998")
    assert (entry.received, entry.fates) == (twice, {Fate.DEAD_LETTER: twice})
