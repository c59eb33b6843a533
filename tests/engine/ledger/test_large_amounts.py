"""The ledger adds up the largest amounts exactly: their sums have more digits than Python adds up by itself."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from latecomer.engine.ledger.book import (
    ReceivedAmounts,
    amounts_by_batch,
    entries_of,
    received_amounts,
    require_balance,
    with_duplicates,
)
from latecomer.log.readable import Received
from latecomer.log.summaries import added
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.verdicts import Fate
from latecomer.windowing.fate_counts import Counts

KIND = "decimal(28,6)"
ONE, TWO, THREE = map(
    Decimal,
    ("9999999999999999999999.999999", "19999999999999999999999.999998", "29999999999999999999999.999997"),
)
"""The largest amount of an event, and how much two and three of them are."""


@pytest.mark.parametrize(
    ("logged", "duplicates", "dead_letters"),
    [(THREE, {}, {}), (TWO, {"paise": ONE}, {}), (ONE, {}, {"paise": TWO})],
)
def test_the_largest_amounts_balance(
    logged: Decimal, duplicates: dict[str, Decimal], dead_letters: dict[str, Decimal]
) -> None:
    intake = received_amounts(Received(3, 3, 0, 0), {"paise": logged}, duplicates, dead_letters)
    assert intake.received["paise"] == THREE
    events = {Fate.ON_TIME: Decimal(2), Fate.DROPPED: Decimal(1)}
    paise = {THREE: {Fate.ON_TIME: TWO, Fate.DROPPED: ONE}}.get(logged, {Fate.ON_TIME: logged})
    counts = Counts({EVENTS: events, ASSIGNMENTS: events, "paise": paise})
    require_balance(entries_of(0, "minutes", intake, counts))


def test_sums_of_parts_are_exact() -> None:
    assert added([{"paise": ONE}, {"paise": TWO}], ["paise"]) == {"paise": THREE}
    parts = [Counts({"paise": {Fate.ON_TIME: each}}) for each in (ONE, TWO)]
    assert Counts.joined(parts).fates["paise"][Fate.ON_TIME] == THREE
    rows = [pa.table({"batch": [0], "paise": pa.array([each], pa.decimal128(29, 6))}) for each in (ONE, TWO)]
    assert amounts_by_batch(rows, {"paise": "paise"}, {"paise": KIND}) == {0: {EVENTS: 2, "paise": THREE}}


def test_amounts_are_added_up_batch_by_batch() -> None:
    kinds = {"batch": KIND, "paise": "bigint", "fee": "int"}
    columns = {"batch": "amount", "paise": "paise", "fee": "fee"}
    first = {"batch": [4, 7, 4], "amount": [ONE, TWO, None], "paise": [2**63 - 1] * 3, "fee": [None, 1, None]}
    then = {"batch": [7, 7], "amount": [-ONE, None], "paise": [2**63 - 1] * 2, "fee": [None, -3]}
    schema = pa.schema(
        {"batch": pa.int64(), "amount": pa.decimal128(29, 6), "paise": pa.int64(), "fee": pa.int32()}
    )
    parts = [pa.table(each, schema) for each in (first, then, dict.fromkeys(first, ()))]
    largest = Decimal(2**63 - 1)
    assert amounts_by_batch(parts, columns, kinds) == {
        4: {EVENTS: 2, "batch": ONE, "paise": 2 * largest, "fee": 0},
        7: {EVENTS: 3, "batch": TWO - ONE, "paise": 3 * largest, "fee": -2},
    }
    assert amounts_by_batch(parts, columns, {}) == {4: {EVENTS: 2}, 7: {EVENTS: 3}}


def test_more_duplicates_are_added_exactly() -> None:
    intake = ReceivedAmounts({"paise": THREE}, {"paise": ONE}, {})
    assert with_duplicates(intake, {"paise": TWO}).duplicate == {"paise": THREE}
