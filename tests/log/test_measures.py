"""How much of each measure is in dead letters."""

from __future__ import annotations

from decimal import Decimal

import pytest

from latecomer.log.measures import _amount


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("1.0000005", "1.000001"),
        ("9999999999999999999999.999999", "9999999999999999999999.999999"),
        ("9999999999999999999999.9999994", "9999999999999999999999.999999"),
        ("9999999999999999999999.9999995", "0"),
        ("-9999999999999999999999.9999995", "0"),
    ],
)
def test_an_amount_has_six_digits_after_the_point_or_is_none(written: str, amount: str) -> None:
    """Rounded up, the largest ones are larger than an event may have."""
    assert _amount(Decimal(written)) == Decimal(amount)
