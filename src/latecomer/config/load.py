"""Reading a pipeline file: YAML (or JSON, which is YAML), with every mistake traced to its line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from latecomer.config import checks, custom
from latecomer.config.models import Event, Files, Output, Pipeline, Source
from latecomer.config.sinks import SqliteSink
from latecomer.errors import PipelineError, Problem
from latecomer.model.strategies import STRATEGIES
from latecomer.model.triggers import Count, Every, Trigger
from latecomer.model.windows import KINDS

MAX_BYTES = 1_000_000
MAX_NODES = 20_000

Location = tuple[str | int, ...]


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline in a file, checked as far as it can be without the source's columns."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise _whole_file(file, "is too large for a pipeline file", "keep it under 1 MB")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _whole_file(file, "there is no such file", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _whole_file(file, f"cannot be read: {error}", "check that it is a readable text file") from None
    return parse_pipeline(text, file)


def parse_pipeline(text: str, file: Path) -> Pipeline:
    """The pipeline written in `text`; `file` names it in errors and anchors relative paths."""
    document, lines = _compose(text, file)
    if not isinstance(document, dict):
        raise _whole_file(
            file, "is not a mapping of keys to values", "start with `name:`, `store:`, `source:` …"
        )
    if "base" in document:
        raise PipelineError(
            [_at(Problem("base", "unknown key", mend=_mend_key(("base",), lines)), file, lines)]
        )
    try:
        pipeline = Pipeline.model_validate({**document, "base": file.resolve().parent})
    except ValidationError as error:
        raise PipelineError([_problem(entry, file, lines) for entry in error.errors()]) from None
    return placed(pipeline, checks.check(pipeline), file, lines)


def placed(
    pipeline: Pipeline, problems: Sequence[Problem], file: Path | None, lines: Mapping[Location, int]
) -> Pipeline:
    """The pipeline, or an error with each problem at its line."""
    if problems:
        raise PipelineError([_at(problem, file, lines) for problem in problems])
    return pipeline


def check_against(pipeline: Pipeline, columns: Mapping[str, str], file: str | Path | None = None) -> None:
    """Raise if the pipeline names columns that the source does not have."""
    problems = checks.check_columns(pipeline, columns)
    if problems:
        lines: Mapping[Location, int] = {}
        if file is not None:
            _, lines = _compose(Path(file).read_text(encoding="utf-8"), Path(file))
        raise PipelineError([_at(problem, Path(file) if file else None, lines) for problem in problems])


def _at(problem: Problem, file: Path | None, lines: Mapping[Location, int]) -> Problem:
    location: Location = tuple(int(part) if part.isdigit() else part for part in problem.field.split("."))
    return Problem(
        _dotted(location),
        problem.message,
        problem.value,
        problem.mend,
        str(file) if file else None,
        _line(location, lines),
    )


def _whole_file(file: Path, message: str, mend: str) -> PipelineError:
    return PipelineError([Problem("pipeline file", message, mend=mend, file=str(file))])


class _Nodes(yaml.SafeLoader):
    """Safe YAML, composed to nodes so that every value keeps its line."""


def _compose(text: str, file: Path) -> tuple[Any, dict[Location, int]]:
    loader = _Nodes(text)
    try:
        node = loader.get_single_node()
        lines: dict[Location, int] = {}
        _number(node, (), lines, file)
        return (loader.construct_document(node) if node is not None else None), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = Problem(
            "pipeline file",
            f"is not valid YAML: {error.problem or error.context}",
            mend="check indentation, quotes and brackets on this line",
            file=str(file),
            line=line,
        )
        raise PipelineError([problem]) from None
    except RecursionError:
        raise _whole_file(file, "refers to itself", "write every value out, without anchors") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise _whole_file(file, f"is not valid YAML: {error}", "check the file") from None
    finally:
        loader.dispose()


def _number(node: yaml.Node | None, location: Location, lines: dict[Location, int], file: Path) -> None:
    if node is None:
        return
    lines.setdefault(location, node.start_mark.line + 1)
    if len(lines) > MAX_NODES:
        raise _whole_file(file, "has too many entries", "split the pipeline")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*location, key.value)
            if place in lines:
                problem = Problem(
                    _dotted(place),
                    "stands twice",
                    mend="keep one of the two, or rename one",
                    file=str(file),
                    line=key.start_mark.line + 1,
                )
                raise PipelineError([problem])
            lines[place] = key.start_mark.line + 1
            _number(value, place, lines, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _number(value, (*location, index), lines, file)


_STEPS = frozenset({*STRATEGIES, "function-before", "function-after", "function-wrap"})
_MODELS: dict[str, type[BaseModel]] = {
    "source": Source,
    "files": Files,
    "event": Event,
    "trigger": Trigger,
}


def _problem(entry: Any, file: Path, lines: Mapping[Location, int]) -> Problem:
    """A pydantic error in the pipeline file's own words."""
    location = _written_location(entry["loc"], lines)
    kind, value, mend = entry["type"], entry.get("input"), None
    message = entry["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        message, mend = "unknown key", _mend_key(location, lines, entry["loc"])
    elif kind == "missing":
        message, value, mend = "is missing", None, f"add {location[-1]}:"
    elif kind in ("enum", "literal_error"):
        message, mend = "is not one of the choices", f"use {entry['ctx']['expected']}"
    elif kind == custom.MISTAKE:
        location = (*location, *entry["ctx"]["field"].split("."))
        message, value, mend = (entry["ctx"][part] for part in ("message", "value", "mend"))
    elif kind == "union_tag_invalid":
        message, mend = "unknown strategy", f"use {entry['ctx']['expected_tags']}"
        location, value = (*location, "strategy"), entry["ctx"]["tag"]
    elif "; " in message:
        message, mend = message.split("; ", 1)
    elif kind.endswith(("_type", "_parsing")):
        mend = message.replace("Input should be", "write")
        message = "has the wrong kind of value"
    if isinstance(value, dict | BaseModel):
        value = None
    return Problem(_dotted(location), message, value, mend, str(file), _line(location, lines))


def _written_location(loc: Sequence[str | int], lines: Mapping[Location, int]) -> Location:
    """Leave out the steps that pydantic adds and the file does not have."""
    location: Location = ()
    for step in loc:
        if (*location, step) in lines or step not in _STEPS:
            if isinstance(step, str) and (step.startswith("function-") or "[" in step):
                continue
            location = (*location, step)
    return location


def _mend_key(location: Location, lines: Mapping[Location, int], steps: Sequence[str | int] = ()) -> str:
    key, parent = str(location[-1]), location[-2] if len(location) > 1 else None
    known = _keys_of(location, parent, lines)
    if parent == "watermark":
        known = [*STRATEGIES[str(steps[1])].model_fields]
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]}?" if near else f"the keys here are {', '.join(known)}"


def _keys_of(location: Location, parent: str | int | None, lines: Mapping[Location, int]) -> list[str]:
    if parent is None:
        model: type[BaseModel] = Pipeline
    elif len(location) == 3 and location[0] == "outputs":
        model = Output
    elif "sinks" in location:
        return list(SqliteSink.model_fields)
    elif parent == "window":
        model = next(KINDS[kind] for kind in KINDS if (*location[:-1], kind) in lines)
    elif parent in ("early", "late"):
        model = Count if (*location[:-1], "count") in lines else Every
    else:
        model = _MODELS.get(str(parent), Pipeline)
    return [field.alias or name for name, field in model.model_fields.items() if name != "base"]


def _dotted(location: Location) -> str:
    """`outputs.totals.sinks[0]`"""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "pipeline file"


def _line(location: Location, lines: Mapping[Location, int]) -> int | None:
    while location not in lines and location:
        location = location[:-1]
    return lines.get(location)
