"""The registry's tables and every statement on them: the same for SQLite and Postgres. A database has reading
transactions, and writing transactions, which run one at a time.

Rows of `registry_schemas` are never deleted, so the schema of an id never changes. `text` is null if every version of a
schema was deleted permanently. A schema has one id, unless it was imported under several. `contract` has the metadata
and rules as JSON, or is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from latecomer.errors import RegistryError
from latecomer.schemas.registry.records import Actor, AuditEntry, Definition, Deleted, Reference, Version

FORMAT = 3
"""The format of the tables. Earlier ones are migrated; later ones are refused."""
SCHEMAS_BY_IDENTITY = "CREATE INDEX registry_schemas_identity ON registry_schemas (identity)"
SCHEMA = (
    "CREATE TABLE registry_format (version INTEGER NOT NULL)",
    "CREATE TABLE registry_schemas "
    "(id INTEGER PRIMARY KEY, identity TEXT NOT NULL, type TEXT NOT NULL, text TEXT, contract TEXT)",
    SCHEMAS_BY_IDENTITY,
    "CREATE TABLE registry_references (id INTEGER NOT NULL REFERENCES registry_schemas (id), name TEXT NOT NULL, "
    "subject TEXT NOT NULL, version INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (id, name))",
    "CREATE INDEX registry_references_to ON registry_references (subject, version)",
    "CREATE TABLE registry_versions (subject TEXT NOT NULL, version INTEGER NOT NULL, "
    "id INTEGER NOT NULL REFERENCES registry_schemas (id), deleted INTEGER NOT NULL DEFAULT 0, "
    "registered_at TEXT NOT NULL, PRIMARY KEY (subject, version))",
    "CREATE INDEX registry_versions_of ON registry_versions (id)",
    "CREATE TABLE registry_settings (kind TEXT NOT NULL, subject TEXT NOT NULL, value TEXT NOT NULL, "
    "PRIMARY KEY (kind, subject))",
    "CREATE TABLE registry_audit (number INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, "
    "address TEXT NOT NULL, action TEXT NOT NULL, subject TEXT, version INTEGER, was TEXT, became TEXT)",
)
_TO_FORMAT_3 = (
    "ALTER TABLE registry_schemas ADD COLUMN contract TEXT",
    "UPDATE registry_format SET version = 3",
)
"""From format 2 to 3: a schema may have metadata and rules."""
EVERYWHERE = ""
"""The subject of the settings of the whole registry."""
Row = tuple[Any, ...]


class StorageError(RegistryError):
    """The database refused, or cannot be reached. A later try may succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 50001)


@dataclass(frozen=True)
class Transaction:
    """A transaction. Values replace the question marks of a statement."""

    execute: Callable[[str, tuple[Any, ...]], Any]

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return list(self.execute(sql, values).fetchall())

    def run(self, sql: str, *values: Any) -> None:
        self.execute(sql, values)


class Database(Protocol):
    """Where a registry stores its tables."""

    shown: str
    """Its location in messages, without secrets."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that reads one snapshot."""
        ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction without concurrent writes. It is on disk when the block has ended."""
        ...

    def close(self) -> None: ...


class SubjectVersion(NamedTuple):
    """A version of a subject, without its schema."""

    subject: str
    version: int
    id: int
    deleted: bool
    registered_at: str


def prepare(
    session: Transaction, shown: str, *, is_new: bool, triggers: Sequence[str], to_format_2: Sequence[str]
) -> None:
    """Create the tables, or bring them to the present format. Triggers and the step to format 2 differ by database."""
    if is_new:
        for statement in (*SCHEMA, *triggers):
            session.run(statement)
        session.run("INSERT INTO registry_format (version) VALUES (?)", FORMAT)
    version = session.rows("SELECT version FROM registry_format")[0][0]
    if version > FORMAT:
        raise RegistryError(
            f"{shown} was written by a later version of latecomer (format {version}; this version reads up to "
            f"format {FORMAT}); install the later version"
        )
    steps = {1: (*to_format_2, *_TO_FORMAT_3), 2: _TO_FORMAT_3}
    for statement in steps.get(version, ()):
        session.run(statement)


# Schemas


def definition(session: Transaction, number: int) -> Definition | None:
    """The schema of an id; None if there is no such id, or all of its versions were deleted permanently."""
    rows = session.rows(
        "SELECT text, type, contract FROM registry_schemas WHERE id = ? AND text IS NOT NULL", number
    )
    if not rows:
        return None
    text, kind, contract = rows[0]
    metadata, rules = (None, None) if contract is None else json.loads(contract)
    references = session.rows(
        "SELECT name, subject, version FROM registry_references WHERE id = ? ORDER BY place", number
    )
    return Definition(text, kind, tuple(Reference(*row) for row in references), metadata, rules)


def ids_of_identity(session: Transaction, identity: str) -> list[int]:
    """The ids of a schema, first the one for new versions."""
    rows = session.rows("SELECT text IS NULL, id FROM registry_schemas WHERE identity = ?", identity)
    return [number for _, number in sorted(rows)]


def identity_of_id(session: Transaction, number: int) -> str | None:
    rows = session.rows("SELECT identity FROM registry_schemas WHERE id = ?", number)
    return rows[0][0] if rows else None


def guid_of_id(session: Transaction, number: int) -> str:
    """The GUID of a schema, for programs that do not use ids. It is derived from the schema."""
    return str(UUID(hex=str(identity_of_id(session, number))[:32]))


def ids_of_guid(session: Transaction, guid: UUID) -> list[int]:
    """The ids of the schemas with a GUID that can be read."""
    rows = session.rows(
        "SELECT id FROM registry_schemas WHERE identity LIKE ? AND text IS NOT NULL ORDER BY id",
        f"{guid.hex}%",
    )
    return [number for (number,) in rows]


def largest_id(session: Transaction) -> int:
    return int(session.rows("SELECT COALESCE(MAX(id), 0) FROM registry_schemas")[0][0])


def keep_schema(session: Transaction, number: int, identity: str, schema: Definition) -> None:
    """Store a schema under its id, unless it is stored already."""
    has_contract = schema.metadata or schema.rules
    contract = json.dumps([schema.metadata, schema.rules]) if has_contract else None
    insert = (
        "INSERT INTO registry_schemas (id, identity, type, text, contract) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET text = COALESCE(registry_schemas.text, excluded.text)"
    )
    session.run(insert, number, identity, schema.type, schema.text, contract)
    insert = (
        "INSERT INTO registry_references (id, name, subject, version, place) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id, name) DO NOTHING"
    )
    for place, each in enumerate(schema.references):
        session.run(insert, number, each.name, each.subject, each.version, place)


def forget_unused(session: Transaction, numbers: Iterable[int]) -> None:
    """Remove the texts of ids that no version uses any more."""
    for number in set(numbers):
        if not session.rows("SELECT 1 FROM registry_versions WHERE id = ? LIMIT 1", number):
            session.run("UPDATE registry_schemas SET text = NULL WHERE id = ?", number)
            session.run("DELETE FROM registry_references WHERE id = ?", number)


def ids_with_more(session: Transaction, subject: str) -> set[int]:
    """The ids of a subject's versions with references or a contract."""
    rows = session.rows(
        "SELECT DISTINCT v.id FROM registry_versions v JOIN registry_schemas s ON s.id = v.id "
        "LEFT JOIN registry_references r ON r.id = v.id "
        "WHERE v.subject = ? AND (s.contract IS NOT NULL OR r.id IS NOT NULL)",
        subject,
    )
    return {number for (number,) in rows}


def referring_ids(session: Transaction, subject: str, version: int, deleted: Deleted) -> list[int]:
    """The ids of schemas that refer to a version of a subject."""
    rows = session.rows(
        "SELECT DISTINCT r.id, v.deleted FROM registry_references r JOIN registry_versions v ON v.id = r.id "
        "WHERE r.subject = ? AND r.version = ?",
        subject,
        version,
    )
    return sorted({number for number, gone in rows if deleted.takes(bool(gone))})


# Versions

_PLACES = "SELECT subject, version, id, deleted, registered_at FROM registry_versions"


def places(session: Transaction, deleted: Deleted, subject: str | None = None) -> list[SubjectVersion]:
    """Versions of a subject, or of all, by subject and number."""
    where, values = ("", ()) if subject is None else (" WHERE subject = ?", (subject,))
    return _places(session.rows(_PLACES + where, *values), deleted)


def places_of_id(session: Transaction, number: int, deleted: Deleted) -> list[SubjectVersion]:
    return _places(session.rows(f"{_PLACES} WHERE id = ?", number), deleted)


def _places(rows: Iterable[Any], deleted: Deleted) -> list[SubjectVersion]:
    versions = [
        SubjectVersion(subject, version, number, bool(gone), at)
        for subject, version, number, gone, at in rows
    ]
    return sorted(each for each in versions if deleted.takes(each.deleted))


def filled(session: Transaction, place: SubjectVersion) -> Version:
    """A version with its schema."""
    schema = definition(session, place.id)
    if schema is None:
        raise LookupError(f"the schema {place.id} of {place.subject} version {place.version} is not there")
    guid = guid_of_id(session, place.id)
    return Version(place.subject, place.version, place.id, schema, place.deleted, place.registered_at, guid)


def add_version(session: Transaction, place: SubjectVersion) -> None:
    insert = (
        "INSERT INTO registry_versions (subject, version, id, deleted, registered_at) VALUES (?, ?, ?, ?, ?)"
    )
    session.run(insert, place.subject, place.version, place.id, int(place.deleted), place.registered_at)


def mark_deleted(session: Transaction, subject: str, version: int) -> None:
    session.run(
        "UPDATE registry_versions SET deleted = 1 WHERE subject = ? AND version = ?", subject, version
    )


def remove_version(session: Transaction, subject: str, version: int) -> None:
    session.run("DELETE FROM registry_versions WHERE subject = ? AND version = ?", subject, version)


# Settings


def setting(session: Transaction, kind: str, subject: str = EVERYWHERE) -> Any:
    """A setting; None if it is not set."""
    rows = session.rows("SELECT value FROM registry_settings WHERE kind = ? AND subject = ?", kind, subject)
    return json.loads(rows[0][0]) if rows else None


def settings(session: Transaction, kind: str) -> dict[str, Any]:
    """Subject → setting of a kind."""
    rows = session.rows("SELECT subject, value FROM registry_settings WHERE kind = ?", kind)
    return {subject: json.loads(value) for subject, value in rows}


def put_setting(session: Transaction, kind: str, subject: str, value: Any) -> None:
    insert = (
        "INSERT INTO registry_settings (kind, subject, value) VALUES (?, ?, ?) "
        "ON CONFLICT (kind, subject) DO UPDATE SET value = excluded.value"
    )
    session.run(insert, kind, subject, json.dumps(value))


def remove_setting(session: Transaction, kind: str, subject: str) -> None:
    session.run("DELETE FROM registry_settings WHERE kind = ? AND subject = ?", kind, subject)


# The audit


def add_entry(
    session: Transaction,
    at: str,
    actor: Actor,
    action: str,
    subject: str | None,
    version: int | None,
    before: Any,
    after: Any,
) -> None:
    """Add an entry; it gets the next number."""
    insert = (
        "INSERT INTO registry_audit (number, at, who, address, action, subject, version, was, became) "
        "VALUES ((SELECT COALESCE(MAX(number), 0) + 1 FROM registry_audit), ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    bodies = json.dumps(before), json.dumps(after)
    session.run(insert, at, actor.name, actor.address, action, subject, version, *bodies)


def entries(session: Transaction, after: int, limit: int, subject: str | None) -> list[AuditEntry]:
    """Entries after a number, the oldest first."""
    only, values = ("", ()) if subject is None else (" AND subject = ?", (subject,))
    select = (
        "SELECT number, at, who, address, action, subject, version, was, became FROM registry_audit "
        f"WHERE number > ?{only} ORDER BY number LIMIT ?"
    )
    rows = session.rows(select, after, *values, limit)
    return [AuditEntry(*row[:-2], *map(json.loads, row[-2:])) for row in rows]
