"""Reading a pipeline file: YAML (or JSON, which is YAML), with every mistake traced to its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from latecomer.config import checks, column_checks, lateness_checks
from latecomer.config import loading_classes as custom
from latecomer.config.kafka import StartAt
from latecomer.config.models import Event, Pipeline
from latecomer.config.operation import Alerts, Lease, Retention, Schedule, Upkeep
from latecomer.config.outputs import Output
from latecomer.config.sinks import SINKS, SqliteSink
from latecomer.config.sources import SOURCES, NamedSource, Source
from latecomer.config.user_classes import OWN
from latecomer.config.views import in_source
from latecomer.config.yaml_lines import Location, compose, dotted, line_of, read_text, whole_file
from latecomer.errors import PipelineError, Problem, nearest
from latecomer.model.aggregates import Aggregate
from latecomer.model.base import in_own_words
from latecomer.model.strategies import STRATEGIES
from latecomer.model.triggers import KINDS as RULES
from latecomer.model.triggers import Every, Trigger
from latecomer.model.windows import KINDS
from latecomer.model.written_numbers import Numbers, Signs
from latecomer.objects.locations import Storage


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline in a file, checked as far as it can be without the source's columns."""
    try:
        file = Path(path)
    except TypeError:
        wanted = 'give a path, such as "pipeline.yaml"'
        problem = Problem("path", "has the wrong kind of value", path, wanted, "load_pipeline()")
        raise PipelineError([problem]) from None
    return parse_pipeline(read_text(file), file)


def parse_pipeline(text: str, file: Path) -> Pipeline:
    """The pipeline written in `text`; `file` names it in errors and anchors relative paths."""
    document, lines = compose(text, file)
    if document is None:
        raise whole_file(file, "is empty", "start with `name:`, `store:`, `source:` …")
    if not isinstance(document, dict):
        raise whole_file(
            file, "is not a mapping of keys to values", "start with `name:`, `store:`, `source:` …"
        )
    if "base" in document:
        raise PipelineError(
            [at_line(Problem("base", "unknown key", fix=_key_fix(("base",), lines)), file, lines)]
        )
    return pipeline_of(document, file, lines)


def pipeline_of(document: Mapping[str, Any], file: Path, lines: Mapping[Location, int]) -> Pipeline:
    """The pipeline of a document; `lines` has the line of each of its values."""
    try:
        pipeline = Pipeline.model_validate({**document, "base": file.resolve().parent})
    except ValidationError as error:
        raise PipelineError([_problem(entry, file, lines) for entry in _own_errors(error)]) from None
    if problems := checks.check(pipeline):
        raise PipelineError([at_line(problem, file, lines) for problem in problems])
    return pipeline


def _own_errors(error: ValidationError) -> list[Any]:
    """The errors of pydantic. A list whose entries are wrong is not reported as too short."""
    errors = error.errors()
    around = {entry["loc"][:length] for entry in errors for length in range(len(entry["loc"]))}
    return [entry for entry in errors if entry["type"] != "too_short" or entry["loc"] not in around]


def check_against(pipeline: Pipeline, columns: Mapping[str, str], file: str | Path | None = None) -> None:
    """Raise if the pipeline cannot be run on these columns."""
    require_none(column_checks.check_columns(pipeline, columns), file)


def check_renames(
    pipeline: Pipeline, columns: Mapping[str, str], file: str | Path | None = None, source: str = ""
) -> None:
    """Raise if the pipeline, as the `source` sees it, renames a column that the source does not have, or gives it a
    name that the source has already."""
    require_none(
        [in_source(source, problem) for problem in column_checks.check_renames(pipeline, columns)], file
    )


def require_none(problems: list[Problem], file: str | Path | None) -> None:
    if problems:
        raise PipelineError(
            [at_line(each, None, {}) for each in problems] if file is None else _with_lines(problems, file)
        )


def check_secrets(pipeline: Pipeline, file: str | Path | None = None) -> None:
    """Raise if the pipeline refers to a secret that does not exist."""
    require_none(checks.missing_secrets(pipeline), file)


def warnings(pipeline: Pipeline, file: str | Path | None = None) -> list[Problem]:
    """Settings that are allowed and may lose events, or show a secret, each with its line."""
    return _with_lines([*checks.plain_passwords(pipeline), *lateness_checks.warnings(pipeline)], file)


def doubts(pipeline: Pipeline, file: str | Path | None = None) -> list[Problem]:
    """Settings that lose nothing and are probably mistakes, each with its line."""
    return _with_lines(lateness_checks.doubts(pipeline), file)


def _with_lines(problems: list[Problem], file: str | Path | None) -> list[Problem]:
    if not problems or file is None:
        return problems
    _, lines = compose(read_text(Path(file)), Path(file))
    return [at_line(problem, Path(file), lines) for problem in problems]


def at_line(problem: Problem, file: Path | None, lines: Mapping[Location, int]) -> Problem:
    """The problem, with the file and the line of its field."""
    split: Location = tuple(int(part) if part.isdigit() else part for part in problem.field.split("."))
    # A key may contain a dot, or be a number in quotes.
    location = next((each for each in lines if ".".join(map(str, each)) == problem.field), split)
    return Problem(
        dotted(location),
        problem.message,
        problem.value,
        problem.fix,
        str(file) if file else None,
        line_of(location, lines),
    )


_STEPS = frozenset(
    {*STRATEGIES, "tick-length", "function-before", "function-after", "function-wrap", "StartAt"}
)
"""Steps that pydantic adds to the way to a value, and the pipeline file does not have."""
_MODELS: dict[str, type[BaseModel]] = {
    "source": Source,
    **SOURCES,
    "alerts": Alerts,
    "event": Event,
    "lease": Lease,
    "numbers": Numbers,
    "retention": Retention,
    "start": StartAt,
    "storage": Storage,
    "trigger": Trigger,
    "upkeep": Upkeep,
}
_NAMED: dict[str, type[BaseModel]] = {"outputs": Output, "sources": NamedSource, "schedule": Schedule}
"""Sections of named entries → the model of an entry."""


def _problem(entry: Any, file: Path, lines: Mapping[Location, int]) -> Problem:
    """A pydantic error in the pipeline file's own words."""
    location = _written_location(entry["loc"], lines)
    kind, value = entry["type"], entry.get("input")
    message, fix = in_own_words(entry)
    if kind == "extra_forbidden":
        message, fix = "unknown key", _key_fix(location, lines, entry["loc"])
    elif kind == "missing":
        message, value, fix = "is missing", None, f"add {location[-1]}:"
    elif kind == custom.MISTAKE:
        steps = entry["ctx"]["field"].split(".")
        location = (*location, *(int(step) if step.isdigit() else step for step in steps))
        message, value, fix = (entry["ctx"][part] for part in ("message", "value", "fix"))
    elif kind == "union_tag_invalid":
        message, fix = "unknown strategy", f"use {entry['ctx']['expected_tags']}"
        location, value = (*location, "strategy"), entry["ctx"]["tag"]
    if isinstance(value, dict | BaseModel) and message != "is empty":
        value = None
    return Problem(dotted(location), message, value, fix, str(file), line_of(location, lines))


def _written_location(loc: Sequence[str | int], lines: Mapping[Location, int]) -> Location:
    """The way to a value in the file, without the steps that pydantic adds."""
    location: Location = ()
    for step in loc:
        if (*location, step) in lines or step not in _STEPS:
            if isinstance(step, str) and (step.startswith("function-") or "[" in step):
                continue
            location = (*location, step)
    return location


def _key_fix(location: Location, lines: Mapping[Location, int], steps: Sequence[str | int] = ()) -> str:
    key, parent = str(location[-1]), location[-2] if len(location) > 1 else None
    known = _keys_of(location, parent, lines)
    if parent == "watermark":
        known = [*STRATEGIES[str(steps[steps.index("watermark") + 1])].model_fields]
    if "own" in known:
        known[known.index("own")] = "a source of your own as module:Class"
        if OWN.fullmatch(module := ":".join(key.rsplit(".", 1))) and ":" in module:
            return f"write a source of your own as module:Class, {module}: {{…}}"
    return nearest(key, known, f"the keys here are {', '.join(known)}")


def _keys_of(location: Location, parent: str | int | None, lines: Mapping[Location, int]) -> list[str]:
    if parent is None:
        model: type[BaseModel] = Pipeline
    elif len(location) == 3 and location[0] in _NAMED:
        model = _NAMED[str(location[0])]
    elif "numbers" in location[:-2]:
        model = Signs
    elif "aggregates" in location[:-2]:
        model = Aggregate
    elif location[0] == "dead_letters_to" or {"sinks", "late_to"} & {*location}:
        model = next((SINKS[kind] for kind in SINKS if (*location[:-1], kind) in lines), SqliteSink)
    elif parent == "window":
        model = next(KINDS[kind] for kind in KINDS if (*location[:-1], kind) in lines)
    elif "trigger" in location[:-2]:
        model = next((RULES[kind] for kind in RULES if (*location[:-1], kind) in lines), Every)
    else:
        model = _MODELS.get(str(parent), Pipeline)
    return [field.alias or name for name, field in model.model_fields.items() if name != "base"]
