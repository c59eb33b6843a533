"""What the rows of a table come to in each measure of the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.models import Pipeline
from latecomer.decode.decimals import number
from latecomer.model.ledger import WHOLE_DIGITS
from latecomer.model.paths import ways_of
from latecomer.model.sources import BETWEEN
from latecomer.store.sql import ddl, quoted


def sum_measures(rows: DataFrame, columns: Mapping[str, str]) -> dict[str, Decimal]:
    """The exact sum of each measure; `columns` maps it to its SQL."""
    if not columns:
        return {}
    sums = [F.sum(F.expr(sql).cast("decimal(38,6)")).alias(f"m{i}") for i, sql in enumerate(columns.values())]
    found = rows.agg(*sums).toArrow().to_pylist()[0]
    return {measure: found[f"m{index}"] or Decimal(0) for index, measure in enumerate(columns)}


def measures_in_raw(pipeline: Pipeline, measures: Iterable[str]) -> dict[str, str]:
    """The SQL of each measure over dead letters. Each source has its own names for them."""
    if not pipeline.sources:
        return {measure: measure_in_raw(pipeline.source_name(measure)) for measure in measures}
    source = f"substring_index(source_partition, '{BETWEEN}', 1)"
    return {
        measure: " ".join(
            [
                f"case {source}",
                *(
                    f"when '{name}' then {measure_in_raw(view.source_name(measure))}"
                    for name, view in pipeline.views.items()
                ),
                "end",
            ]
        )
        for measure in measures
    }


def measure_in_raw(column: str) -> str:
    """A number read out of a dead letter's raw text, as far as it can be; `column` as the source names it.

    One that is larger than an event's may be is not read: it would stop the batch when the sum outgrew the ledger.
    """
    found = f"get_json_object(raw, \"$['{column}']\")"
    if column in ways_of([column]):
        found = f"coalesce({found}, get_json_object(raw, '$.{column}'))"
    if not re.fullmatch(r"[\w .-]+", column):  # there is no way to write it in a path
        shape = ddl({column: "string"}).replace("\\", "\\\\").replace("'", "\\'")
        found = f"from_json(raw, '{shape}').{quoted(column)}"
    return number(f"trim({found})", f"decimal({WHOLE_DIGITS + 6},6)")
