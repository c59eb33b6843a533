"""A store after a power cut: torn commits are set aside, and a store that lacks more is refused.

Each step of a batch is on the disk before the next one begins. So only the newest commit of a table can be torn, and
nothing builds on it: the batch is simply run again. A store that lacks more was not written in that order, and is
refused: an earlier version wrote it, the disk did not sync, or it is a copy of a store in use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from latecomer.errors import StoreError
from latecomer.store import files
from latecomer.store.delta import commits
from latecomer.store.delta.commits import tables_in
from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.holding.lock import exclusive
from latecomer.store.store import Store

LOG = logging.getLogger(__name__)
_ASIDE = ("dead_letters", "repairs", "duplicates")
_LOGS = (*_ASIDE, "events", "watermarks")
_PUBLISHED = ("panes", "late", "dead_letters", "partials")
RESTORE = (
    "if this is a copy of a store in use, copy it again while no run holds it; else restore the store from a backup, "
    "or start a new store and read the source again"
)


@contextmanager
def held_for_run(
    root: Location, *, takeover: float | None = None, standby: threading.Event | None = None
) -> Iterator[list[Location]]:
    """Hold the store for one run. Gives the torn commits that were set aside.

    If the run fails before their batches are committed again, they are put back: without them, the store could be read
    without an error although it lacks a batch.
    """
    files.require_conditional_puts(root)  # before anything is written
    aside: list[Location] = []
    with exclusive(root, takeover=takeover, standby=standby, mend=lambda: aside.extend(set_aside_torn(root))):
        try:
            yield aside
        except BaseException:
            for file in aside:
                commits.put_back(file)
            raise


def set_aside_torn(root: Location) -> list[Location]:
    """Set aside torn commits, each the newest of its table. Gives their new locations."""
    moved = (commits.set_torn_commit_aside(table) for table in tables_in(root))
    aside = [file for file in moved if file is not None]
    for file in aside:
        LOG.warning(
            "a commit was incomplete, as after a power cut, and is set aside: %s; its batch is run again",
            file,
        )
    return aside


def require_whole_tables(root: Location) -> None:
    """Refuse a store with a torn commit; the error has the fix."""
    for table in tables_in(root):
        Table(table, None).last_batch()


def require_unbroken(store: Store) -> None:
    """Refuse a store in which one table lacks a batch that another has, or a file of a commit is missing.

    A copy of a store in use is like that: its tables are of different moments. A table is read before those that it
    builds on, so that a concurrent run does no harm.
    """
    complete, timeline = (table.last_batch() for table in (store.ledger, store.watermarks))
    if complete > timeline:
        raise StoreError(_lacks(store, complete, "ledger", "timeline"))
    store.ledger.refresh()  # a run may go on, but its timeline is at most one batch ahead
    if timeline > store.ledger.last_batch() + 1:
        raise StoreError(_lacks(store, timeline - 1, "timeline", "ledger"))
    _require_reached(store, store.ledger, _LOGS)
    _require_reached(store, store.events, _ASIDE)
    for output in store.pipeline.outputs:
        require_output(store, output)
        _require_not_ahead(store, output)
    for table in tables_in(store.root):
        if (file := Table(table, None).missing_file()) is not None:
            raise StoreError(f"table {table}: the file {file.path} is missing, or not whole; {RESTORE}")
    if timeline < 0:
        return
    sql = "select max(batch) as last from t where kind in ('tick', 'repair')"
    (last_data,) = (row["last"] for row in store.watermarks.query_rows(sql))
    store.events.refresh()
    if last_data is not None and last_data > store.events.last_batch():
        raise StoreError(_lacks(store, last_data, "timeline", "log"))


def require_output(store: Store, output: str) -> None:
    """Refuse an output whose published tables are behind the ledger."""
    _require_reached(store, store.ledger, [f"outputs/{output}/{name}" for name in _PUBLISHED])


def _require_not_ahead(store: Store, output: str) -> None:
    """Refuse an output with a table that is ahead of the one that is committed before it, or of the batch under way.

    A batch commits panes, then the open states, then the ledger. With states but without the panes made of them, the
    batch would publish too little when it is run again.
    """
    states, panes = (Table(store.root / "outputs" / output / name, None) for name in ("partials", "panes"))
    ahead, published = states.last_batch(), panes.last_batch()
    if ahead > published:
        raise StoreError(_lacks(store, ahead, f"open states of {output}", "panes"))
    store.ledger.refresh()
    if published > store.ledger.last_batch() + 1:
        raise StoreError(_lacks(store, published - 1, f"panes of {output}", "ledger"))


def _require_reached(store: Store, witness: Table, names: Iterable[str]) -> None:
    """Refuse tables that are behind the batch that another table, the witness, has recorded of them.

    The witness is read first: with a concurrent run, the tables are then as far or further.
    """
    expected = {name: witness.reached_by(name) for name in names}
    for name, batch in expected.items():
        last = Table(store.root / name, None).last_batch() if batch >= 0 else batch
        if last < batch:
            raise StoreError(
                f"store {store.root}: {witness.root.name} says that {name} has batch {batch}, and it ends with "
                f"batch {last}; {RESTORE}"
            )


def _lacks(store: Store, batch: int, ahead: str, behind: str) -> str:
    return f"store {store.root}: batch {batch} is in the {ahead} and not in the {behind}; {RESTORE}"
