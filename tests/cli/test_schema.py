"""The JSON Schema and the loader must agree: on what is right and on what is wrong."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.cli_kit import PIPELINE, Cli
from latecomer.config.jsonschema import DIALECT, pipeline_schema
from latecomer.config.load import parse_pipeline
from latecomer.errors import PipelineError

SCHEMA = pipeline_schema()
KNOWN = {
    *("$schema", "$defs", "$ref", "title", "description", "examples", "default", "type", "properties"),
    *("required", "additionalProperties", "propertyNames", "items", "anyOf", "oneOf", "enum", "const"),
    *("pattern", "minLength", "maxLength", "minimum", "maximum", "minProperties", "maxProperties"),
    *("exclusiveMinimum", "exclusiveMaximum", "minItems", "uniqueItems"),
}
TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}


def fits(value: Any, schema: Any) -> bool:
    """A validator for the few keywords that our schema uses."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and not fits(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]):
        return False
    properties = schema.get("properties", {})
    rules = [
        "type" not in schema or TYPES[schema["type"]](value),
        "const" not in schema or _same(value, schema["const"]),
        "enum" not in schema or any(_same(value, choice) for choice in schema["enum"]),
        "anyOf" not in schema or any(fits(value, choice) for choice in schema["anyOf"]),
        "oneOf" not in schema or sum(fits(value, choice) for choice in schema["oneOf"]) == 1,
    ]
    if isinstance(value, str):
        rules.append(re.search(schema.get("pattern", ""), value) is not None)
        rules.append(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
    if isinstance(value, int | float):
        rules.append(schema.get("minimum", value) <= value <= schema.get("maximum", value))
        rules.append(schema.get("exclusiveMinimum", value - 1) < value)
        rules.append(value < schema.get("exclusiveMaximum", value + 1))
    if isinstance(value, list):
        rules += [fits(item, schema.get("items", True)) for item in value]
        rules.append(len(value) >= schema.get("minItems", 0))
        rules.append(not schema.get("uniqueItems") or len(set(map(str, value))) == len(value))
    if isinstance(value, dict):
        rules.append(len(value) >= schema.get("minProperties", 0))
        rules.append(len(value) <= schema.get("maxProperties", len(value)))
        rules += [name in value for name in schema.get("required", [])]
        for name, item in value.items():
            rules.append(fits(name, schema.get("propertyNames", True)))
            rules.append(fits(item, properties.get(name, schema.get("additionalProperties", True))))
    return all(rules)


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def loads(document: Any) -> bool:
    try:
        parse_pipeline(yaml.safe_dump(document), Path("pipeline.yaml"))
    except PipelineError:
        return False
    return True


def changed(path: str, value: Any) -> Any:
    """The pipeline with one value put in, or with a key left out (`...`)."""
    document = copy.deepcopy(yaml.safe_load(PIPELINE))
    *steps, last = path.split(".")
    node = document
    for step in steps:
        node = node[step]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return document


MINUTES = "outputs.minute_totals"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "upi"),
        ("event.id", "txn_id"),
        ("event.id", ["txn_id", "merchant"]),
        ("watermark", {"strategy": "bounded", "delay": "30s"}),
        ("watermark", {"delay": 0}),
        ("watermark", {"strategy": "ascending"}),
        ("watermark", {"strategy": "ascending", "idle_after": "2m", "on_idle": "hold", "every": "event"}),
        ("watermark", {"delay": "1h30m", "max_future": False, "every": "500ms"}),
        ("watermark", {"delay": "0s", "max_future": "off", "idle_after": None}),
        ("watermark", {"strategy": "percentile"}),
        ("watermark", {"strategy": "percentile", "p": 0.9, "of": 50, "delay": "5s", "resolution": "100ms"}),
        ("watermark", {"strategy": "adaptive", "completeness": 1, "at_least": "5s", "at_most": "1h"}),
        ("watermark", {"strategy": "punctuated", "where": "paise = 0", "delay": "1s"}),
        ("watermark", {"strategy": "punctuated", "marker": "event_time"}),
        ("watermark", {"strategy": "cli.cli_kit_rules:Own", "options": {"patience": 3}, "idle_after": "2m"}),
        (f"{MINUTES}.window", {"tumbling": "1d", "offset": "-6h", "zone": "Asia/Kolkata"}),
        (f"{MINUTES}.window", {"tumbling": "1m", "offset": 0}),
        (f"{MINUTES}.allowed_lateness", 0),
        (f"{MINUTES}.allowed_lateness", "0"),
        (f"{MINUTES}.too_late", "drop"),
        (f"{MINUTES}.too_late", None),
        (f"{MINUTES}.sinks", [{"sqlite": {"path": "x.db", "table": "t"}}, {"delta": "./d"}, {"jsonl": "j"}]),
        (
            f"{MINUTES}.sinks",
            [
                {"postgres": "postgresql://ana@db/books"},
                {
                    "postgres": {
                        "target": "host=db",
                        "schema": "s",
                        "table": "t",
                        "serving": True,
                        "max_behind": 9,
                    }
                },
            ],
        ),
        (
            f"{MINUTES}.late_to",
            [{"sqlite": {"path": "x.db", "table": "t"}}, {"delta": "./d"}, {"jsonl": "j"}],
        ),
        ("dead_letters_to", [{"sqlite": "x.db"}, {"parquet": {"path": "p", "on_outage": "stop"}}]),
        (
            f"{MINUTES}.sinks",
            [
                {"cli.cli_kit_rules:Board": "x"},
                {"delta": {"path": "d", "on_outage": "stop", "max_behind": 1}},
            ],
        ),
        (f"{MINUTES}.window", {"sliding": "5m", "every": "1m", "offset": "30s"}),
        (f"{MINUTES}.window", {"session": "30m"}),
        (f"{MINUTES}.window", {"session": "30m", "max": "8h"}),
        (f"{MINUTES}.window", {"calendar": "month", "zone": "Asia/Kolkata"}),
        (f"{MINUTES}.window", {"global": True}),
        (f"{MINUTES}.trigger", {"late": "batch"}),
        (f"{MINUTES}.trigger", {"early": "1m", "late": "every 30s"}),
        (f"{MINUTES}.trigger", {"early": {"every": "1m", "clock": "event"}, "late": {"every": "30s"}}),
        (f"{MINUTES}.trigger", {"early": {"count": 5}, "late": {"count": 5}}),
        (f"{MINUTES}.trigger", {"early": None}),
        (f"{MINUTES}.trigger", {"early": "1m", "on_time": "if_changed", "closing": True}),
        (f"{MINUTES}.window", {"session": "30m", "touching": "joins", "final": "after_gap"}),
        ("profile", "flink"),
        ("profile", None),
        (f"{MINUTES}.accumulation", "retracting"),
        (f"{MINUTES}.accumulation", None),
        (f"{MINUTES}.emit_empty", True),
        (f"{MINUTES}.by", ...),
        (f"{MINUTES}.where", "paise > 0"),
        ("source.schema", ...),
        (f"{MINUTES}.trigger", {"early": {"every": "1m", "per": None}, "late": {"any": [{"count": 5}]}}),
        (f"{MINUTES}.trigger", {"early": {"repeat": {"every": "1m"}, "until": {"count": 9}}}),
        ("upkeep", {"every": "off", "keep": "3d"}),
        ("upkeep", {"every": False}),
        ("ledger", []),
        ("schedule", {"minute_totals": {"last": "4h", "every": None, "cron": "0 3 * * *"}}),
    ],
)
def test_what_the_loader_takes_the_schema_takes(path: str, value: Any) -> None:
    document = changed(path, value)
    assert loads(document)
    assert fits(document, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "two words"),
        ("name", ...),
        ("store", ""),
        ("colour", "red"),
        ("outputs", {}),
        ("outputs.two words", {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}),
        ("watermark", {}),
        ("watermark", {"idle_after": "2m"}),
        ("watermark", {"strategy": "ascending", "delay": "30s"}),
        ("watermark", {"strategy": "hopeful", "delay": "30s"}),
        ("event.id", []),
        ("event.id", ["txn_id", "txn_id"]),
        ("event.id", 5),
        ("event.id", ["txn_id", 5]),
        ("watermark", {"delay": "-30s"}),
        ("watermark", {"delay": 30}),
        ("watermark", {"delay": "30s", "every": "0s"}),
        ("watermark", {"delay": "30s", "idle_after": "soon"}),
        ("watermark", {"delay": "30s", "delays": {"tower-7": "-5m"}}),
        ("watermark", {"strategy": "percentile", "p": 1}),
        ("watermark", {"strategy": "percentile", "p": "most"}),
        ("watermark", {"strategy": "percentile", "of": 0}),
        ("watermark", {"strategy": "adaptive", "delay": "5s"}),
        ("watermark", {"strategy": "adaptive", "completeness": 0}),
        ("watermark", {"strategy": "adaptive", "resolution": "0s"}),
        ("watermark", {"strategy": "punctuated", "mark": "paise"}),
        ("watermark", {"strategy": "cli.cli_kit_rules:Own", "patience": 3}),
        ("watermark", {"strategy": "cli.cli_kit_rules:"}),
        ("upkeep", {"keep": "-3d"}),
        (f"{MINUTES}.trigger", {"late": {"repeat": {"every": "1m"}, "until": {"count": 9}}}),
        (f"{MINUTES}.window", {"tumbling": "0s"}),
        (f"{MINUTES}.window", {"tumbling": 60}),
        (f"{MINUTES}.window", "1m"),
        (f"{MINUTES}.window", {}),
        (f"{MINUTES}.window", {"tumbling": "1m", "session": "1m"}),
        (f"{MINUTES}.window", {"sliding": "5m"}),
        (f"{MINUTES}.window", {"sliding": "5m", "every": "event"}),
        (f"{MINUTES}.window", {"session": "0s"}),
        (f"{MINUTES}.window", {"calendar": "fortnight"}),
        (f"{MINUTES}.window", {"global": False}),
        (f"{MINUTES}.trigger", {"early": "often"}),
        (f"{MINUTES}.trigger", {"early": {}}),
        (f"{MINUTES}.trigger", {"early": {"count": 0}}),
        (f"{MINUTES}.trigger", {"early": {"every": "1m", "count": 5}}),
        (f"{MINUTES}.trigger", {"late": "30s"}),
        (f"{MINUTES}.trigger", {"late": {"every": "30s", "clock": "event"}}),
        (f"{MINUTES}.trigger", {"on_time": "never"}),
        (f"{MINUTES}.trigger", {"closing": "yes"}),
        (f"{MINUTES}.window", {"session": "30m", "touching": "maybe"}),
        (f"{MINUTES}.window", {"session": "30m", "final": "never"}),
        (f"{MINUTES}.window", {"tumbling": "30m", "touching": "joins"}),
        ("profile", "storm"),
        (f"{MINUTES}.accumulation", "forgetting"),
        (f"{MINUTES}.aggregates", {}),
        (f"{MINUTES}.aggregates", {"two words": "count(*)"}),
        (f"{MINUTES}.late", "sometimes"),
        (f"{MINUTES}.sinks", [{"oracle": "x"}]),
        (f"{MINUTES}.sinks", [{"sqlite": "x.db", "delta": "d"}]),
        (f"{MINUTES}.sinks", ["x.db"]),
        (f"{MINUTES}.sinks", [{"postgres": {"table": "t"}}]),
        (f"{MINUTES}.sinks", [{"postgres": {"target": "host=db", "schema_name": "t"}}]),
        (f"{MINUTES}.sinks", [{"postgres": {"target": "host=db", "serving": "perhaps"}}]),
        (f"{MINUTES}.late_to", [{"oracle": "x"}]),
        ("dead_letters_to", [{"jsonl": {"pth": "x"}}]),
        (f"{MINUTES}.window", ...),
        ("source.files.max_files_per_batch", 0),
        ("upkeep", {"keep": "-7d"}),
        ("schedule", {"minute_totals": {"last": "0s", "every": "1h"}}),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(path: str, value: Any) -> None:
    document = changed(path, value)
    assert not loads(document)
    assert not fits(document, SCHEMA)


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ({"my_sources:Outbox": {"target": "x"}}, True),
        ({"my_sources:Outbox": None, "format": "my_formats:Semicolons", "schema": {"at": "string"}}, True),
        ({"files": {"path": "in", "format": {"my_formats:Semicolons": {"separator": "|"}}}}, True),
        ({"my_sources:Outbox": {}, "files": {"path": "in"}}, False),
        ({"own": {}}, False),
        ({"fils": {"path": "in"}}, False),
        ({"files": {"path": "in"}, "format": "csv"}, False),
        ({"files": {"path": "in", "format": "xml"}}, False),
        ({}, False),
    ],
)
def test_the_kind_of_a_source_is_its_key(source: dict[str, Any], taken: bool) -> None:
    assert fits(source, SCHEMA["$defs"]["Source"]) is taken


FILES = {"files": {"path": "in"}}


@pytest.mark.parametrize(
    ("sources", "watermark", "taken"),
    [
        ({"app": FILES, "pos": FILES}, {"delay": "30s"}, True),
        ({"app": {**FILES, "watermark": {"delay": "1s"}}}, ..., True),
        ({"app": {**FILES, "columns": {"at": "`sold at`"}, "zone": "UTC", "unit": "ms"}}, {"delay": 0}, True),
        ({"app": {"my_sources:Outbox": {}, "watermark": {"strategy": "ascending"}}}, ..., True),
        ({"app": {**FILES, "watermark": {"delya": "1s"}}}, ..., False),
        ({"app": {**FILES, "colums": {}}}, {"delay": 0}, False),
        ({"a b": FILES}, {"delay": 0}, False),
        ({"app": {}}, {"delay": 0}, False),
    ],
)
def test_of_several_sources_too(sources: dict[str, Any], watermark: Any, taken: bool) -> None:
    document = changed("watermark", watermark)
    assert not fits({**document, "sources": sources}, SCHEMA), "beside source"
    document = {**document, "sources": sources}
    del document["source"]
    assert fits(document, SCHEMA) is taken
    if "Outbox" not in str(sources):  # there is no such module
        assert loads(document) is taken


def test_base_is_no_key_of_the_file() -> None:
    assert not fits(changed("base", "/tmp"), SCHEMA)


def test_the_schema_is_a_schema() -> None:
    assert SCHEMA["$schema"] == DIALECT
    _well_formed(SCHEMA)


def _well_formed(schema: Any, around: frozenset[str] = frozenset()) -> None:
    """`around` are the properties of a schema that this one is a choice of."""
    if isinstance(schema, bool):
        return
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        assert schema["$ref"].removeprefix("#/$defs/") in SCHEMA["$defs"]
    if "type" in schema:
        assert schema["type"] in TYPES
    re.compile(schema.get("pattern", ""))
    properties = around | set(schema.get("properties", {}))
    assert set(schema.get("required", [])) <= properties
    if "default" in schema:
        assert fits(schema["default"], {key: value for key, value in schema.items() if key != "default"})
    for holder in ("properties", "$defs"):
        for inner in schema.get(holder, {}).values():
            _well_formed(inner)
    for holder in ("items", "additionalProperties", "propertyNames"):
        _well_formed(schema.get(holder, True))
    for holder in ("anyOf", "oneOf"):
        for inner in schema.get(holder, []):
            _well_formed(inner, properties)


def test_the_verb_prints_it(cli: Cli) -> None:
    said = cli("schema")
    assert said.status == 0
    assert json.loads(said.out) == SCHEMA


def test_the_columns_of_a_source_are_yaml_to_be_declared(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(
        '{"at": "2026-01-01T10:00:00Z", "naïve: key": 1.5, "tags": ["a"]}\n'
    )
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: p\nstore: ./store\nsource: {files: {path: ./in}}\nevent: {time: at}\nwatermark: {delay: 1m}\n"
        "outputs: {all: {window: {tumbling: 1m}, aggregates: {n: count(*)}}}\n"
    )
    found = yaml.safe_load(cli("-q", "schema", file).out)
    assert found == {"source": {"schema": {"at": "string", "naïve: key": "double", "tags": "array<string>"}}}
    declared = yaml.safe_load(file.read_text())
    declared["source"] |= found["source"]
    file.write_text(yaml.safe_dump(declared))
    assert cli("-q", "validate", file).status == 0
