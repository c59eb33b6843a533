"""Events that were delivered again after their ids were forgotten: in the log, and to be counted once. A kernel.

The stream forgets an id when its event could be accepted no more. What comes with it after that is logged as
an event of its own, and is too late for every output that was there. Whoever counts the log anew leaves it
out: of several events with one id and one event time, the one of the first batch counts. (Within a batch there
is only one.) With another event time it is another event, for an id that is forgotten is free again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.log.hashes import hash_ids
from latecomer.model.arrays import flat
from latecomer.spark.base import Buckets, Parted, Runner

if TYPE_CHECKING:
    from latecomer.log.logged import LogSplit

IDS_PER_BUCKET = 1_000_000
"""So many ids are compared in one task."""
_FIRST = f"{PRIVATE}first_batch"
_ROW = f"{PRIVATE}row"
COLUMNS = ("event_id", "event_time", "batch")
"""What has to be known of events."""
_NO_IDS = pa.schema(
    [("event_id", pa.string()), ("event_time", pa.timestamp("us", "UTC")), ("batch", pa.int64())]
).empty_table()


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


def repeated_in(splits: Sequence[LogSplit], through: int, runner: Runner) -> Repeated | None:
    """What came before among the events of the batches up to one; None where nothing did. Tasks compare the ids, bucket
    by bucket, and give those alone that came again."""
    read = [split for split in splits if split.files]
    count = max(-(-sum(split.rows for split in read) // IDS_PER_BUCKET), 1)
    kernel = partial(_ids_by_bucket, (through, count))
    found = runner.run("ids that came again", kernel, read, Buckets(_came_again, range(count)))
    firsts = pa.concat_tables(found.buckets)
    return Repeated(firsts, through) if firsts.num_rows else None


def _ids_by_bucket(asked: tuple[int, int], split: LogSplit) -> Parted[None]:
    """The ids of some events, by the hash of each."""
    (through, count), parts = asked, dict[int, list[pa.Table]]()
    for events in split.tables(COLUMNS):
        ids = events.filter(pc.field("event_id").is_valid() & (pc.field("batch") <= through))
        bucket = hash_ids(flat(ids.column("event_id"))) % np.uint64(count)
        for nth in np.unique(bucket).tolist():
            parts.setdefault(nth, []).append(ids.filter(pa.array(bucket == nth)))
    return Parted(None, {nth: pa.concat_tables(tables) for nth, tables in parts.items()})


def _came_again(_bucket: int, parts: list[pa.Table]) -> pa.Table:
    """Of the ids in a bucket, those that came in several batches, with the first of them."""
    groups = pa.concat_tables([_NO_IDS, *parts]).group_by(["event_id", "event_time"], use_threads=False)
    found = groups.aggregate([("batch", "min"), ("batch", "count")])
    firsts = found.filter(pc.field("batch_count") > 1).select(["event_id", "event_time", "batch_min"])
    return firsts.rename_columns(["event_id", "event_time", _FIRST])
