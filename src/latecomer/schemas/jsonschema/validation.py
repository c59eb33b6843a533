"""Whether a record is valid under a schema, and where it is not. The library `jsonschema-rs` decides.

Here are the limits around it (`costs.py`, `patterns.py`), and what people read. Formats refuse nothing. A record that
would take too many steps, or that is nested too deeply, counts as invalid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin

import jsonschema_rs

from latecomer.schemas.jsonschema import patterns
from latecomer.schemas.jsonschema.costs import costs_of
from latecomer.schemas.jsonschema.drafts import ADDRESSES, Draft
from latecomer.schemas.jsonschema.nodes import Node
from latecomer.schemas.jsonschema.parsing import Document, Schema
from latecomer.schemas.jsonschema.records import depth_of, read_record
from latecomer.schemas.mistakes import Path, SchemaError, shown_value, written_path

MOST_STEPS = 100_000_000
"""Rules that look at one value, times the letters of a record: some seconds at worst, and mostly nothing."""
_MOST_FAULTS = 20
_LONGEST_MESSAGE = 300
_VALUE = "\ue000"
"""Stands for the value in what the library says, which would write it out."""
_NO_BASE = "json-schema:///"
"""Where the library begins with names that are no whole addresses."""
_ADDRESS = "%/:?#[]@!$&'()*+,;=~"
"""Signs of an address that are not quoted."""
_NAMES = {"$id", "id", "$ref", "$dynamicRef", "$recursiveRef"}
_NOTES = (
    *("$comment", "title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated"),
    *("format", "contentMediaType", "contentEncoding", "contentSchema"),
)
"""Keywords that refuse no value. The library would refuse a schema, or a value, for some of them."""
_VALIDATORS: Mapping[Draft, Callable[..., jsonschema_rs.Validator]] = {
    Draft.DRAFT_04: jsonschema_rs.Draft4Validator,
    Draft.DRAFT_06: jsonschema_rs.Draft6Validator,
    Draft.DRAFT_07: jsonschema_rs.Draft7Validator,
    Draft.V2019_09: jsonschema_rs.Draft201909Validator,
    Draft.V2020_12: jsonschema_rs.Draft202012Validator,
}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a value, and where in it."""

    path: Path
    message: str

    def __str__(self) -> str:
        place = written_path(self.path) if self.path else "the value"
        return f"{place}: {self.message}"


class Validator:
    """Checks records against a schema. Made once for many records."""

    def __init__(self, schema: Schema) -> None:
        """Raises a SchemaError if the schema has patterns that are not run, or takes too many steps."""
        self._costs = costs_of(schema.root)
        self._cost = max(self._costs)
        others = _referred(schema.document)
        try:
            self._validator = _VALIDATORS[schema.draft](
                _as_run(schema.document),
                retriever=lambda address: others[address.removeprefix(_NO_BASE)],
                pattern_options=patterns.options(),
                mask=_VALUE,
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise _unusable(error) from None

    def allows(self, text: str) -> bool:
        """Whether the JSON of a record is valid. Raises NotJson.

        >>> from latecomer.schemas.jsonschema.parsing import schema_of
        >>> Validator(schema_of({"properties": {"a": {"multipleOf": 0.01}}})).allows('{"a": 0.07}')
        True
        """
        value = read_record(text)
        return self._beyond(text) is None and self._validator.is_valid(value)

    def faults(self, text: str) -> list[Fault]:
        """What is wrong with the JSON of a record; nothing if it is valid. Raises NotJson.

        >>> from latecomer.schemas.jsonschema.parsing import schema_of
        >>> [str(each) for each in Validator(schema_of({"properties": {"a": {"minimum": 0}}})).faults('{"a": -1}')]
        ['a: -1 is less than the minimum of 0']
        """
        value = read_record(text)
        if (beyond := self._beyond(text)) is not None:
            return [Fault((), beyond)]
        if self._validator.is_valid(value):
            return []
        found: list[Fault] = []
        try:
            for each in self._validator.iter_errors(value):
                message = each.message.replace(_VALUE, shown_value(each.instance), 1)
                found.append(Fault(tuple(each.instance_path), message[:_LONGEST_MESSAGE]))
                if len(found) == _MOST_FAULTS:
                    break
        except ValueError:  # Python writes no whole number of more than 4,300 digits
            found.append(Fault((), "is not valid, and has a whole number that is too long to be shown"))
        return found

    def _beyond(self, text: str) -> str | None:
        """Which limit a record is beyond."""
        deepest = len(self._costs) - 1
        if len(text) * self._cost <= MOST_STEPS and text.count("[") + text.count("{") <= deepest:
            return None
        depth = depth_of(text)
        if depth > deepest:
            return f"is nested too deeply to be checked, {depth} levels and not at most {deepest}"
        cost = max(self._costs[: depth + 1])
        return "takes too many steps to check" if len(text) * cost > MOST_STEPS else None


def _unusable(error: Exception) -> SchemaError:
    path = getattr(error, "instance_path", ())
    message = str(getattr(error, "message", error)).replace(_VALUE, "it")[:_LONGEST_MESSAGE]
    fix = "write it as its draft has it, or check it where the data is used"
    return SchemaError(tuple(path), f"cannot be checked by: {message}", fix)


# The schema as the library gets it


def _referred(document: Document) -> dict[str, Any]:
    """Address → JSON, of all that a schema refers to, and of what that refers to."""
    found: dict[str, Document] = {}
    left = [("", document)]
    while left:
        around, each = left.pop()
        for name, other in each.addresses.items():
            address = quote(urljoin(around, name), _ADDRESS)
            known = found.setdefault(address, other)
            if known is other:
                left.append((address, other))
            elif known.value != other.value:
                fix = "give one of them another name"
                raise SchemaError((), "refers to two schemas by one name", fix, address)
    return {address: _as_run(each) for address, each in found.items()}


def _as_run(document: Document) -> Any:
    """A copy of a document with its draft, without what says nothing of values, and with patterns as they are run."""
    found = json.loads(json.dumps(document.value))
    for path in sorted(document.places, key=len, reverse=True):  # what is within a pattern's schema first
        value = found
        for step in path:
            value = value[step]
        if isinstance(value, dict):
            _prepare(value, document.places[path], document.draft)
    if isinstance(found, dict):
        found.setdefault("$schema", ADDRESSES[document.draft])
    return found


def _prepare(value: dict[str, Any], node: Node, draft: Draft) -> None:
    for name in _NOTES if draft <= Draft.DRAFT_07 else (*_NOTES, "dependencies"):
        value.pop(name, None)
    for name in value.keys() & _NAMES:
        value[name] = quote(value[name], _ADDRESS)
    if "required" in value and draft == Draft.DRAFT_04:
        value["required"] = sorted(node.required)
        if not node.required:
            del value["required"]
    if node.pattern is not None:
        value["pattern"] = patterns.mended(node.pattern)
    if node.pattern_properties:
        schemas = value["patternProperties"]
        value["patternProperties"] = {patterns.mended(name): each for name, each in schemas.items()}
        if len(value["patternProperties"]) < len(schemas):
            raise SchemaError((), "has one pattern in two ways", "write one of them", ", ".join(schemas))
