"""What a task reads of the dead letters of an output. Apart from other slices, for it loads more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from latecomer.after.dataframes.slices import Finish, Slice
from latecomer.store.failed import FailedLetters
from latecomer.store.snapshots import Snapshot
from latecomer.store.table_errors import explained


@dataclass(frozen=True)
class Letters(Slice):
    """The dead letters of an output that stand in some files."""

    table: Snapshot
    standing: FailedLetters
    finish: Finish

    def batches(self) -> Iterator[pa.RecordBatch]:
        with explained(self.table.root):
            yield from self.finish(self.standing.rows(self.table.locations)).to_batches()
