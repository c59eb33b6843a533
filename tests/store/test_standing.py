"""The two queries for the panes that stand say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.standing import standing, standing_in_order

PLACE, COLUMNS = "window_start, merchant, km", "window_start, merchant, km, paise, sequence"


@pytest.mark.parametrize("seed", range(3))
def test_panes_in_order_are_those_that_stand(tmp_path: Path, seed: int) -> None:
    """Keys that are null or no number, places with one pane and with many, and sequences that were taken back."""
    rng = np.random.default_rng(seed)
    rows = [
        {"window_start": start, "merchant": merchant, "km": km, "paise": 10 * nth, "sequence": nth, "op": op}
        for start in range(12)
        for merchant in ("amul", "bata", None)
        for km in (0.5, float("nan"), None)
        for nth in range(int(rng.integers(0, 4)))
        for op in ["insert", *["retract"] * int(rng.integers(0, 2))]
    ]
    rng.shuffle(rows)  # type: ignore[arg-type]
    panes = pa.Table.from_pylist(rows)
    table = Table(Location(tmp_path / "panes"), panes.schema)
    for batch, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
        table.append(batch, panes.take(part))
    plain = table.query(f"{standing('t', PLACE, COLUMNS)} order by {PLACE}")
    assert str(table.query(standing_in_order("t", PLACE, COLUMNS)).to_pylist()) == str(plain.to_pylist())
    assert 0 < plain.num_rows < len(rows)
