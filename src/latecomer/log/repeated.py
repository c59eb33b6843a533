"""Events that were delivered again after their ids were forgotten: they are in the log, and count once. A kernel.

The stream forgets an id when its event could not be accepted any more. An event with that id that comes later is logged
as a new one, and is too late for every output that was there. A new computation from the log leaves it out: of several
events with one id and one event time, the one of the first batch counts. (Within a batch there is only one.) With
another event time it is another event: a forgotten id may be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.hashes import hash_ids
from latecomer.log.logged_events import COLUMNS, IDS, LogSplit, Repeated, has_id
from latecomer.log.private_columns import CAME, FIRST_BATCH
from latecomer.model.array_types import Unsigned
from latecomer.model.arrays import flat
from latecomer.model.counting import counted
from latecomer.spark.base import Buckets, Parted, Runner

if TYPE_CHECKING:
    from latecomer.store.store import Store

IDS_PER_BUCKET = 1_000_000
"""How many ids one task compares."""
HASHES_AT_ONCE = 1 << 25
"""So many hashes are in memory at a time where no tasks compare ids."""
AT_ONCE = 1 << 18
"""So many rows are read at a time there."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


def repeated_in(splits: Sequence[LogSplit], through: int, runner: Runner) -> Repeated | None:
    """The repeated events in batches up to `through`; None where there are none. Tasks compare ids, bucket by bucket,
    and return only those that came again."""
    read = [split for split in splits if split.files]
    count = max(-(-sum(split.rows for split in read) // IDS_PER_BUCKET), 1)
    kernel = partial(_ids_by_bucket, (through, count))
    found = runner.run("ids that came again", kernel, read, Buckets(_came_again, range(count)))
    firsts = pa.concat_tables(found.buckets)
    return Repeated(firsts, through) if firsts.num_rows else None


def repeated_by_hash(read: Callable[[], Iterator[pa.Table]], rows: int, through: int) -> Repeated | None:
    """The same in this process, without tasks and in little memory: of most events only a hash is held. `read` reads
    the ids, of so many rows; it is called more than once."""
    count, found = max(-(-rows // HASHES_AT_ONCE), 1), []
    for nth in range(count):
        hashes = [hashed[hashed % np.uint64(count) == nth] for _, hashed in _with_hashes(read, through)]
        ordered = np.sort(np.concatenate([np.empty(0, np.uint64), *hashes]))
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if len(twice):
            some = [ids.filter(pa.array(np.isin(each, twice))) for ids, each in _with_hashes(read, through)]
            found.append(_came_again(nth, some))
    found = [firsts for firsts in found if firsts.num_rows]
    return Repeated(pa.concat_tables(found), through) if found else None


def _with_hashes(read: Callable[[], Iterator[pa.Table]], through: int) -> Iterator[tuple[pa.Table, Unsigned]]:
    """The events that have ids, and for each a hash of its id and event time."""
    for events in read():
        ids = events.select(COLUMNS).filter(has_id(through))
        times = np.asarray(flat(ids.column("event_time")).cast(pa.int64())).view(np.uint64)
        yield ids, hash_ids(flat(ids.column("event_id"))) ^ (times * _ODD)


def _ids_by_bucket(asked: tuple[int, int], split: LogSplit) -> Parted[None]:
    """The ids of some events, by the hash of each."""
    (through, count), parts = asked, dict[int, list[pa.Table]]()
    for events in split.tables(COLUMNS):
        ids = events.filter(has_id(through))
        bucket = hash_ids(flat(ids.column("event_id"))) % np.uint64(count)
        for nth in np.unique(bucket).tolist():
            parts.setdefault(nth, []).append(ids.filter(pa.array(bucket == nth)))
    return Parted(None, {nth: pa.concat_tables(tables) for nth, tables in parts.items()})


def _came_again(_bucket: int, parts: list[pa.Table]) -> pa.Table:
    """The ids of a bucket that came in several batches, with the first of these batches and their number."""
    groups = pa.concat_tables([IDS.empty_table(), *parts]).group_by(
        ["event_id", "event_time"], use_threads=False
    )
    found = groups.aggregate([("batch", "min"), ("batch", "count")])
    firsts = found.filter(pc.field("batch_count") > 1).select(
        ["event_id", "event_time", "batch_min", "batch_count"]
    )
    return firsts.rename_columns(["event_id", "event_time", FIRST_BATCH, CAME])


# For verbs that read the log without Spark


def came_again(store: Store, through: int) -> Repeated | None:
    """The events of batches up to `through` that came before; None if there are none, or if events have no ids."""
    if store.pipeline.event.id is None or through < 0:
        return None

    def read() -> Iterator[pa.Table]:
        for part in store.events.parts(IDS, AT_ONCE, name="ids"):
            yield pa.Table.from_batches([part])

    return repeated_by_hash(read, store.events.rows(), through)


def again_in_words(count: int) -> str:
    """How many events came again.

    >>> again_in_words(1), again_in_words(606)
    ('1 event came again after its id was forgotten', '606 events came again after their ids were forgotten')
    """
    return f"{counted(count, 'event')} came again after {'its id was' if count == 1 else 'their ids were'} forgotten"
