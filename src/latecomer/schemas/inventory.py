"""Counts messages by schema, and finds the schemas that no registry has.

The schema is the id in Confluent's framing or in a header, else the shape of the JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from latecomer.errors import RegistryError
from latecomer.schemas.jsonschema import SchemaError, Validator
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.names import id_in
from latecomer.schemas.registry.refusals import NO_SCHEMA, NO_SUBJECT, NO_VERSION

MAGIC, HEAD = 0, 5
MOST_SHAPES = 1_000
"""How many shapes are counted apart; further ones are counted as `OTHER`."""
DEEPEST, MOST_FIELDS = 8, 100
NO_VALUE, UNREADABLE, OTHER = "(no value)", "(neither framed nor JSON)", "(other shapes)"
NO_ID = "(no id)"
NOWHERE = "nowhere"
JSON = "JSON"
_MISSING = (404, NO_SCHEMA, NO_SUBJECT, NO_VERSION)
SCHEMA = pa.schema(
    [
        ("place", pa.string()),
        ("schema_id", pa.int64()),
        ("shape", pa.string()),
        ("count", pa.int64()),
        ("first_seen", pa.timestamp("us", "UTC")),
        ("last_seen", pa.timestamp("us", "UTC")),
        ("registered", pa.string()),
    ]
)


@dataclass
class SchemaCount:
    """Messages or events of one schema."""

    place: str
    schema_id: int | None
    shape: str | None
    messages: int = 0
    first: datetime | None = None
    last: datetime | None = None
    example: bytes | None = field(default=None, repr=False)

    def add(self, messages: int, first: datetime | None, last: datetime | None) -> None:
        self.messages += messages
        self.first = min((each for each in (self.first, first) if each is not None), default=None)
        self.last = max((each for each in (self.last, last) if each is not None), default=None)


class Inventory:
    """Counts messages by place and schema."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None, str | None], SchemaCount] = {}
        self._shapes = 0

    @property
    def seen(self) -> list[SchemaCount]:
        """The counts by place, the most frequent first."""
        return sorted(self._seen.values(), key=lambda each: (each.place, -each.messages, each.shape or ""))

    def add_message(
        self, topic: str, value: bytes | None, at: datetime | None, header: bytes | None = None
    ) -> None:
        """Count a message of a topic. `header` is the header that may have its id."""
        number, shape = schema_of(value)
        named = None if value is None or header is None else id_in(header)
        if named is not None:
            number, shape = named, None
        is_new = (topic, number, shape) not in self._seen
        if is_new and number is None and self._shapes >= MOST_SHAPES:
            shape = OTHER
        elif is_new and number is None:
            self._shapes += 1
        counted = self._of(topic, number, shape)
        counted.example = counted.example or value
        counted.add(1, at, at)

    def add_events(
        self, place: str, schema_id: int | None, events: int, first: datetime, last: datetime
    ) -> None:
        """Count events of a log."""
        self._of(place, schema_id, NO_ID if schema_id is None else None).add(events, first, last)

    def _of(self, place: str, number: int | None, shape: str | None) -> SchemaCount:
        return self._seen.setdefault((place, number, shape), SchemaCount(place, number, shape))


def schema_of(value: bytes | None) -> tuple[int | None, str | None]:
    """The id in the framing of a message, else its shape.

    >>> schema_of(bytes([0, 0, 0, 0, 7, 1, 2]))
    (7, None)
    >>> schema_of(b'{"fare": {"paise": 250}, "at": "14:00"}')
    (None, '{at: string, fare: {paise: number}}')
    """
    if value is None:
        return None, NO_VALUE
    if len(value) >= HEAD and value[0] == MAGIC:
        return int.from_bytes(value[1:HEAD], "big"), None
    try:
        return None, shape_of(json.loads(value))
    except (ValueError, RecursionError):
        return None, UNREADABLE


def shape_of(value: Any, depth: int = 1) -> str:
    """The fields of a JSON value, in the order of their names, and their types.

    >>> shape_of({"tags": ["a", "b"], "n": 1, "ok": None, "odd": [1, "a"]})
    '{n: number, odd: [number | string], ok: null, tags: [string]}'
    """
    if isinstance(value, dict):
        if depth > DEEPEST:
            return "{…}"
        fields = [f"{name}: {shape_of(value[name], depth + 1)}" for name in sorted(value)[:MOST_FIELDS]]
        return "{" + ", ".join([*fields, *(["…"] if len(value) > MOST_FIELDS else [])]) + "}"
    if isinstance(value, list):
        if depth > DEEPEST:
            return "[…]"
        return f"[{' | '.join(sorted({shape_of(each, depth + 1) for each in value[:MOST_FIELDS]}))}]"
    if value is None:
        return "null"
    return {bool: "boolean", str: "string"}.get(type(value), "number")


# Which of them a registry has


def as_rows(found: Inventory, registry: Client | None) -> pa.Table:
    """One row for each schema; `registered` is null if no registry was asked."""
    rows = []
    for each in found.seen:
        known = None if registry is None else registered(each, registry)
        values = (each.place, each.schema_id, each.shape, each.messages, each.first, each.last, known)
        rows.append(dict(zip(SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def registered(seen: SchemaCount, registry: Client) -> str:
    """Where a registry has a schema: under the id, or as the latest version of the topic's subject, if a message fits
    it."""
    try:
        if seen.schema_id is not None:
            return f"{registry.schema(seen.schema_id).definition.type} schema {seen.schema_id}"
        return _fitting(seen, registry)
    except RegistryError as error:
        if error.code in _MISSING:
            return NOWHERE
        raise


def _fitting(seen: SchemaCount, registry: Client) -> str:
    """The latest version of the topic's subject, if it is a JSON Schema that a message of this shape fits."""
    if seen.example is None:
        return NOWHERE
    subject = f"{seen.place}-value"
    version = registry.version(subject)
    if version.definition.type != JSON:
        return NOWHERE
    try:
        fits = Validator(registry.parsed(version).schema).allows(seen.example.decode())
    except (ValueError, RecursionError, SchemaError):
        return NOWHERE
    return f"{subject} version {version.version}" if fits else NOWHERE
