"""What open and recently closed windows will probably be."""

from __future__ import annotations

from typing import Any

from latecomer.after.reading.lives import key_texts
from latecomer.after.reading.reader import Reader
from latecomer.model.durations import to_micros
from latecomer.model.written_values import csv_text, json_value
from latecomer.model.zoned import written
from latecomer.observe.dashboard.parameters import MOST_ROWS, Query
from latecomer.observe.nowcast.nowcasting import nowcast
from latecomer.observe.nowcast.report import Nowcast


def estimates(reader: Reader, query: Query) -> dict[str, Any]:
    """How complete the newest numbers are, what they will probably be, and how far to trust these estimates."""
    output = query.output(reader.pipeline.outputs)
    result = nowcast(reader, output, query.window(), query.key(), MOST_ROWS)
    keys = list(reader.pipeline.outputs[output].by)
    rows = [] if result.refused is not None else result.rows.to_pylist()
    return {
        "output": output,
        "refused": result.refused,
        "level": result.level,
        "warnings": result.warnings,
        "notes": [note for note in result.notes if note not in result.warnings],
        "rows": [
            _row(result, row, key_texts(result.rows.schema, {key: row[key] for key in keys})) for row in rows
        ],
    }


def _row(result: Nowcast, row: dict[str, Any], key: dict[str, str | None]) -> dict[str, Any]:
    names = result.names
    return {
        "start": written(to_micros(row["window_start"])),
        "end": written(to_micros(row["window_end"])),
        "key": key,
        "complete": row[names.complete],
        "estimates": {
            name: [csv_text(json_value(row[column])) for column in columns]
            for name, columns in names.estimates.items()
            if row[columns[0]] is not None
        },
        "past": row[names.past],
        "of": row[names.of],
        "reason": row[names.reason],
    }
