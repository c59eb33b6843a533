"""Events that came again after their ids were forgotten, as verbs find them that read the log without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from latecomer.log.repeated import IDS, Repeated, repeated_by_hash
from latecomer.model.counting import counted
from latecomer.store.store import Store

AT_ONCE = 1 << 18
"""So many rows are in memory at a time."""


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
