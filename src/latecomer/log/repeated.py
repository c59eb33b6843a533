"""Events that were delivered again after their ids were forgotten: in the log, and to be counted once. A kernel.

The stream forgets an id when its event could be accepted no more. What comes with it after that is logged as
an event of its own, and is too late for every output that was there. Whoever counts the log anew leaves it
out: of several events with one id and one event time, the one of the first batch counts. (Within a batch there
is only one.) With another event time it is another event, for an id that is forgotten is free again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.checks import PRIVATE

_FIRST = f"{PRIVATE}first_batch"
_ROW = f"{PRIVATE}row"
COLUMNS = ("event_id", "event_time", "batch")
"""What has to be known of events."""


@dataclass(frozen=True)
class Repeated:
    """The events of a log that came before, in batches up to one."""

    firsts: pa.Table
    """Each id and event time that came in several batches, with the first of them."""
    through: int
    """The last batch that was looked at."""

    def left_out_of(self, events: pa.Table) -> pa.Table:
        """The events, each once."""
        return events.filter(pa.array(~self.which(events)))

    def among(self, events: pa.Table) -> pa.Table:
        """Those of the events that came before."""
        return events.filter(pa.array(self.which(events)))

    def which(self, events: pa.Table) -> npt.NDArray[np.bool_]:
        """Which of the events came before."""
        found = np.zeros(events.num_rows, bool)
        if not self.firsts.num_rows or not events.num_rows:
            return found
        rows = events.select(COLUMNS).append_column(_ROW, pa.array(np.arange(events.num_rows)))
        rows = rows.filter(pc.field("event_id").is_valid() & (pc.field("batch") <= self.through))
        joined = rows.join(self.firsts, ["event_id", "event_time"], join_type="inner", use_threads=False)
        again = joined.filter(pc.field("batch") > pc.field(_FIRST))
        found[again.column(_ROW).to_numpy()] = True
        return found


def repeated_in(parts: Iterable[pa.Table], through: int) -> Repeated | None:
    """What came before among the events of the batches up to one; None where nothing did."""
    tables = [
        part.filter(pc.field("event_id").is_valid() & (pc.field("batch") <= through)).select(COLUMNS)
        for part in parts
    ]
    held = [each for each in tables if each.num_rows]
    if not held:
        return None
    groups = pa.concat_tables(held).group_by(["event_id", "event_time"], use_threads=False)
    found = groups.aggregate([("batch", "min"), ("batch", "count")])
    firsts = found.filter(pc.field("batch_count") > 1).select(["event_id", "event_time", "batch_min"])
    if not firsts.num_rows:
        return None
    return Repeated(firsts.rename_columns(["event_id", "event_time", _FIRST]), through)
