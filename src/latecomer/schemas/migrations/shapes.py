"""The schemas of a migration: with both shapes, and with the new one alone; and whether a reader needs the old one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from latecomer.errors import LatecomerError, did_you_mean
from latecomer.schemas.avro import Schema, incompatibilities, parse_schema, schema_of
from latecomer.schemas.avro.types import Record
from latecomer.schemas.json_input import read_json
from latecomer.schemas.migrations.definition import ADDITIVE, Migration

References = Mapping[str, Schema]
_NONE: References = {}


def expanded_text(text: str, migration: Migration, references: References = _NONE) -> str:
    """The schema with both shapes, made from the latest schema of the subject."""
    record = _record(text, migration)
    names = [each["name"] for each in record["fields"]]
    if not migration.from_:
        raise LatecomerError(f"{migration.subject}: {ADDITIVE}")
    for name in migration.old:
        if name not in names:
            raise LatecomerError(
                f"from: {migration.subject} has no field {name}; {did_you_mean(name, names)}"
            )
    for name in migration.to:
        if name in names:
            raise LatecomerError(f"to: {migration.subject} has a field {name} already; give it another name")
    added = [{"name": name, **each.definition} for name, each in migration.to.items()]
    expanded = json.dumps({**record, "fields": [*record["fields"], *added]}, ensure_ascii=False)
    _require_valid(expanded, "the schema with both shapes", references)
    # The schema of the last phase must be valid before the first one begins.
    contracted_text(expanded, migration, references)
    return expanded


def contracted_text(text: str, migration: Migration, references: References = _NONE) -> str:
    """The schema without the old shape, made from the latest schema of the subject."""
    record = _record(text, migration)
    kept = [each for each in record["fields"] if each["name"] not in migration.from_]
    contracted = json.dumps({**record, "fields": kept}, ensure_ascii=False)
    _require_valid(contracted, "the schema without the old shape", references)
    return contracted


def _record(text: str, migration: Migration) -> dict[str, Any]:
    schema = read_json(text)
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        raise LatecomerError(
            f"subject: the schema of {migration.subject} is no Avro record, and only fields of one can be migrated; "
            "name another subject"
        )
    return schema


def _require_valid(text: str, what: str, references: References) -> Schema:
    try:
        return parse_schema(text, references, strict=False)
    except LatecomerError as error:
        raise LatecomerError(f"{what} would not be valid: {error}") from None


def reader_problems(reader: Any, contracted: Schema, removed: Collection[str]) -> list[str]:
    """Why a consumer with this reader schema needs the old fields, `removed`; empty if it does not.

    An old field with a default in the reader schema is a problem too: it is read without an error, but is always that
    default.
    """
    schema = parse_schema(reader) if isinstance(reader, str) else schema_of(reader)
    problems = [str(each) for each in incompatibilities(schema, contracted)]
    root, written = schema.root, contracted.root
    if isinstance(root, Record) and isinstance(written, Record):
        remaining = {each.name for each in written.fields}
        for each in root.fields:
            names = {each.name, *each.aliases}
            if each.default is not None and names & set(removed) and not names & remaining:
                problems.append(
                    f"it reads {each.name}, which would always be the default {each.default.text}; "
                    "read the new fields instead"
                )
    return problems
