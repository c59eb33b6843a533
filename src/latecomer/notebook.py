"""The methods of `Pipeline` that read its store (`config/answering.py`). They return rows that a notebook shows as a
table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from latecomer import api
from latecomer.after.explain.arrived import Arrived, arrived
from latecomer.after.reading.reader import Reader
from latecomer.after.reading.rows import Rows
from latecomer.api import explain as explain
from latecomer.config.arguments import require_key
from latecomer.model.durations import to_micros
from latecomer.model.ledger import difference
from latecomer.model.windows import zone_of
from latecomer.model.words import key_in_words
from latecomer.model.written_values import short_text
from latecomer.store.layout import FATE_COLUMNS

if TYPE_CHECKING:
    from latecomer.config.answering import Key, Moment
    from latecomer.config.models import Pipeline


def results(
    pipeline: Pipeline,
    output: str,
    include_open: bool,
    key: Key | None,
    moments_given: Mapping[str, Moment | None],
) -> Rows:
    moments = _moments("results", pipeline, output, moments_given)
    require_key("results", key)
    reader = Reader(pipeline)
    table = reader.results(
        output,
        include_open,
        moments["as_of"],
        moments["valid_at"],
        key,
        as_of_arrival=moments["as_of_arrival"],
    )
    words = {
        "as_of": "as it stood at",
        "as_of_arrival": "as it could have stood at",
        "valid_at": "the window that holds",
    }
    named = [f", {words[name]} {moments_given[name]}" for name in words if moments_given[name] is not None]
    title = _titled(output, "results", key) + "".join(named)
    nothing = "no window has a number here; include_open=True shows those still open"
    return Rows(table, title, _zone(pipeline, output), nothing, tuple(reader.notes))


def panes(pipeline: Pipeline, output: str, window: Moment | None, key: Key | None) -> Rows:
    moments = _moments("panes", pipeline, output, {"window": window})
    table = Reader(pipeline).panes(output, moments["window"], key)
    return Rows(
        table, _titled(output, "panes", key), _zone(pipeline, output), "no number has been published here"
    )


def arrivals(pipeline: Pipeline, output: str, until: Moment | None) -> Arrived:
    moment = _moments("arrivals", pipeline, output, {"until": until})["until"]
    return arrived(Reader(pipeline), output, None if moment is None else to_micros(moment))


def late(pipeline: Pipeline, output: str) -> Rows:
    api.require_pipeline_and_output("late", pipeline, output)
    table = Reader(pipeline).late(output)
    return Rows(table, f"{output}: side output", _zone(pipeline, output), "no event was set aside")


def dead_letters(pipeline: Pipeline) -> Rows:
    table = Reader(pipeline).dead_letters()
    return Rows(table, f"{pipeline.name}: dead letters", nothing="every row was read as an event")


def watermarks(pipeline: Pipeline) -> Rows:
    table = Reader(pipeline).watermarks()
    return Rows(table, f"{pipeline.name}: watermarks", nothing="no batch has been accepted yet")


def ledger_totals(pipeline: Pipeline) -> Rows:
    table = Reader(pipeline).ledger_totals()
    differences = _differences(table)
    notes = ["received is the sum of all fates, in every line"] if table.num_rows and not differences else []
    return Rows(
        table,
        f"{pipeline.name}: ledger",
        nothing="no batch is complete yet",
        notes=notes,
        warnings=differences,
    )


def ledger_lines(pipeline: Pipeline) -> Rows:
    table = Reader(pipeline).ledger()
    return Rows(
        table,
        f"{pipeline.name}: ledger, batch by batch",
        nothing="no batch is complete yet",
        warnings=_differences(table),
    )


def sink_status(pipeline: Pipeline) -> Rows:
    return Rows(api.sink_status(pipeline), f"{pipeline.name}: sinks", nothing="the pipeline has no sinks")


def _differences(lines: pa.Table) -> Sequence[str]:
    """The lines of the ledger in which received is not the sum of the fates."""
    sentences = []
    for row in lines.to_pylist():
        apart = difference(row["received"], (row[fate] for fate in FATE_COLUMNS))
        if apart:
            batch = f"batch {row['batch']}, " if "batch" in row else ""
            sentences.append(
                f"{batch}{row['output']}, {row['unit']}: received and accounted for differ by {short_text(apart)}"
            )
    return tuple(sentences)


def _moments(
    call: str, pipeline: Pipeline, output: str, given: Mapping[str, Moment | None]
) -> dict[str, datetime | None]:
    api.require_pipeline_and_output(call, pipeline, output)
    return {
        name: None if moment is None else api.moment_of(call, name, pipeline, output, moment)
        for name, moment in given.items()
    }


def _titled(output: str, what: str, key: Key | None) -> str:
    return f"{output}: {what}" + (f" of {key_in_words(key)}" if key else "")


def _zone(pipeline: Pipeline, output: str) -> str:
    return zone_of(pipeline.outputs[output].window)
