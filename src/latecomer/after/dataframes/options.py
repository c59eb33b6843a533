"""The options of `spark.read.format("latecomer")`.

Capitals in the name of an option do not matter, as in Spark; nor do underscores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from latecomer.after.dataframes.tables import AS_OF, OF_OUTPUT, Asked, Table
from latecomer.config.checks import require_output
from latecomer.config.load import load_pipeline, parse_pipeline
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.model.durations import to_moment
from latecomer.model.windows import zone_of
from latecomer.model.zoned import read

NAMES = ("pipeline", "output", "table", "as_of", "as_of_arrival", "startingBatch", "maxBatchesPerTrigger")
LATEST = "latest"


@dataclass(frozen=True)
class ReadOptions:
    """The options, checked."""

    pipeline: Pipeline
    asked: Asked
    starting: int | None = 0
    """The first batch of a stream; None for the one after the last that is complete."""
    at_once: int | None = None
    """How many batches a trigger of a stream may have."""


def wanted(options: Mapping[str, str]) -> ReadOptions:
    """The options, checked; an error names the option, its value and what to write."""
    given = {_plain(name): value for name, value in options.items()}
    known = {_plain(name): name for name in NAMES}
    for name in given:
        if name not in known:
            raise refused(name, "there is no such option", None, did_you_mean(name, NAMES))
    pipeline = _pipeline(given.get("pipeline"))
    table = _table(given.get("table", Table.RESULTS))
    output = _output(pipeline, table, given.get("output"))
    known_at, could_be_known_at = (
        _moment(pipeline, table, output, name, given.get(_plain(name))) for name in ("as_of", "as_of_arrival")
    )
    if known_at is not None and could_be_known_at is not None:
        fix = "give one of the two"
        raise refused("as_of", "goes by another clock than as_of_arrival", given["asof"], fix)
    starting, at_once = given.get("startingbatch", "0"), given.get("maxbatchespertrigger")
    return ReadOptions(
        pipeline,
        Asked(table, output, known_at, could_be_known_at),
        None if starting.lower() == LATEST else _number("startingBatch", starting, 0, " or latest"),
        None if at_once is None else _number("maxBatchesPerTrigger", at_once, 1),
    )


def refused(option: str, message: str, value: object, fix: str) -> PipelineError:
    """The error to raise for a wrong option."""
    return PipelineError([Problem(f"option {option}", message, value, fix, "latecomer")])


def written(pipeline: Pipeline) -> str:
    """A pipeline as the text of an option. It has the path of the store, so that it can be read anywhere."""
    plain = pipeline.without_sinks().model_dump(mode="json", by_alias=True, exclude_unset=True)
    return json.dumps({**plain, "store": str(pipeline.store_path)})


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _pipeline(written: str | None) -> Pipeline:
    if written is None:
        raise refused(
            "pipeline", "is missing", None, 'name the pipeline file: option("pipeline", "upi.yaml")'
        )
    if written.lstrip().startswith("{"):
        return parse_pipeline(written, Path("pipeline.json"))
    return load_pipeline(Path(written).absolute())


def _table(name: str) -> Table:
    try:
        return Table(name.lower())
    except ValueError:
        raise refused("table", "there is no such table", name, did_you_mean(name.lower(), Table)) from None


def _output(pipeline: Pipeline, table: Table, output: str | None) -> str:
    if table in OF_OUTPUT:
        if output is None:
            fix = f"name an output, one of {', '.join(pipeline.outputs)}"
            raise refused("output", "is missing", None, fix)
        if output not in pipeline.outputs:
            fix = did_you_mean(output, pipeline.outputs)
            raise refused("output", f"pipeline {pipeline.name} has no such output", output, fix)
        require_output(pipeline, output)
        return output
    if output is not None:
        fix = "leave it out" + (", and filter by the column output" if table is not Table.WATERMARKS else "")
        raise refused("output", f"there is one {table} for all outputs", output, fix)
    return ""


def _moment(pipeline: Pipeline, table: Table, output: str, name: str, given: str | None) -> datetime | None:
    if given is None:
        return None
    if table not in AS_OF:
        fix = f"leave it out, or ask for one of {', '.join(AS_OF)}"
        raise refused(name, f"table {table} is known only as it is now", given, fix)
    try:
        return to_moment(read(given, zone_of(pipeline.outputs[output].window)))
    except (ValueError, OverflowError):
        fix = "write ISO-8601, such as 2026-04-25T14:00:00Z; without an offset it is a time of the output's zone"
        raise refused(name, "is not a moment", given, fix) from None


def _number(name: str, given: str, least: int, other: str = "") -> int:
    fix = f"write a whole number from {least}{other}"
    try:
        number = int(given)
    except ValueError:
        raise refused(name, "is not a number", given, fix) from None
    if number < least:
        raise refused(name, "is too small", given, fix)
    return number
