"""Rows that were read: as Arrow, pandas, Polars or a DataFrame of Spark's, and as a table in a notebook."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.config.arguments import require_kind
from latecomer.errors import MachineError, PipelineError, Problem
from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.markup import arrow_table, escape, fragment, heading, text_table, warning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PRINTED = 20
"""At most so many rows are printed."""
_NAMES = {"pandas": "pandas", "polars": "Polars"}


@dataclass(frozen=True, eq=False)
class Rows:
    """The answer of a pipeline. `arrow()` gives it as it is stored, with all moments in UTC; pandas and Polars show the
    same moments in `zone`. No number is rounded."""

    table: pa.Table
    title: str
    zone: str = "UTC"
    """The zone of the output's windows."""
    nothing: str = "there are no rows"
    """What is shown where there are no rows."""
    notes: Sequence[str] = ()
    """What is missing in the answer."""
    warnings: Sequence[str] = ()

    def arrow(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        return self.table

    def pandas(self) -> Any:
        """The rows as a pandas DataFrame. Its columns keep Arrow's types: whole numbers, decimals and nulls stay
        what they are."""
        pandas = _imported("pandas")
        return self._in_zone().to_pandas(types_mapper=pandas.ArrowDtype)

    def polars(self) -> Any:
        """The rows as a Polars DataFrame."""
        return _imported("polars").from_arrow(self._in_zone())

    def spark(self, session: SparkSession) -> DataFrame:
        """The rows as a DataFrame of a Spark session, which shows moments in the session's own zone."""
        if not hasattr(session, "createDataFrame"):
            problem = Problem("session", "is not a Spark session", session, "give a SparkSession", "spark()")
            raise PipelineError([problem])
        return session.createDataFrame(self.table)

    def head(self, rows: int = 5) -> Rows:
        """The first rows."""
        require_kind("head", int, "a number of rows", rows=rows)
        return replace(self, table=self.table.slice(0, max(rows, 0)))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Whatever reads Arrow reads this, too: `polars.DataFrame(rows)`, `duckdb.from_arrow(rows)`."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        """The first rows as a table, for `print`."""
        table = text_table(self.table, self.zone, _PRINTED) if len(self) else [self.nothing]
        warnings = [f"warning: {text}" for text in self.warnings]
        return harmless("\n".join([self.title, *warnings, *table, *self.notes]), lines=True)

    def __repr__(self) -> str:
        columns = ", ".join(self.table.schema.names)
        return f"<Rows {self.title}: {len(self):,} of {columns}>"

    def _in_zone(self) -> pa.Table:
        fields = [
            field.with_type(pa.timestamp(field.type.unit, self.zone))
            if pa.types.is_timestamp(field.type) and field.type.tz is not None
            else field
            for field in self.table.schema
        ]
        return self.table.cast(pa.schema(fields))

    def _repr_html_(self) -> str:
        rows = counted(len(self), "row") if len(self) else ""
        timed = any(pa.types.is_timestamp(field.type) for field in self.table.schema)
        shown = [*heading(self.title, f"{rows}, times in {self.zone}" if rows and timed else rows)]
        shown += [warning(text) for text in self.warnings]
        shown += arrow_table(self.table, self.zone) if len(self) else [f"<p>{escape(self.nothing)}</p>"]
        shown += [f'<p class="pale">{escape(note)}</p>' for note in self.notes]
        return fragment(shown)


def _imported(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MachineError(
            f"{_NAMES[package]} cannot be imported ({error}); install it (pip install {package}), or take the rows as "
            "they are, with arrow()"
        ) from None
