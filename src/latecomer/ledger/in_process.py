"""What the rows of a table come to, batch by batch, without Spark (ADR 0068)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from latecomer.fast import flat
from latecomer.log.parts import parts_of
from latecomer.model import types
from latecomer.model.ledger import EVENTS
from latecomer.store.table import Table
from latecomer.windowing.tally_in_process import Sums, amount, in_ledger_digits


def amounts_here(
    table: Table, columns: Mapping[str, str], kinds: Mapping[str, str], after: int, last: int
) -> dict[tuple[int, str], Decimal]:
    """Batch and unit → amount, of the batches in (after, last]. `columns` has the column of each measure, `kinds` its
    type."""
    sums, files = Sums([EVENTS, *columns]), table.files()
    wanted = list(dict.fromkeys(["batch", *columns.values()]))
    for part in parts_of(table, files, wanted, table.schema, after=after, last=last):
        amounts = {EVENTS: pa.array(np.ones(part.num_rows, np.int64))}
        amounts |= {
            name: in_ledger_digits(flat(part.column(stored)), kinds[name]) for name, stored in columns.items()
        }
        sums.add({"batch": flat(part.column("batch"))}, amounts)
    digits = {name: types.scale_of(kinds[name]) for name in columns}
    return {
        (batch, unit): amount(number, digits.get(unit, 0))
        for (batch,), found in sums.by_place.items()
        for unit, number in found.items()
    }
