"""The side output: the events that were fine, but too late for a window, as they were logged."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.models import Output
from latecomer.log.columns import WHOLE_EVENT
from latecomer.model.verdicts import Fate, Verdict
from latecomer.store.layout import EventLayout, PaneLayout
from latecomer.store.sql import quoted
from latecomer.windowing.columns import END, FATE, START, WATERMARK
from latecomer.windowing.judge import CODES


def missed(judged: DataFrame, output: Output, layout: EventLayout) -> DataFrame:
    """The side output of events that have been judged and carry `whole_event`."""
    late = f"{WATERMARK} < {END} + {output.allowed_lateness}L"
    aside = judged.where(F.col(FATE) == CODES[Fate.SIDE_OUTPUT])
    extra = {
        "window_start": F.timestamp_micros(START),
        "window_end": F.timestamp_micros(END),
        "watermark": F.timestamp_micros(WATERMARK),
        "verdict": F.expr(f"if({late}, '{Verdict.LATE}', '{Verdict.TOO_LATE}')"),
    }
    columns = PaneLayout(output, layout).late_columns
    return aside.select(
        *(column.alias(name) for name, column in extra.items()),
        *(F.col(f"{WHOLE_EVENT}.{quoted(stored)}").alias(name) for stored, name in layout.late_names.items()),
        *(F.col(quoted(name)).alias(columns[name]) for name in output.counted),
    )
