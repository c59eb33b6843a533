"""What the rows of a table come to, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from latecomer.fast import flat
from latecomer.log.parts import parts_of
from latecomer.model.ledger import EVENTS
from latecomer.store.table import Table
from latecomer.windowing.tally_in_process import Sums, in_ledger_digits


def amounts_in(
    table: Table, columns: Mapping[str, str], after: int, last: int
) -> dict[tuple[int, str], Decimal]:
    """Batch and unit → amount, of the batches in (after, last]. `columns` has the column of each measure."""
    sums, files = Sums([EVENTS, *columns]), table.files()
    wanted = list(dict.fromkeys(["batch", *columns.values()]))
    for part in parts_of(table, files, wanted, table.schema, after=after, last=last):
        amounts = {EVENTS: pa.array(np.ones(part.num_rows, np.int64))}
        amounts |= {name: in_ledger_digits(flat(part.column(stored))) for name, stored in columns.items()}
        sums.add({"batch": flat(part.column("batch"))}, amounts)
    return {
        (batch, unit): amount for (batch,), found in sums.by_place.items() for unit, amount in found.items()
    }
