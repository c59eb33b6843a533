"""Keys are counted by their hashes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from latecomer.observe.advise.history import hashed


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([7, -1], pa.int64()),
        (["a", ""], pa.string()),
        ([b"\xff", b""], pa.binary()),
        ([Decimal("1.50"), Decimal("-1.50")], pa.decimal128(10, 2)),
        ([True, False], pa.bool_()),
        ([date(2026, 4, 25), date(1970, 1, 1)], pa.date32()),
        ([0.5, -0.5], pa.float64()),
    ],
)
def test_a_key_has_one_hash_in_whatever_part_it_comes(values: list[Any], kind: pa.DataType) -> None:
    """Also where other keys of the part are null."""

    def hashes(listed: list[Any]) -> list[int]:
        rows = pa.record_batch({"key": pa.array(listed, kind), "n": pa.array([1] * len(listed))})
        found: list[int] = hashed(rows, ["key", "n"]).tolist()
        return found

    first, second = hashes(values)
    assert hashes([None, *values, None]) == [hashes([None])[0], first, second, hashes([None])[0]]
    assert len({first, second, hashes([None])[0]}) == 3
