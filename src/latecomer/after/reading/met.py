"""The watermark: what each event of the log met, for many events at once; and how far it has come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.array_types import Integers
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.layout import TIMESTAMP
from latecomer.store.store import Store


def micros(moments: pa.Array) -> Integers:
    """Moments as microseconds; none may be missing."""
    return np.asarray(moments.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def met_watermarks(store: Store, batch: Integers, tick: Integers) -> Integers:
    """The watermark that judged each event, from the timeline."""
    if not len(batch):
        return batch
    first, last = int(batch.min()), int(batch.max())
    marks = store.watermarks.query(
        f"select batch, tick, watermark from t where batch between {first} and {last}"
    )
    at = pc.fill_null(marks["watermark"].cast(TIMESTAMP).cast(pa.int64()), BEGIN_OF_TIME)
    ticks = micros(marks["tick"])
    least = min(int(ticks.min()), int(tick.min())) if len(ticks) else 0
    width = max(int(ticks.max()), int(tick.max())) - least + 1 if len(ticks) else 1
    known = (micros(marks["batch"]) - first) * width + ticks - least
    order = np.argsort(known)
    if not len(order):
        return np.full(len(batch), BEGIN_OF_TIME, np.int64)
    wanted = (batch - first) * width + tick - least
    nearest = order[np.minimum(np.searchsorted(known[order], wanted), len(order) - 1)]
    return np.where(known[nearest] == wanted, micros(at)[nearest], BEGIN_OF_TIME)
