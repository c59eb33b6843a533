"""How long after their event time events arrived: counted in the files of the log that a batch has written.

Two columns of these files are read on the driver, batch by batch, with Arrow; no Spark job is needed (ADR 0046).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from latecomer.after.reading.timeline import micros
from latecomer.store.data_files import DataFile
from latecomer.store.layout import TIMESTAMP
from latecomer.store.table import Table

BOUNDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)
"""Seconds. To choose `watermark.delay` one looks for the elbow, which for most sources is between half a minute and ten
minutes."""
_COLUMNS = pa.schema([("event_time", TIMESTAMP), ("arrival_time", TIMESTAMP)])
_MICROS = np.array([bound * 1_000_000 for bound in BOUNDS], np.int64)


@dataclass(frozen=True)
class Delays:
    """Events by how long after their event time they arrived."""

    within: tuple[int, ...]
    """For each of BOUNDS, how many events arrived no later than that: cumulative counts."""
    events: int
    seconds: float
    """The sum of all delays. An event that happened after its arrival counts as 0."""


def delays_in(events: Table, files: Sequence[DataFile]) -> Delays:
    """The delays of the events in some files of the log."""
    counts, count, seconds = np.zeros(len(BOUNDS) + 1, np.int64), 0, 0.0
    with events.explained():
        for rows in events.dataset(files, _COLUMNS).to_batches():
            happened, came = (micros(rows.column(name)) for name in _COLUMNS.names)
            delays = np.maximum(came - happened, 0)
            counts += np.bincount(np.searchsorted(_MICROS, delays), minlength=len(BOUNDS) + 1)
            count += len(delays)
            seconds += float(delays.sum(dtype=np.float64)) / 1e6
    return Delays(tuple(int(each) for each in counts[:-1].cumsum()), count, seconds)
