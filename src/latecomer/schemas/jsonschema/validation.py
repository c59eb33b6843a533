"""Whether a record is valid under a schema, and where it is not. The library `jsonschema-rs` decides.

This module adds limits (`costs.py`, `patterns.py`) and messages. Formats are not checked. A record that would take too
many steps, or is nested too deeply, is invalid. Its numbers are read as they are written.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn
from urllib.parse import quote, urljoin

import jsonschema_rs

from latecomer.schemas.json_input import TOO_DEEP, depth_of
from latecomer.schemas.jsonschema import patterns
from latecomer.schemas.jsonschema.costs import costs_of
from latecomer.schemas.jsonschema.keywords import ADDRESSES, Draft
from latecomer.schemas.jsonschema.nodes import Node
from latecomer.schemas.jsonschema.parsing import Document, Schema
from latecomer.schemas.mistakes import Path, SchemaError, shown_value, written_path

MOST_STEPS = 100_000_000
"""Rules that check one value, times the characters of a record. At worst this takes some seconds."""
_MOST_FAULTS = 20
_LONGEST_MESSAGE = 300
_VALUE = "\ue000"
"""Replaces the value in the library's messages, which would contain all of it."""
_NO_BASE = "json-schema:///"
"""The base that the library adds to names that are no whole addresses."""
_ADDRESS = "%/:?#[]@!$&'()*+,;=~"
"""Characters of an address that are not percent-encoded."""
_NAMES = {"$id", "id", "$ref", "$dynamicRef", "$recursiveRef"}
_NOTES = (
    *("$comment", "title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated"),
    *("format", "contentMediaType", "contentEncoding", "contentSchema"),
)
"""Keywords that refuse no value. They are removed: the library would refuse some schemas or values for them."""

_ESCAPED, _HIGH = r"(?<!\\)(?:\\\\)*", r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_HALF = re.compile(rf"{_ESCAPED}(?:{_HIGH}(?!\\u[dD][c-fC-F])|(?<!{_HIGH})\\u[dD][c-fC-F])")
"""A surrogate escape without its other half."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a value, and where."""

    path: Path
    message: str

    def __str__(self) -> str:
        place = written_path(self.path) if self.path else "the value"
        return f"{place}: {self.message}"


class Validator:
    """Checks records against a schema. Create one for many records."""

    def __init__(self, schema: Schema) -> None:
        """Raises SchemaError if the schema has patterns that cannot be run, or takes too many steps."""
        self._costs = costs_of(schema.root)
        self._cost = max(self._costs)
        others = _referred(schema.document)
        try:
            self._validator = jsonschema_rs.validator_for(
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
        faults: list[Fault] = []
        try:
            for each in self._validator.iter_errors(value):
                message = each.message.replace(_VALUE, shown_value(each.instance), 1)
                faults.append(Fault(tuple(each.instance_path), message[:_LONGEST_MESSAGE]))
                if len(faults) == _MOST_FAULTS:
                    break
        except ValueError:  # Python converts no int of more than 4,300 digits to text
            faults.append(Fault((), "is not valid, and has a whole number that is too long to be shown"))
        return faults

    def _beyond(self, text: str) -> str | None:
        """The limit that a record exceeds; None if it exceeds none."""
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


# The JSON of a record


class NotJson(ValueError):
    """A text is not JSON. The message says why."""


def read_record(text: str) -> Any:
    """The value of a record. Raises NotJson.

    >>> read_record('{"paise": 0.10, "share": 1e-1}')
    {'paise': Decimal('0.10'), 'share': Decimal('0.1')}
    """
    if "\\u" in text and _HALF.search(text):
        raise NotJson("it has an escape that is half of a character")
    try:
        return _loaded(text)
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_constant)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        if isinstance(error, NotJson):
            raise
        # Python converts no text of more than 4,300 digits to int
        return json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_constant)


def _constant(name: str) -> NoReturn:
    raise NotJson(f"not JSON: {name} is no number there")


# The schema that is passed to the library


def _referred(document: Document) -> dict[str, Any]:
    """Address → JSON of every schema that a schema refers to, directly or indirectly."""
    documents: dict[str, Document] = {}
    pending = [("", document)]
    while pending:
        around, each = pending.pop()
        for name, other in each.addresses.items():
            address = quote(urljoin(around, name), _ADDRESS)
            known = documents.setdefault(address, other)
            if known is other:
                pending.append((address, other))
            elif known.value != other.value:
                fix = "give one of them another name"
                raise SchemaError((), "refers to two schemas by one name", fix, address)
    return {address: _as_run(each) for address, each in documents.items()}


def _as_run(document: Document) -> Any:
    """A copy for the library: with the draft and mended patterns, without keywords that refuse no value."""
    copy = json.loads(json.dumps(document.value))
    for path in sorted(document.places, key=len, reverse=True):  # the schemas within a pattern's schema first
        value = copy
        for step in path:
            value = value[step]
        if isinstance(value, dict):
            _prepare(value, document.places[path], document.draft)
    if isinstance(copy, dict):
        copy["$schema"] = ADDRESSES[document.draft]
    return copy


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
            raise SchemaError(
                (), "has two patterns that mean the same", "write one of them", ", ".join(schemas)
            )
