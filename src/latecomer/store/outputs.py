"""The outputs of a store, the last batch of each, and those that are still to be computed from the log."""

from __future__ import annotations

from latecomer.errors import StoreMismatch
from latecomer.store.coverage import require_covered
from latecomer.store.store import Store

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
