"""The dead letters of outputs: events of the log that an output cannot compute (ADR 0057).

A dead letter stands until a rebuild has computed every window of its event again. If the event still fails then, it is
filed again, under the batch of the rebuild.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.verdicts import OnError
from latecomer.model.windows import Session
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, dataset
from latecomer.store.included import IncludedEvents
from latecomer.store.layout import DEAD_LETTERS, PaneLayout
from latecomer.store.store import Store


def letters_of(store: Store, output: str) -> Table:
    """All dead letters of an output, even those that a rebuild has taken in."""
    layout = PaneLayout(store.pipeline.outputs[output], store.layout)
    return store.output_tables(output, layout.published).dead_letters


def standing_failed(store: Store, output: str, columns: Sequence[str] = DEAD_LETTERS.names) -> pa.Table:
    """The events that an output cannot compute and no rebuild has taken in: some columns of its dead letters."""
    table = letters_of(store, output)
    with table.explained():
        return failed_letters(store, output).rows([table.location(file) for file in table.files()], columns)


@dataclass(frozen=True)
class FailedLetters:
    """Which dead letters of an output stand. It can be pickled."""

    rules: Output
    included: IncludedEvents
    last: int
    """The last complete batch."""

    def rows(self, files: Sequence[Location], columns: Sequence[str] = DEAD_LETTERS.names) -> pa.Table:
        """The dead letters in some files that stand."""
        schema = pa.schema([DEAD_LETTERS.field(name) for name in columns])
        if not files:
            return schema.empty_table()
        needed = list(dict.fromkeys([*columns, "batch", "event_time"]))
        letters = dataset(files, DEAD_LETTERS).to_table(needed, pc.field("batch") <= self.last)
        if self.included.cases and letters.num_rows:
            letters = letters.filter(pa.array(~_computed_anew(letters, self.rules, self.included)))
        return letters.select(schema.names).cast(schema)


def failed_letters(store: Store, output: str) -> FailedLetters:
    """Which dead letters of an output stand now."""
    last = store.ledger.last_batch()
    rules, included = store.pipeline.outputs[output], IncludedEvents.of(store, output, last)
    return FailedLetters(rules.without_sinks(), included, last)


def _computed_anew(letters: pa.Table, rules: Output, included: IncludedEvents) -> Flags:
    """For each letter: whether a rebuild has computed every window of its event since it was filed."""
    time, batch = (np.asarray(flat(letters[name]).cast(pa.int64())) for name in ("event_time", "batch"))
    if isinstance(rules.window, Session):
        if rules.on_error is not OnError.NULL:  # no rebuild gives sessions another meaning
            return np.zeros(len(time), bool)
        nth, start, end = np.arange(len(time)), time, time + rules.window.gap
    else:
        nth, start, end, _ = rules.window.assign_many(time)
    all_done = np.ones(len(time), bool)
    all_done[nth[~included.flags(batch[nth], start, end)]] = False
    return all_done
