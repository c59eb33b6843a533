"""What retention has removed, the event time since which the log is whole, and the outputs that need all of it.

The record is the table `removals`: for each batch, table and unit, how much was removed, and the fates of the events in
the ledger. It is written before anything is removed: so its batches count as removed, even if some rows still exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa

from latecomer.errors import NotCovered, StoreMismatch
from latecomer.model.durations import to_micros
from latecomer.model.windows import AnyWindow
from latecomer.model.zoned import written
from latecomer.store.delta.table import Table
from latecomer.store.layout import AMOUNT, TIMESTAMP
from latecomer.store.store import Store

EVENTS, DUPLICATES, DEAD_LETTERS, LATE = "events", "duplicates", "dead_letters", "late"
LEDGER = "ledger"
"""Nothing is removed from the ledger. Its sums over the removed batches are recorded."""

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
    """The transaction under which the removals of a table are recorded."""
    return f"latecomer.{table}" + (f":{output}" if output else "")


def removed_until(store: Store, table: str, output: str | None = None) -> int:
    """The last batch whose rows were removed from a table; -1 where none were."""
    return removals(store).last_batch(kind_of_removal(table, output))


def covered_since(store: Store) -> int | None:
    """The event time, in microseconds, since which the log holds every event; None where it holds all."""
    table = removals(store)
    if table.last_batch(kind_of_removal(EVENTS)) < 0:
        return None
    rows = table.query(f"select max(newest_event_time) as n from t where \"table\" = '{EVENTS}'")
    newest = rows.column("n")[0].as_py()
    return None if newest is None else to_micros(newest) + 1


def covers(store: Store, since: int | None, window: AnyWindow | None = None) -> bool:
    """Whether the log holds all events of the windows that start at a moment or later; None for all windows.

    A session that starts where the log begins may be the end of a longer one.
    """
    whole = covered_since(store)
    if whole is None:
        return True
    return since is not None and since >= whole + (0 if window is None else window.grows_by)


def require_covered(store: Store, what: str, fix: str) -> None:
    """Refuse what needs the whole log, where a part was removed."""
    whole = covered_since(store)
    if whole is not None:
        raise NotCovered(
            f"{what} needs the whole log, and retention has removed batches 0 to "
            f"{removed_until(store, EVENTS)} from it: it is whole for event times from {written(whole)} on; {fix}"
        )


def require_windows(store: Store, what: str, since: int | None, window: AnyWindow) -> None:
    """Refuse what needs the events of windows that were removed from the log."""
    whole = covered_since(store)
    if whole is not None and not covers(store, since, window):
        first = whole + window.grows_by
        wanted = "all windows" if since is None else f"windows from {written(since)} on"
        raise NotCovered(
            f"{what} needs every event of {wanted}, and retention has removed those up to {written(whole - 1)} from "
            f"the log; ask for windows from {written(first)} on (--from {written(first)})"
        )


def removed_amounts(store: Store, table: str, output: str | None = None) -> Amounts:
    """How much was removed from a table, by batch and unit."""
    of_output = f" and output = '{output}'" if output else " and output is null"
    rows = removals(store).query_rows(
        f"select batch, unit, amount from t where \"table\" = '{table}'{of_output}"
    )
    return {(row["batch"], row["unit"]): row["amount"] for row in rows}


def recorded_fates(store: Store, output: str) -> Mapping[tuple[str, str], Decimal]:
    """Unit and fate → the amount in the ledger for an output, over the removed batches, when they were removed."""
    rows = removals(store).query_rows(
        f"select unit, fate, sum(amount) as amount from t where \"table\" = '{LEDGER}' and output = '{output}' "
        "group by unit, fate"
    )
    return {(row["unit"], row["fate"]): row["amount"] for row in rows}


def removal_totals(store: Store) -> pa.Table:
    """What was removed from each table, in every unit: which batches, how much, up to which event time, and when."""
    unit, sums = ("table", "output", "unit"), ("amount", "newest_event_time", "removed_at")
    batches = [("first_batch", pa.int64()), ("last_batch", pa.int64())]
    schema = pa.schema([*map(REMOVALS.field, unit), *batches, *map(REMOVALS.field, sums)])
    rows = removals(store).query_as(
        schema,
        'select "table", output, unit, min(batch) as first_batch, max(batch) as last_batch, '
        "sum(amount) as amount, max(newest_event_time) as newest_event_time, max(removed_at) as removed_at "
        f'from t where "table" <> \'{LEDGER}\' group by "table", output, unit '
        "order by \"table\", output, case unit when 'events' then 0 else 1 end, unit",
    )
    return store.as_amounts(rows)


# Outputs, and how far each has come

LAST = (1 << 63) - 1
"""No batch has a larger number."""


def reached_by_output(store: Store, until: int = LAST) -> dict[str, int]:
    """The last batch, up to one, in which each output took part."""
    sql = f"select output, max(batch) as last from t where batch <= {until} group by output"
    return {row["output"]: row["last"] for row in store.ledger.query_rows(sql)}


def outputs_to_compute(store: Store) -> list[str]:
    """The new outputs, to be computed from the log; an error where that is impossible."""
    if store.ledger.last_batch() < 0:
        return []
    reached = reached_by_output(store)
    newest = max(reached.values(), default=-1)
    new = [name for name in store.pipeline.outputs if name not in reached]
    for name in new:
        require_covered(store, f"output {name} is new and", "leave it out, or start a new store")
    for name in store.pipeline.outputs:
        if name in reached and reached[name] < newest:
            raise StoreMismatch(
                f"output {name} was left out of the pipeline after batch {reached[name]}, and the log has gone "
                f"on to batch {newest}; give it a new name, and it is computed from the log"
            )
    return new
