"""Which of the counted schemas a registry has."""

from __future__ import annotations

import pyarrow as pa

from latecomer.errors import RegistryError
from latecomer.schemas.inventory.seen import Inventory, Seen
from latecomer.schemas.jsonschema import SchemaError, Validator
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.refusals import NO_SCHEMA, NO_SUBJECT, NO_VERSION

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


def as_rows(found: Inventory, registry: Client | None) -> pa.Table:
    """One row for each schema; `registered` is null if no registry was asked."""
    rows = []
    for each in found.seen:
        known = None if registry is None else registered(each, registry)
        values = (each.place, each.schema_id, each.shape, each.messages, each.first, each.last, known)
        rows.append(dict(zip(SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def registered(seen: Seen, registry: Client) -> str:
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


def _fitting(seen: Seen, registry: Client) -> str:
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
