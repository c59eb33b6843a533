"""The JSON Schema of a pipeline file, for editors: it describes the YAML as people write it, not the models.

It cannot express every rule (columns that do not exist, combinations that lose data). The loader reports those
mistakes, with the line.
"""

from __future__ import annotations

from typing import Any

from latecomer.config.models import NAME, Pipeline
from latecomer.config.own import OWN, PolledSource
from latecomer.config.sources import SOURCES
from latecomer.model.aggregates import FUNCTIONS, SYNONYMS, shown_function
from latecomer.model.durations import format_duration

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PARTS = "([0-9]+(us|ms|s|m|h|d))+"
_EXAMPLES = ["500ms", "30s", "5m", "1h", "1d"]
_ZERO = {"const": 0}


def _duration(pattern: str, *others: dict[str, Any]) -> dict[str, Any]:
    written = {"type": "string", "pattern": pattern, "examples": _EXAMPLES}
    return {"anyOf": [written, *others]} if others else written


_POSITIVE = f"^(?=.*[1-9]){_PARTS}$"
_EMPTY = ({"early": None, "late": "batch"}, {"events": None, "late": None}, {"lag": None})
"""The defaults that are left out of the schema: models in which nothing is set."""
_OFF = ({"enum": ["off", False]}, {"type": "null"})
_DURATIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("tumbling", "sliding", "session", "resolution"), _duration(_POSITIVE)),
    "max": _duration(_POSITIVE, {"type": "null"}),
    "offset": _duration(f"^(-?{_PARTS}|-?0)$", _ZERO),
    **dict.fromkeys(
        ("delay", "allowed_lateness", "at_least", "at_most"), _duration(f"^({_PARTS}|0)$", _ZERO)
    ),
    **dict.fromkeys(("idle_after", "max_future"), _duration(_POSITIVE, *_OFF)),
}
"""Property → how it is written. The models hold microseconds, the file durations."""


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
        if "delays" in strategy["properties"]:
            strategy["properties"]["delays"]["additionalProperties"] = _DURATIONS["delay"]
    for model in ("Retention", "Alerts"):
        for name, kept in definitions[model]["properties"].items():
            definitions[model]["properties"][name] = {
                **{key: kept[key] for key in ("description",) if key in kept},
                **_duration(_POSITIVE, {"type": "null"}),
            }
    takeover = definitions["Lease"]["properties"]["takeover"]
    definitions["Lease"]["properties"]["takeover"] = {
        "description": takeover["description"],
        **_duration(_POSITIVE),
    }
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
        {
            "type": "object",
            "properties": {
                kind: {"$ref": f"#/$defs/{model.__name__}"},
                **(others if issubclass(model, PolledSource) else of_files),
            },
            "required": [kind],
            "additionalProperties": False,
        }
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
    """The schema without titles, which repeat names, and with durations as they are written."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if holds_names:
        return {name: _property(name, _tidy(value)) for name, value in node.items()}
    tidy = {
        key: _tidy(value, holds_names=key in ("properties", "$defs"))
        for key, value in node.items()
        if key != "title" and (key != "default" or value not in (None, [], *_EMPTY))
    }
    if "description" in tidy:
        tidy["description"] = " ".join(tidy["description"].split("\n\n")[0].split())
    return tidy


def _property(name: str, written: dict[str, Any]) -> dict[str, Any]:
    duration = _DURATIONS.get(name)
    if name == "every":  # a tick may be one event, too
        ticks = "event" in written.get("examples", ())
        duration = _duration(_POSITIVE, *([{"const": "event"}] if ticks else []))
    if duration is None or written.get("type") == "object":
        return written
    kept = {key: written[key] for key in ("description",) if key in written}
    if isinstance(default := written.get("default"), int):
        kept["default"] = format_duration(default)
    return {**kept, **duration}
