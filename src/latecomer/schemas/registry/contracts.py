"""Data contracts: what is said of a schema beside its text. Metadata, and rules that are kept and not run.

`confluent:version` is a property that the registry keeps at the number of the version, where anybody has asked for it.
Without it a version is found that has it, and with it the version of that number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latecomer.schemas.registry.records import Definition

VERSION = "confluent:version"
RULES = ("migrationRules", "domainRules", "encodingRules")
_Layer = Mapping[str, Any] | None


def merged_metadata(*layers: _Layer) -> dict[str, Any] | None:
    """Metadata of several layers, the last of which counts most.

    >>> merged_metadata({"properties": {"a": "1", "b": "1"}}, None, {"properties": {"b": "2"}})
    {'properties': {'a': '1', 'b': '2'}}
    """
    found: dict[str, Any] = {}
    for layer in filter(None, layers):
        for key in ("tags", "properties"):
            found[key] = {**found.get(key, {}), **layer.get(key, {})}
        found["sensitive"] = sorted({*found.get("sensitive", ()), *layer.get("sensitive", ())})
    return {key: value for key, value in found.items() if value} or None


def merged_rules(*layers: _Layer) -> dict[str, Any] | None:
    """Rules of several layers. One takes the place of another with the same name."""
    found: dict[str, Any] = {}
    for layer in filter(None, layers):
        for key in RULES:
            by_name = {each["name"]: each for each in (*found.get(key, ()), *layer.get(key, ()))}
            found[key] = list(by_name.values())
        if "enableAt" in layer:
            found["enableAt"] = layer["enableAt"]
    return {key: value for key, value in found.items() if value} or None


def property_of(metadata: _Layer, name: str) -> str | None:
    value = (metadata or {}).get("properties", {}).get(name)
    return None if value is None else str(value)


def has_properties(metadata: _Layer, wanted: Mapping[str, str]) -> bool:
    return all(property_of(metadata, name) == value for name, value in wanted.items())


def version_in(metadata: _Layer) -> int | None:
    """The version that metadata names, if it is a number from 1 on."""
    written = property_of(metadata, VERSION) or ""
    is_number = written.isascii() and written.isdecimal() and len(written) <= 10
    return (int(written) or None) if is_number else None


def with_version(metadata: _Layer, version: int) -> dict[str, Any]:
    properties = {**(metadata or {}).get("properties", {}), VERSION: str(version)}
    return {**(metadata or {}), "properties": properties}


def without_version(metadata: _Layer) -> dict[str, Any] | None:
    """
    >>> without_version({"properties": {"confluent:version": "3"}}) is None
    True
    """
    properties = {
        name: value for name, value in (metadata or {}).get("properties", {}).items() if name != VERSION
    }
    return merged_metadata({**(metadata or {}), "properties": properties})


def has_same_contract(sent: Definition, kept: Definition, version: int) -> bool:
    """Whether the metadata and rules that are sent beside a schema are those of a version, whatever the texts are."""
    if sent.rules != kept.rules:
        return False
    asked, named = version_in(sent.metadata), version_in(kept.metadata)
    if asked is None and named is not None:
        return sent.metadata == without_version(kept.metadata)
    if asked is not None and named is None:
        return asked == version and without_version(sent.metadata) == kept.metadata
    return sent.metadata == kept.metadata


def rule_types(rules: _Layer) -> Iterator[str]:
    for key in RULES[:2]:
        for rule in (rules or {}).get(key, ()):
            yield rule.get("type", "")
