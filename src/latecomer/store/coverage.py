"""What retention has removed, and from where on the log is whole.

The record is the table `removals`: for each batch, table and unit, how much went, and what the ledger said had
become of the events. It is written before anything is removed, so the batches that it names count as gone,
whatever is still there of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa

from latecomer.errors import NotCovered
from latecomer.model.durations import to_micros
from latecomer.model.windows import AnyWindow
from latecomer.model.zoned import written
from latecomer.store.layout import AMOUNT, TIMESTAMP
from latecomer.store.store import Store
from latecomer.store.table import Table

EVENTS, DUPLICATES, DEAD_LETTERS, LATE = "events", "duplicates", "dead_letters", "late"
LEDGER = "ledger"
"""The ledger loses nothing; what it says of batches that go is recorded, all of them together."""

REMOVALS = pa.schema(
    [
        ("batch", pa.int64()),
        ("table", pa.string()),
        ("output", pa.string()),
        ("unit", pa.string()),
        ("fate", pa.string()),
        ("amount", AMOUNT),
        ("newest_event_time", TIMESTAMP),
        ("removed_at", TIMESTAMP),
    ]
)

Amounts = dict[tuple[int, str], Decimal]
"""Batch and unit → how much."""


def removals(store: Store) -> Table:
    """The record of what retention has removed; for a replay, of the store whose log it reads."""
    return Table((store.replay_of or store.root) / "removals", REMOVALS)


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
    return since is not None and since >= whole + (0 if window is None else window.grows_by)


def require_covered(store: Store, what: str, fix: str) -> None:
    """Refuse what needs all of the log, where it is no longer there."""
    whole = covered_since(store)
    if whole is not None:
        raise NotCovered(
            f"{what} needs the whole log, and retention has removed batches 0 to "
            f"{removed_until(store, EVENTS)} from it: it is whole for event times from {written(whole)} on; {fix}"
        )


def require_windows(
    store: Store, what: str, since: int | None, window: AnyWindow, option: str = "--from"
) -> None:
    """Refuse what needs the events of windows that the log no longer holds."""
    whole = covered_since(store)
    if whole is not None and not covers(store, since, window):
        first = whole + window.grows_by
        asked = "all windows" if since is None else f"windows from {written(since)} on"
        raise NotCovered(
            f"{what} needs every event of {asked}, and retention has removed those up to {written(whole - 1)} from the "
            f"log; ask for windows from {written(first)} on ({option} {written(first)})"
        )


def removed_amounts(store: Store, table: str, output: str | None = None) -> Amounts:
    """What went from a table, batch by batch and in every unit."""
    kept = removals(store)
    if not kept.exists:
        return {}
    of_output = f" and output = '{output}'" if output else " and output is null"
    rows = kept.query(f"select batch, unit, amount from t where \"table\" = '{table}'{of_output}")
    return {(row["batch"], row["unit"]): row["amount"] for row in rows.to_pylist()}


def recorded_fates(store: Store, output: str) -> Mapping[tuple[str, str], Decimal]:
    """Unit and fate → what the ledger said of an output in the batches that went, when they went."""
    kept = removals(store)
    if not kept.exists:
        return {}
    rows = kept.query(
        f"select unit, fate, sum(amount) as amount from t where \"table\" = '{LEDGER}' and output = '{output}' "
        "group by unit, fate"
    )
    return {(row["unit"], row["fate"]): row["amount"] for row in rows.to_pylist()}


def removal_totals(store: Store) -> pa.Table:
    """What went from each table, in every unit: which batches, how much, up to which event time, and when."""
    kept = removals(store)
    schema = pa.schema(
        [
            ("table", pa.string()),
            ("output", pa.string()),
            ("unit", pa.string()),
            ("first_batch", pa.int64()),
            ("last_batch", pa.int64()),
            ("amount", AMOUNT),
            ("newest_event_time", TIMESTAMP),
            ("removed_at", TIMESTAMP),
        ]
    )
    if not kept.exists:
        return store.as_amounts(schema.empty_table())
    rows = kept.query(
        'select "table", output, unit, min(batch) as first_batch, max(batch) as last_batch, '
        "sum(amount) as amount, max(newest_event_time) as newest_event_time, max(removed_at) as removed_at "
        f'from t where "table" <> \'{LEDGER}\' group by "table", output, unit '
        "order by \"table\", output, case unit when 'events' then 0 else 1 end, unit"
    )
    return store.as_amounts(rows.cast(schema))
