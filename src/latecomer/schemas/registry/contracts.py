"""Data contracts: the metadata of a schema, and its rules, which are stored and not run.

The registry sets the property `confluent:version` to the number of the version, if somebody has asked for it. A schema
that is sent without the property also matches versions that have it; with the property, only the version of that
number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latecomer.schemas.registry.records import Definition

VERSION = "confluent:version"
RULES = ("migrationRules", "domainRules", "encodingRules")
_Layer = Mapping[str, Any] | None


def merged_metadata(*layers: _Layer) -> dict[str, Any] | None:
    """The metadata of several layers; later layers override earlier ones.

    >>> merged_metadata({"properties": {"a": "1", "b": "1"}}, None, {"properties": {"b": "2"}})
    {'properties': {'a': '1', 'b': '2'}}
    """
    merged: dict[str, Any] = {}
    for layer in filter(None, layers):
        for key in ("tags", "properties"):
            merged[key] = {**merged.get(key, {}), **layer.get(key, {})}
        merged["sensitive"] = sorted({*merged.get("sensitive", ()), *layer.get("sensitive", ())})
    return {key: value for key, value in merged.items() if value} or None


def merged_rules(*layers: _Layer) -> dict[str, Any] | None:
    """The rules of several layers; a later rule replaces an earlier one of the same name."""
    merged: dict[str, Any] = {}
    for layer in filter(None, layers):
        for key in RULES:
            by_name = {each["name"]: each for each in (*merged.get(key, ()), *layer.get(key, ()))}
            merged[key] = list(by_name.values())
        if "enableAt" in layer:
            merged["enableAt"] = layer["enableAt"]
    return {key: value for key, value in merged.items() if value} or None


def property_of(metadata: _Layer, name: str) -> str | None:
    value = (metadata or {}).get("properties", {}).get(name)
    return None if value is None else str(value)


def version_in(metadata: _Layer) -> int | None:
    """The version in metadata, if it is a number from 1."""
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
    """Whether a schema that is sent has the metadata and rules of a stored version. Their texts are not compared."""
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
