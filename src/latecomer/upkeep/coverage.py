"""What retention has removed, and from where on the log is whole.

The record is the table `removals`: for each batch, table and unit, how much went. It is written before
anything is removed, so the batches that it names count as gone, whatever is still there of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa

from latecomer.errors import NotCovered
from latecomer.model.durations import iso, to_micros
from latecomer.model.windows import AnyWindow, Session
from latecomer.store.layout import AMOUNT, TIMESTAMP
from latecomer.store.store import Store
from latecomer.store.table import Table

EVENTS, DUPLICATES, DEAD_LETTERS, LATE = "events", "duplicates", "dead_letters", "late"

REMOVALS = pa.schema(
    [
        ("batch", pa.int64()),
        ("table", pa.string()),
        ("output", pa.string()),
        ("unit", pa.string()),
        ("amount", AMOUNT),
        ("newest_event_time", TIMESTAMP),
        ("removed_at", TIMESTAMP),
    ]
)

Amounts = Mapping[tuple[int, str], Decimal]
"""Batch and unit → how much."""


def removals(store: Store) -> Table:
    """The record of what retention has removed."""
    return Table(store.root / "removals", REMOVALS)


def kind_of_removal(table: str, output: str | None = None) -> str:
    """What is removed together, and recorded under a transaction of its own."""
    return f"latecomer.{table}" + (f":{output}" if output else "")


def removed_until(store: Store, table: str, output: str | None = None) -> int:
    """The last batch whose rows are gone from a table, -1 where none are."""
    return removals(store).last_batch(kind_of_removal(table, output))


def covered_since(store: Store) -> int | None:
    """The event time, in microseconds, from which on the log holds every event; None where it holds all."""
    table = removals(store)
    if table.last_batch(kind_of_removal(EVENTS)) < 0:
        return None
    newest = table.query(f"select max(newest_event_time) as n from t where \"table\" = '{EVENTS}'")
    found = newest.column("n")[0].as_py()
    return None if found is None else to_micros(found) + 1


def covers(store: Store, since: int | None, window: AnyWindow | None = None) -> bool:
    """Whether the log holds all events of the windows that start at a moment or later; None for all windows.

    A session that starts right where the log begins may be the end of a longer one.
    """
    whole = covered_since(store)
    if whole is None:
        return True
    return since is not None and since >= whole + (window.gap if isinstance(window, Session) else 0)


def require_covered(store: Store, what: str, mend: str) -> None:
    """Refuse what needs all of the log, where it is no longer there."""
    whole = covered_since(store)
    if whole is not None:
        raise NotCovered(
            f"{what} needs the whole log, and retention has removed batches 0 to "
            f"{removed_until(store, EVENTS)} from it: it is whole for event times from {iso(whole)} on; {mend}"
        )


def removed_amounts(store: Store, table: str, output: str | None = None) -> Amounts:
    """What went from a table, batch by batch and in every unit."""
    kept = removals(store)
    if not kept.exists:
        return {}
    of_output = f" and output = '{output}'" if output else ""
    rows = kept.query(f"select batch, unit, amount from t where \"table\" = '{table}'{of_output}")
    return {(row["batch"], row["unit"]): row["amount"] for row in rows.to_pylist()}
