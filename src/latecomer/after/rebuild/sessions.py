"""Sessions that are computed anew, as long as those are in SQL: the one place of a rebuild that knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from latecomer.config.checks import PRIVATE
from latecomer.firing.output import OutputLogic
from latecomer.log.logged import Logged
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.windows import Session
from latecomer.store.sql import quoted
from latecomer.windowing import sessions
from latecomer.windowing.columns import CELL, END, FATE, SESSION, START, WATERMARK
from latecomer.windowing.judge import CODES, as_seen, kept_sql
from latecomer.windowing.judge_in_process import Flags

if TYPE_CHECKING:
    from latecomer.after.rebuild.rebuilt import Range

_WITHIN, _CLOSED, _ROW = f"{PRIVATE}within", f"{PRIVATE}closed", f"{PRIVATE}row"


def whole_sessions(logic: OutputLogic, events: Logged) -> pa.Table:
    """Every session of these events, as if nothing had ever been late: START, END, keys, values and states."""
    output, merger, window = logic.output, logic.merger, _session(logic)
    seen = as_seen(events.frame, logic.store.layout, output).where(kept_sql(output))
    columns = {FATE: f"cast({CODES[Fate.ON_TIME]} as tinyint)", WATERMARK: f"{BEGIN_OF_TIME}L"}
    placed = sessions.with_stretches(seen, window).withColumns(
        {name: F.expr(sql) for name, sql in columns.items()}
    )
    inputs = merger.of_events(placed).withColumn(CELL, F.expr(sessions.cell_sql(window)))
    cells = merger.merge(inputs, within=CELL)
    numbered = sessions.numbered(merger.again(cells), merger.input_keys, window)
    return merger.merge(numbered, within=SESSION).toArrow()


def chosen_sessions(range_: Range, rows: pa.Table) -> Flags:
    """Whether each session, with all that it touches, has closed and reaches into the range."""
    logic, window = range_.logic, _session(range_.logic)
    keys = [quoted(key) for key in logic.layout.keys]
    frame = logic.spark.createDataFrame(rows.append_column(_ROW, pa.array(np.arange(rows.num_rows))))
    together = Window.partitionBy(*keys, SESSION)
    within = f"{START} < {range_.until}L and {END} > {range_.since}L"
    gap = window.gap if range_.whole > BEGIN_OF_TIME else 0
    closed = F.max(END).over(together) <= range_.watermark
    found = (
        sessions.numbered(frame, keys, window)
        .withColumn(_WITHIN, F.max(F.expr(within)).over(together))
        .withColumn(_CLOSED, closed & (F.min(START).over(together) >= range_.whole + gap))
        .where(f"{_WITHIN} and {_CLOSED}")
        .select(_ROW)
        .toArrow()
    )
    chosen = np.zeros(rows.num_rows, bool)
    chosen[np.asarray(found.column(0))] = True
    return chosen


def _session(logic: OutputLogic) -> Session:
    assert isinstance(logic.output.window, Session)  # noqa: S101
    return logic.output.window
