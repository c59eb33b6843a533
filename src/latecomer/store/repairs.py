"""Replays of dead letters, in the store.

repairs/               a table with a row for every attempt at a dead letter, and its outcome
repairing/             a replay that has a batch and is not complete
  plan.json            its batch, its moment and its fix: written last, so a plan that exists is whole
  letters.parquet      the records that are to become events
  outcome.parquet      the rows for `repairs`

A dead letter is identified by its batch, origin, position and first reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import SkipValidation, StrictInt, TypeAdapter

from latecomer.model.ledger import EVENTS
from latecomer.store import files
from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.holding.fences import confirm_held
from latecomer.store.layout import DEAD_LETTERS
from latecomer.store.sql import listed
from latecomer.store.standing import DEAD_LETTER_ORDER
from latecomer.store.store import Store

FOLDER = "repairing"
_PLAN, _LETTERS, _OUTCOME = "plan.json", "letters.parquet", "outcome.parquet"
FILED_AS = "letter_reason"
"""The first reason of a dead letter; the newest one may differ."""


@dataclass(frozen=True)
class Repair:
    """A replay of dead letters that has a batch: it is completed, whatever happens."""

    folder: SkipValidation[Location]
    batch: StrictInt
    arrival: StrictInt
    """When its events arrive, in microseconds."""
    fix: Mapping[str, Any]
    forms: Sequence[Mapping[str, Any]]
    """The formats of its records; each record has the number of one."""
    source: str = ""
    """Their source, where there are several."""

    @property
    def letters(self) -> Location:
        return self.folder / _LETTERS

    def outcome(self) -> pa.Table:
        """The outcome of each dead letter, as rows for `repairs`."""
        return files.read_table(self.folder / _OUTCOME)

    def keep(self, letters: pa.Table, outcome: pa.Table) -> None:
        """Write it, durably. From here on its batch is taken."""
        root = self.folder.parent
        confirm_held(root)
        files.remove_all(self.folder)
        files.make_folder(self.folder)
        written = [
            files.write_table(letters, self.letters),
            files.write_table(outcome, self.folder / _OUTCOME),
        ]
        files.sync_files(written, root)
        plan = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "folder"}
        confirm_held(root)
        files.replace_text(self.folder / _PLAN, json.dumps(plan, indent=1) + "\n")

    def tidy(self) -> None:
        """Remove it: it is complete."""
        confirm_held(self.folder)
        files.remove_all(self.folder)


_STORED = TypeAdapter(Repair)


def kept_repair(root: Location) -> Repair | None:
    """The replay that has a batch and may not be complete; None where there is none."""
    folder = root / FOLDER
    text = files.text_of(folder / _PLAN)
    if text is None:
        return None
    with files.as_written(folder / _PLAN):
        return _STORED.validate_python({**json.loads(text), "folder": folder})


_STANDING = "_standing_"
"""Stands for the dead letters that are still dead, in a query."""


def standing_letters(store: Store) -> pa.Table:
    """The dead letters that are still dead, each with its newest reason; FILED_AS is the first."""
    schema = pa.schema([*DEAD_LETTERS, (FILED_AS, pa.string())])
    return _query_standing(
        store, schema, f"select {listed(schema.names)} from {_STANDING} order by {DEAD_LETTER_ORDER}"
    )


def standing_letters_by(store: Store, column: str, since: int = 0) -> pa.Table:
    """The number of dead letters since a batch for each value of a column, the most first, and the detail of one of
    them."""
    schema = pa.schema([DEAD_LETTERS.field(column), ("dead_letters", pa.int64()), ("example", pa.string())])
    return _query_standing(
        store,
        schema,
        f"select {column}, count(*) as dead_letters, min(detail) as example from {_STANDING} where batch >= {since:d} "
        f"group by {column} order by dead_letters desc, {column}",
    )


def _query_standing(store: Store, schema: pa.Schema, query: str) -> pa.Table:
    """The result of a query over `_STANDING`; without rows where there were never any dead letters."""
    standing, others = standing_letters_in_sql(store)
    return store.dead_letters.query_as(schema, query.replace(_STANDING, f"({standing})"), **others)


def standing_letters_in_sql(store: Store) -> tuple[str, dict[str, Table]]:
    """A query for the dead letters that are still dead, over the table of all of them, `t`; and its other tables."""
    repairs = store.repairs
    if not repairs.exists:
        return f"select *, reason as {FILED_AS} from t", {}
    columns = ", ".join(name for name in DEAD_LETTERS.names if name not in ("reason", "detail"))
    newest = (
        "select letter_batch as b, letter_reason as l, origin as o, position as p, repaired, reason as new_reason, "
        "detail as new_detail, row_number() over "
        "(partition by letter_batch, letter_reason, origin, position order by batch desc) as nth "
        f"from r where batch <= {store.ledger.last_batch()}"
    )
    standing = (
        f"select {columns}, coalesce(new_reason, reason) as reason, "
        f"case when new_reason is null then detail else new_detail end as detail, reason as {FILED_AS} "
        f"from t left join (select * from ({newest}) where nth = 1) "
        "on batch = b and reason = l and origin = o and position = p where not coalesce(repaired, false)"
    )
    return standing, {"r": repairs}


Moved = dict[tuple[int, str], Decimal]
"""Batch and unit → the amount of its repaired dead letters."""


def moved_letters(repairs: Table) -> Moved:
    """The number of dead letters that each batch has repaired, and their amounts in the ledger."""
    current = repairs.files()
    if not current:
        return {}
    rows = repairs.dataset(current).to_table(["batch", "amounts"], pc.field("repaired"))
    counts = rows.group_by("batch").aggregate([([], "count_all")]).to_pylist()
    moved = {(row["batch"], EVENTS): Decimal(row["count_all"]) for row in counts}
    amounts = rows["amounts"].combine_chunks()
    each = pc.list_flatten(amounts)
    if len(each):
        batches = rows["batch"].combine_chunks().take(pc.list_parent_indices(amounts))
        units = {"unit": pc.struct_field(each, "unit"), "amount": pc.struct_field(each, "amount")}
        sums = (
            pa.table({"batch": batches, **units}).group_by(["batch", "unit"]).aggregate([("amount", "sum")])
        )
        moved |= {(row["batch"], row["unit"]): row["amount_sum"] for row in sums.to_pylist()}
    return moved
