"""The parsed schemas of a registry: those that are sent, and those that are stored. Decides which schemas are the same.

The schema of an id never changes, so a stored schema is parsed once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Generic, NamedTuple, TypeVar

from latecomer.errors import RegistryError
from latecomer.schemas.registry import contracts, refusals, tables
from latecomer.schemas.registry.kinds import Parsed, identity, parsed, require_kind
from latecomer.schemas.registry.names import LATEST
from latecomer.schemas.registry.records import DEEPEST_REFERENCES, Definition, Deleted, Reference
from latecomer.schemas.registry.tables import SubjectVersion, Transaction

MOST_REFERENCES = 200
_REMEMBERED = 500
_SENT = 20
K = TypeVar("K")
V = TypeVar("V")


class RecentValues(Generic[K, V]):
    """A cache of the values used last, for several threads.

    >>> found = RecentValues[str, int](2)
    >>> for name, value in zip("abc", (1, 2, 3)):
    ...     found.put(name, value)
    >>> found.get("a"), found.get("c")
    (None, 3)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)


class Sent(NamedTuple):
    """A schema that was sent, with its identity."""

    definition: Definition
    parsed: Parsed
    identity: str
    bare: str
    """The identity without metadata and rules."""


class StoredSchema(NamedTuple):
    """The stored schema of an id, and the length of its longest chain of references."""

    parsed: Parsed
    height: int


Found = dict[int, StoredSchema]


class Schemas:
    """Parses schemas, and remembers the last ones."""

    def __init__(self) -> None:
        self._kept: RecentValues[int, StoredSchema] = RecentValues(_REMEMBERED)
        self._sent: RecentValues[Hashable, Parsed] = RecentValues(_SENT)
        """Schemas that were sent. They are parsed before the writing transaction, which blocks others."""

    def sent(
        self,
        session: Transaction,
        schema: Definition,
        *,
        strict: bool = False,
        deleted: Deleted = Deleted.LEFT_OUT,
    ) -> Sent:
        """A schema that was sent, parsed with its references."""
        require_kind(schema.type)
        if len(schema.references) > MOST_REFERENCES:
            raise refusals.invalid_schema(f"it has more than {MOST_REFERENCES} references")
        ids: dict[Reference, int] = {}
        known: dict[str, Parsed] = {}
        found: Found = {}
        for each in schema.references:
            if each.name in known:
                raise refusals.invalid_schema(f"references.{each.name}: is written twice; write it once")
            place = _referred(session, each, deleted)
            ids[replace(each, version=place.version)] = place.id
            referred = self.kept(session, place.id, found)
            if referred.height >= DEEPEST_REFERENCES:
                raise refusals.invalid_schema(
                    f"references.{each.name}: leads through more than {DEEPEST_REFERENCES} schemas; refer to fewer"
                )
            known[each.name] = referred.parsed
        contract = (schema.metadata or None, schema.rules or None)
        key = (schema.type, sha256(schema.text.encode()).digest(), tuple(ids.items()), strict)
        result = self._sent.get(key)
        if result is None:
            result = parsed(schema, known, strict=strict)
            self._sent.put(key, result)
        full = Definition(result.text_of(schema.text), schema.type, tuple(ids), *contract)
        return Sent(full, result, identity(result, ids, contract), identity(result, ids))

    def kept(self, session: Transaction, number: int, found: Found) -> StoredSchema:
        """The stored schema of an id. `found` has those that this transaction has parsed already."""
        known = found.get(number) or self._kept.get(number)
        if known is None:
            schema = tables.definition(session, number)
            if schema is None:
                raise RegistryError(f"the schema {number} is missing, although others refer to it")
            below = {
                each.name: self.kept(session, _exact(session, each).id, found) for each in schema.references
            }
            height = 1 + max((each.height for each in below.values()), default=-1)
            known = StoredSchema(parsed(schema, {name: each.parsed for name, each in below.items()}), height)
            self._kept.put(number, known)
        found[number] = known
        return known

    def same(
        self, session: Transaction, subject: str, sent: Sent, places: Sequence[SubjectVersion]
    ) -> list[SubjectVersion]:
        """The versions of a subject that are this schema, the latest first.

        If there are none: the versions that are this schema once their references are written out, since a program
        built with such a schema sends no references; and those whose metadata differs only in `confluent:version`.
        """
        ids = tables.ids_of_identity(session, sent.identity)
        if exact := [place for place in reversed(places) if place.id in ids]:
            return exact
        with_more, found = tables.ids_with_more(session, subject), Found()
        asked = contracts.version_in(sent.definition.metadata)
        return [
            place
            for place in reversed(places)
            if (place.id in with_more or place.version == asked)
            and self._is_alike(session, sent, place, found)
        ]

    def _is_alike(self, session: Transaction, sent: Sent, place: SubjectVersion, found: Found) -> bool:
        definition = tables.definition(session, place.id)
        if definition is None or not contracts.has_same_contract(sent.definition, definition, place.version):
            return False
        named = [contracts.version_in(each.metadata) is None for each in (sent.definition, definition)]
        is_written_out = bool(definition.references) and not sent.definition.references
        if named[0] == named[1] and not is_written_out:  # a version like that has the same identity
            return False
        kept = self.kept(session, place.id, found).parsed
        if is_written_out:
            return (kept.type, kept.written_out) == (sent.parsed.type, sent.parsed.written_out)
        ids = {each: _exact(session, each).id for each in definition.references}
        return identity(kept, ids) == sent.bare


def chosen(session: Transaction, subject: str, which: int, deleted: Deleted) -> SubjectVersion:
    every = tables.places(session, Deleted.INCLUDED, subject)
    candidates = [place for place in every if deleted.takes(place.deleted)]
    if not candidates:
        raise refusals.subject_not_found(subject)
    if which == LATEST:
        return candidates[-1]
    place = next((place for place in candidates if place.version == which), None)
    if place is None:
        raise refusals.version_not_found(which)
    return place


def _referred(session: Transaction, reference: Reference, deleted: Deleted) -> SubjectVersion:
    """The version that a new schema refers to."""
    try:
        return chosen(session, reference.subject, reference.version, deleted)
    except refusals.Refused:
        version = "latest" if reference.version == LATEST else reference.version
        raise refusals.invalid_schema(
            f"references.{reference.name}: there is no version {version} of '{reference.subject}'; register it first"
        ) from None


def _exact(session: Transaction, reference: Reference) -> SubjectVersion:
    return chosen(session, reference.subject, reference.version, Deleted.INCLUDED)
