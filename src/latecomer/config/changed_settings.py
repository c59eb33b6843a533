"""A pipeline with other settings, for a replay. They are checked as the pipeline file is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from latecomer.config.load import pipeline_of
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import NamedSource
from latecomer.config.views import place_in
from latecomer.config.yaml_lines import Location
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.model.strategies import OWN, STRATEGIES, Strategy
from latecomer.model.windows import KINDS

PLACE = "changes"
_RULES = frozenset({"every", "count"})
_ALTERNATIVES = {"window": frozenset(KINDS), "early": _RULES, "late": _RULES}
"""Settings whose key is their kind. A change to another kind replaces the whole setting."""

_FOLLOWING = ("too_late", "accumulation")
"""The settings whose defaults follow from an output's `late`."""


def changed(pipeline: Pipeline, changes: Mapping[str, object]) -> Pipeline:
    """The pipeline with other values in some fields, such as `{"watermark.delay": "2m"}`, and no sinks."""
    base = pipeline.without_sinks()
    if not changes:
        return base
    _raise([problem for field in changes for problem in _refused(pipeline, field)])
    document = _document(base, changes)
    try:
        other = pipeline_of(document, base.base / PLACE, dict.fromkeys(_locations(document), 0))
    except PipelineError as error:
        raise _placed(error.problems) from None
    _raise([*_dead_letters_again(pipeline, other)])
    return base.model_copy(update=dict(other))  # of the same class: that of programs has methods


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise _placed(problems)


def _placed(problems: Sequence[Problem]) -> PipelineError:
    return PipelineError([replace(problem, file=PLACE, line=None) for problem in problems])


def _refused(pipeline: Pipeline, field: str) -> Iterator[Problem]:
    """Problems with a field that a replay cannot change, or that does not exist."""
    first, *rest = field.split(".")
    if first not in Pipeline.model_fields or first == "base":
        known = [name for name in Pipeline.model_fields if name != "base"]
        yield Problem(field, "unknown key", fix=did_you_mean(first, known))
    elif first == "dead_letters_to" or (first == "outputs" and rest[1:2] in (["sinks"], ["late_to"])):
        yield Problem(field, "a replay writes to no sink", fix="leave it out")
    elif first == "watermark" and pipeline.sources:
        fix = f"write sources.{next(iter(pipeline.sources))}.{field}"
        yield Problem(field, "each source has its own watermark", fix=fix)
    elif first == "sources" and rest[:1] and rest[0] not in pipeline.sources:
        fix = did_you_mean(rest[0], pipeline.sources)
        yield Problem(field, "the pipeline has no such source", rest[0], fix)
    elif first not in ("watermark", "outputs") and not (first == "sources" and rest[1:2] == ["watermark"]):
        fix = "change watermark or outputs, or run the pipeline into a new store"
        yield Problem(field, "cannot change in a replay: the log was written with it", fix=fix)
    elif first == "outputs" and not rest:
        yield Problem(field, "names no output and no field", fix="write outputs.NAME.FIELD")
    elif first == "outputs" and rest[0] not in pipeline.outputs:
        fix = did_you_mean(rest[0], pipeline.outputs)
        yield Problem(field, "the pipeline has no such output", rest[0], fix)


def _dead_letters_again(pipeline: Pipeline, other: Pipeline) -> Iterator[Problem]:
    for name, view in pipeline.views.items():
        if other.views[name].watermark.max_future == view.watermark.max_future:
            continue
        reason = "cannot change in a replay: dead letters were separated before anything was logged"
        fix = "leave it as it is, or run the pipeline into a new store"
        yield Problem(place_in(name, "watermark.max_future"), reason, fix=fix)


def _document(base: Pipeline, changes: Mapping[str, object]) -> dict[str, Any]:
    """The pipeline as its file would have it: written out where something changes, else as models."""
    document: dict[str, Any] = {
        name: getattr(base, name) for name in Pipeline.model_fields if name not in ("base", "profile")
    }
    document["outputs"] = dict(base.outputs)
    if base.sources:
        document["watermark"] = None
        document["sources"] = {
            name: _source(name, source, base.watermark.of_source(name), changes)
            for name, source in base.sources.items()
        }
    elif any(field.startswith("watermark.") for field in changes):
        document["watermark"] = _watermark(base.watermark, changes, "watermark")
    for name in {field.split(".")[1] for field in changes if field.startswith("outputs.")}:
        document["outputs"][name] = _output(base.outputs[name], f"outputs.{name}", changes)
    # A change of the kind of a window or trigger comes first: it may clear the other settings.
    for field in sorted(changes, key=lambda field: not _names_a_kind(field.split("."))):
        _put(document, field.split("."), changes[field])
    return document


def _source(
    name: str, source: NamedSource, strategy: Strategy, changes: Mapping[str, object]
) -> dict[str, Any] | NamedSource:
    place = f"sources.{name}.watermark"
    if not any(field.startswith(f"{place}.") for field in changes):
        return source.model_copy(update={"watermark": strategy})
    kept = {field.alias or each: getattr(source, each) for each, field in NamedSource.model_fields.items()}
    return {**kept, "watermark": _watermark(strategy, changes, place)}


def _watermark(strategy: Strategy, changes: Mapping[str, object], place: str) -> dict[str, Any]:
    written = _written(strategy)
    if type(strategy) not in STRATEGIES.values():
        own = {name: written.pop(name) for name in list(written) if name not in Strategy.model_fields}
        written |= {"strategy": f"{type(strategy).__module__}:{type(strategy).__qualname__}", "options": own}
    other = changes.get(f"{place}.strategy")
    if other is None:
        return written
    kind = STRATEGIES.get(str(other), STRATEGIES[OWN] if ":" in str(other) else Strategy)
    return {name: value for name, value in written.items() if name in kind.model_fields}


def _output(output: Output, field: str, changes: Mapping[str, object]) -> dict[str, Any]:
    written = _written(output)
    if f"{field}.late" in changes:
        rest = {name: value for name, value in written.items() if name not in _FOLLOWING}
        plain = Output.model_validate(rest)
        # Defaults that followed from the old `late` follow from the new one.
        defaults = [name for name in _FOLLOWING if getattr(output, name) == getattr(plain, name)]
        return {name: value for name, value in written.items() if name not in defaults}
    return written


def _written(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


def _names_a_kind(path: Sequence[str]) -> bool:
    return len(path) > 1 and path[-1] in _ALTERNATIVES.get(path[-2], ())


def _put(document: dict[str, Any], path: Sequence[str], value: object) -> None:
    place = document
    for step in path[:-1]:
        if not isinstance(place.get(step), dict):
            place[step] = {}
        place = place[step]
    if _names_a_kind(path) and path[-1] not in place:
        place.clear()
    place[path[-1]] = value


def _locations(document: Mapping[str, Any], location: Location = ()) -> Iterator[Location]:
    for name, value in document.items():
        yield (*location, name)
        if isinstance(value, Mapping):
            yield from _locations(value, (*location, name))
