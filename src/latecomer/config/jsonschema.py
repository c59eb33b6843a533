"""The JSON Schema of a pipeline file, for editors: it describes the YAML as people write it, not the models.

It cannot express every rule (columns that do not exist, combinations that lose data). The loader reports those
mistakes, with the line.
"""

from __future__ import annotations

from typing import Any

from latecomer.config.models import NAME, Pipeline
from latecomer.config.sources import SOURCES
from latecomer.config.user_classes import OWN, PolledSource
from latecomer.model.aggregates import FUNCTIONS, SYNONYMS, shown_function
from latecomer.model.base import object_schema
from latecomer.model.durations import PARTS, format_duration

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_EMPTY = ({"early": None, "late": "batch"}, {"events": None, "late": None}, {"lag": None})
"""The defaults that are left out of the schema: models in which nothing is set."""


def pipeline_schema() -> dict[str, Any]:
    """The schema as a complete document."""
    schema = _tidy(Pipeline.model_json_schema(by_alias=True))
    definitions = schema.pop("$defs")
    del schema["properties"]["base"]
    schema["properties"]["name"]["pattern"] = _whole(NAME.pattern)
    for named in ("outputs", "sources"):
        schema["properties"][named]["propertyNames"] = {"pattern": _whole(NAME.pattern)}
    schema["oneOf"] = [
        {"required": ["source", "watermark"], "properties": {"sources": False}},
        {"required": ["sources"], "properties": {"source": False}},
    ]
    # `strategy` may be left out for `bounded` only.
    for choice in schema["properties"]["watermark"]["oneOf"]:
        strategy = definitions[choice["$ref"].rpartition("/")[2]]
        if strategy["properties"]["strategy"].get("const") != "bounded":
            strategy["required"] = sorted({*strategy.get("required", []), "strategy"})
    for kind in ("Source", "NamedSource"):
        definitions[kind] = _source(definitions[kind])
    for place in ("source", "watermark"):
        schema["properties"][place].pop("default", None)
    del definitions["PolledSource"]
    output = definitions["Output"]["properties"]
    for name in ("too_late", "accumulation"):
        output[name] = {
            "anyOf": [{"$ref": output[name]["$ref"]}, {"type": "null"}],
            "description": output[name]["description"],
        }
    output["aggregates"] |= {
        "minProperties": 1,
        "propertyNames": {"pattern": _whole(NAME.pattern)},
        "description": "name: function(column); the functions are "
        + ", ".join((*map(shown_function, FUNCTIONS), *SYNONYMS)),
    }
    return {
        "$schema": DIALECT,
        "title": "latecomer pipeline",
        **schema,
        "description": "A pipeline of latecomer, the late-data layer for Apache Spark.",
        "$defs": definitions,
    }


def _source(made: dict[str, Any]) -> dict[str, Any]:
    """The kind is the key: files, or a user-defined class."""
    others = {name: each for name, each in made["properties"].items() if name not in (*SOURCES, "own")}
    of_files = {name: each for name, each in others.items() if name != "format"}
    built_in = [
        object_schema(
            {
                kind: {"$ref": f"#/$defs/{model.__name__}"},
                **(others if issubclass(model, PolledSource) else of_files),
            },
            kind,
        )
        for kind, model in SOURCES.items()
    ]
    own = {"anyOf": [{"pattern": _whole(OWN.pattern)}, {"enum": list(others)}]}
    return {
        "description": made["description"],
        "oneOf": [
            *built_in,
            {
                "type": "object",
                "description": "a source of your own, module:Class, with its options",
                "properties": others,
                "propertyNames": own,
                "additionalProperties": {"anyOf": [{"type": "object"}, {"type": "null"}]},
                "minProperties": 1,
            },
        ],
    }


def _whole(pattern: str) -> str:
    return f"^{pattern}$"


def _tidy(node: Any, holds_names: bool = False) -> Any:
    """The schema without titles, which repeat names, and with durations as people write them."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if holds_names:
        return {name: _tidy(value) for name, value in node.items()}
    tidy = {
        key: _tidy(value, holds_names=key in ("properties", "$defs"))
        for key, value in node.items()
        if key != "title" and (key != "default" or value not in (None, [], *_EMPTY))
    }
    if "description" in tidy:
        tidy["description"] = " ".join(tidy["description"].split("\n\n")[0].split())
    if isinstance(tidy.get("default"), int) and any(
        PARTS in each.get("pattern", "") for each in (tidy, *tidy.get("anyOf", ()))
    ):
        tidy["default"] = format_duration(tidy["default"])
    return tidy
