"""Corrections, and a view of base and corrections, beside the table of a Postgres sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from latecomer.config.contract import RowShape
from latecomer.config.sinks import PostgresSink, corrections_owner
from latecomer.sink.base import Steps
from latecomer.sink.postgres import CORRECTIONS, PostgresLogic, copy_rows
from latecomer.sink.postgres_views import make_view, one_row, run_sql
from latecomer.store.failpoints import failpoint

if TYPE_CHECKING:
    from latecomer.config.postgres_server import Connection

SERVING = "_serving"


class CorrectionsLogic(PostgresLogic):
    """The table with the corrections of another table. All its rows are replaced each time."""

    def __init__(
        self, sink: PostgresSink, base: Path, pipeline: str, output: str, columns: pa.Schema
    ) -> None:
        self._base_name = sink.table or output
        beside = sink.model_copy(update={"table": f"{self._base_name}{CORRECTIONS}"})
        shape = RowShape(
            f"{output}{CORRECTIONS}", corrections_owner(output), ("window_start", "window_end"), columns
        )
        super().__init__(beside, base, pipeline, shape)
        self._view = f"{self._base_name}{SERVING}"

    def replace(
        self, statement: Callable[[str, str], str], names: list[str], rows: Callable[[int], pa.Table]
    ) -> None:
        """Replace the rows of the table, and make the view. `statement` gets the SQL names of base and corrections.
        `rows` gets the last batch of the base, which is locked by then: so the last to write is the last to have read.
        """
        for name in (self._view, *names):
            self._require_short(name, f"of the view: {name}", "choose shorter names")
        self.open()
        with self._transaction() as database:
            self._progress(database, locked=True)
            batch = self._batch_of_base(database)
            run_sql(database, f"DELETE FROM {self._table}")
            schema = self.shape.schema
            copy_rows(database, self._table, rows(batch).select(schema.names).cast(schema))
            self._make_view(database, statement(self._quoted(self._base_name), self._table))
            failpoint("sink.postgres.served", 0)

    def _steps_to(
        self, found: Mapping[str, str], wanted: Mapping[str, str], ours: bool, what: str, fix: str
    ) -> Steps:
        """New aggregates of the output are new columns, and types may become wider. No column may be missing."""
        steps = super()._steps_to(found, wanted, ours, what, fix)
        if set(found) - set(wanted):
            raise self._other_columns(found, wanted, what, fix)
        return steps

    def _batch_of_base(self, database: Connection) -> int:
        select = f"SELECT batch FROM {self._progress_named} WHERE sink_table = %s FOR UPDATE"
        row = one_row(database, select, self._base_name)
        if row is None or self._table_oid(database, self._base_name) is None:
            raise self._outage(
                f"there is no table {self._schema}.{self._base_name} yet", "run the pipeline first"
            )
        return int(row[0])

    def _make_view(self, database: Connection, statement: str) -> None:
        if not make_view(database, self._schema, self._view, statement):
            raise self._refusal(
                f"{self._schema}.{self._view} is no view", "rename it, or give the sink another table"
            )
