"""How large the store is, table by table: measured every few seconds, in a thread beside the run."""

from __future__ import annotations

import logging
import threading

import pyarrow as pa

from latecomer.errors import LatecomerError
from latecomer.store.store import Store
from latecomer.store.table import Table

LOG = logging.getLogger(__name__)
EVERY_SECONDS = 10.0
_SHARED = ("events", "duplicates", "dead_letters", "repairs", "watermarks", "ledger", "publications")
_OF_OUTPUT = ("panes", "partials", "late", "dead_letters")


class SizeWatch:
    """Sums up the tables' own lists of files; it does not list folders."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[int, int]] = {}
        """Table → its bytes, and how many files it has."""
        self._stopping = threading.Event()

    def start(self, store: Store) -> None:
        names = [
            *_SHARED,
            *(f"outputs/{name}/{each}" for name in store.pipeline.outputs for each in _OF_OUTPUT),
        ]
        # Tables of its own, because a table may be used by one thread only.
        tables = {name: Table(store.root / name, pa.schema([])) for name in names}
        threading.Thread(target=self._watch, args=(tables,), name="latecomer-sizes", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self, tables: dict[str, Table]) -> None:
        while True:
            try:
                self.tables = {name: size for name, table in tables.items() if (size := size_of(table))}
            except (LatecomerError, OSError) as error:
                LOG.debug("the size of the store is not known: %s", error)
            if self._stopping.wait(EVERY_SECONDS):
                return


def size_of(table: Table) -> tuple[int, int] | None:
    """A table's bytes and how many files it has; None where it does not exist."""
    if not table.exists:
        return None
    table.refresh()
    files = table.files()
    return sum(file.size for file in files), len(files)
