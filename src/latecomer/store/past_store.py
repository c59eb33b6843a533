"""A store as it was after an earlier batch, to compute its outputs again: the log is read, results go elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Never

import pyarrow as pa
from deltalake import DeltaTable

from latecomer.config.models import Pipeline
from latecomer.errors import BUG, StoreError
from latecomer.store.delta.data_files import DataFile, batches_of
from latecomer.store.delta.readable import APPLICATION
from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.layout import DEAD_LETTERS, LEDGER, REPAIRS, WATERMARKS, ZERO_BEFORE, EventLayout
from latecomer.store.store import Store


class PastTable(Table):
    """A table as it was when a batch was complete. It cannot be made or written."""

    def __init__(self, root: Location, schema: pa.Schema, last: int, zeros: Sequence[str] = ()) -> None:
        super().__init__(root, schema, zeros)
        self.last = last

    def last_batch(self, application: str = APPLICATION) -> int:
        return min(super().last_batch(application), self.last)

    def files(self) -> list[DataFile]:
        return [file for file in self._every_file if batches_of(file)[0] <= self.last]

    def _commit(self, *_: object, **__: object) -> Never:
        self._refuse()

    @cached_property
    def _every_file(self) -> list[DataFile]:
        return super().files()

    def _create_or_open(self) -> DeltaTable:
        return self._open() or self._refuse()

    def _refuse(self) -> Never:
        raise StoreError(f"table {self.root} is only read here; {BUG}")


class ReplayStore(Store):
    """A store over the log of another store, as it was after batch `last`.

    Outputs and ledger are its own. The timeline is that of the other store, unless it is computed anew.
    """

    def __init__(self, pipeline: Pipeline, origin: Store, last: int, new_timeline: bool) -> None:
        super().__init__(pipeline, origin.columns)
        self.wide_sums = origin.wide_sums  # so that numbers of the two can be compared
        self.layout = EventLayout(pipeline, self.columns, self.wide_sums)
        self.replay_of = origin.root
        self.logged_every = origin.pipeline.watermark.every
        schema = self.layout.schema
        self.events = self._log = PastTable(origin.root / "events", schema, last)
        self.duplicates = PastTable(origin.root / "duplicates", schema, last)
        self.dead_letters = PastTable(origin.root / "dead_letters", DEAD_LETTERS, last)
        self.repairs = PastTable(origin.root / "repairs", REPAIRS, last)
        self.past_ledger = PastTable(origin.root / "ledger", LEDGER, last, ZERO_BEFORE)
        self.past_watermarks = PastTable(origin.root / "watermarks", WATERMARKS, last)
        if not new_timeline:
            self.watermarks = self.past_watermarks

    def go_to(self, batch: int) -> None:
        """Let the log end with this batch."""
        self._log.last = batch
