"""The slices of an output's dead letters. In a module of their own, because they import more than other slices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from latecomer.after.dataframes.slices import Finish, Slice
from latecomer.store.delta_tables import explained
from latecomer.store.failed import FailedLetters
from latecomer.store.snapshots import Snapshot


@dataclass(frozen=True)
class Letters(Slice):
    """The dead letters of an output in some files, without those that were repaired."""

    table: Snapshot
    standing: FailedLetters
    finish: Finish

    def batches(self) -> Iterator[pa.RecordBatch]:
        with explained(self.table.root):
            yield from self.finish(self.standing.rows(self.table.locations)).to_batches()
