"""The registry itself. Each operation is one transaction that reads, decides, writes and audits.

Several processes may share a database: memory has only parsed schemas, and the schema of an id never changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from latecomer.errors import RegistryError
from latecomer.model.durations import to_micros
from latecomer.schemas.migrations import MigrationRules, MigrationState, Read
from latecomer.schemas.registry import contracts, migrating, policy, refusals, tables
from latecomer.schemas.registry.names import LARGEST, LATEST
from latecomer.schemas.registry.questions import Questions
from latecomer.schemas.registry.records import Actor, Definition, Deleted, Mode, Version
from latecomer.schemas.registry.schemas import RecentValues, Sent, chosen
from latecomer.schemas.registry.settings import ABOUT, CONFIG, MODE, utc_now
from latecomer.schemas.registry.tables import Database, SubjectVersion, Transaction

_REMEMBERED = 500
_READ = "read"
_NOTE_MICROS = 60_000_000
"""Microseconds in which repeated reads of a schema by a token are noted once."""
_NOTE_AGAIN_MICROS = 5_000_000
"""Microseconds before a failed note is tried again: each try may wait for a lock."""


def _read_place(subject: str | None, token: str) -> str:
    """The key of the setting for what a token has read of a subject."""
    return json.dumps([subject, token])


@dataclass(frozen=True)
class _Asked:
    """A registration as it was requested. An empty text stands for the text of the latest version."""

    subject: str
    schema: Definition
    normalize: bool = False
    number: int | None = None
    version: int | None = None


class Registry(Questions):
    """All operations of a registry. They raise `Refused` for requests that they refuse."""

    def __init__(self, database: Database, clock: Callable[[], str] = utc_now) -> None:
        super().__init__(database, clock)
        self._noted: RecentValues[tuple[str, int], int] = RecentValues(_REMEMBERED)
        """Token and id → when the read was noted last."""

    # Registering

    def register(
        self,
        actor: Actor,
        subject: str,
        schema: Definition,
        *,
        normalize: bool = False,
        number: int | None = None,
        version: int | None = None,
    ) -> Version:
        """Register a schema; its version of the subject. A version with this schema is reused.

        An empty text stands for the text of the latest version. `version` is the number that the new version must
        have, for compare-and-set. LATEST means the latest version, if it has this schema.
        """
        asked = _Asked(subject, schema, normalize, number, version)
        with self._database.reading() as session:
            existing = self._existing(session, asked)
            if existing is not None:
                return existing
        with self._database.writing() as session:
            return self._registered(session, actor, asked)

    def _registered(self, session: Transaction, actor: Actor, asked: _Asked) -> Version:
        return self._existing(session, asked) or self._register(session, actor, asked)

    def _existing(self, session: Transaction, asked: _Asked) -> Version | None:
        """The existing version of a subject with this schema, and with the id and version in the request."""
        if not asked.schema.text:
            return None
        subject, number, version = asked.subject, asked.number, asked.version
        sent = self._sent(session, subject, asked.schema)
        adds = any(map(self._config(session, subject).get, policy.LAYERS))
        if adds and self._mode(session, subject) is not Mode.IMPORT:
            return None
        live = tables.places(session, Deleted.LEFT_OUT, subject)
        for place in self._schemas.same(session, subject, sent, live[-1:] if version == LATEST else live):
            is_requested = version in (None, LATEST) or (number is not None and version == place.version)
            if is_requested and number in (None, place.id):
                return tables.filled(session, place)
        return None

    def _register(self, session: Transaction, actor: Actor, asked: _Asked) -> Version:
        subject, schema, number, version = asked.subject, asked.schema, asked.number, asked.version
        mode = self._mode(session, subject)
        policy.require_registrable(mode, subject, number)
        every = tables.places(session, Deleted.INCLUDED, subject)
        live = [place for place in every if not place.deleted]
        if not every and (problem := self._naming(session).problem(subject)):
            raise problem
        following = every[-1].version + 1 if every else 1
        if mode is not Mode.IMPORT:
            schema = self._completed(session, asked, live, following)
        elif not schema.text:
            raise refusals.empty_schema()
        new = self._sent(session, subject, schema)
        kept = new.definition
        if mode is not Mode.IMPORT:  # an imported schema stays as it is
            if version is None and (same := self._schemas.same(session, subject, new, live)):
                return tables.filled(session, same[0])
            self._require_valid(session, subject, new, asked.normalize)
            self._require_compatible(session, subject, new, live)
            if version not in (None, LATEST, following):
                raise refusals.not_the_next_version(version or 0, following)
            if asked.normalize or self._config(session, subject).get(policy.NORMALIZE):
                kept = replace(kept, text=new.parsed.normalized)
        given = following if version is None or version == LATEST else version
        if given > LARGEST:
            raise refusals.not_permitted(
                f"'{subject}' has a version {LARGEST}, the largest; there is no next one."
            )
        place = SubjectVersion(subject, given, _id_for(session, new.identity, number), False, self._clock())
        was = next((each for each in every if each.version == given), None)
        if was is not None:
            _make_room(session, was, place.id)
        tables.keep_schema(session, place.id, new.identity, kept)
        tables.add_version(session, place)
        before = None if was is None else {"id": was.id, "deleted": was.deleted}
        after = {"version": place.version, "id": place.id, "schemaType": kept.type}
        self._audit(session, actor, "register", place.subject, place.version, before, after)
        return tables.filled(session, place)

    def _completed(
        self, session: Transaction, asked: _Asked, live: Sequence[SubjectVersion], following: int
    ) -> Definition:
        """A schema, completed from the version before it and from the settings."""
        schema = asked.schema
        before = tables.definition(session, live[-1].id) if live else None
        if not schema.text:
            if before is None:
                raise refusals.empty_schema()
            schema = replace(schema, text=before.text, type=before.type, references=before.references)
        config = self._config(session, asked.subject)
        first, last, first_rules, last_rules = map(config.get, policy.LAYERS)
        own, rules = schema.metadata, schema.rules
        if before is not None:
            own, rules = before.metadata if own is None else own, before.rules if rules is None else rules
        metadata = contracts.merged_metadata(first, own, last)
        if asked.version is not None or contracts.property_of(metadata, contracts.VERSION) is not None:
            metadata = contracts.with_version(metadata, following)
        return replace(
            schema, metadata=metadata, rules=contracts.merged_rules(first_rules, rules, last_rules)
        )

    def _sent(self, session: Transaction, subject: str, schema: Definition) -> Sent:
        """A schema to register. In IMPORT it may refer to deleted versions."""
        imports = self._mode(session, subject) is Mode.IMPORT
        return self._schemas.sent(session, schema, deleted=Deleted.INCLUDED if imports else Deleted.LEFT_OUT)

    def _require_compatible(
        self, session: Transaction, subject: str, new: Sent, live: Sequence[SubjectVersion]
    ) -> None:
        problems = self._complaints(session, subject, new, live)
        if problems:
            level = self._config(session, subject).level
            about = tables.setting(session, ABOUT, subject)
            owner = policy.owner_of(about, self._naming(session), subject)
            raise policy.refused_registration(subject, level, problems, owner)

    # Deleting

    def delete_version(self, actor: Actor, subject: str, which: int, *, permanent: bool = False) -> int:
        """Delete a version. Its id can still be looked up until a second, permanent delete."""
        with self._database.writing() as session:
            policy.require_writable(self._mode(session, subject), subject)
            among = Deleted.INCLUDED if permanent or which != LATEST else Deleted.LEFT_OUT
            place = chosen(session, subject, which, among)
            if permanent and not place.deleted:
                raise refusals.not_deleted(subject, place.version)
            if not permanent and place.deleted:
                raise refusals.deleted(subject, place.version)
            self._delete(session, actor, [place], permanent)
            return place.version

    def delete_subject(self, actor: Actor, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject; a permanent delete also removes its level, mode and owner."""
        with self._database.writing() as session:
            policy.require_writable(self._mode(session, subject), subject)
            every = tables.places(session, Deleted.INCLUDED, subject)
            live = [place for place in every if not place.deleted]
            if not every:
                raise refusals.subject_not_found(subject)
            if permanent and live:
                raise refusals.not_deleted(subject)
            if not permanent and not live:
                raise refusals.deleted(subject)
            doomed = every if permanent else live
            self._delete(session, actor, doomed, permanent)
            return [place.version for place in doomed]

    def _delete(
        self, session: Transaction, actor: Actor, places: Sequence[SubjectVersion], permanent: bool
    ) -> None:
        # A deleted schema can still be looked up by its id, and needs its references.
        whose = Deleted.INCLUDED if permanent else Deleted.LEFT_OUT
        for place in places:
            others = [
                number
                for number in tables.referring_ids(session, place.subject, place.version, whose)
                if not set(tables.places_of_id(session, number, whose)) <= set(places)
            ]
            if others:
                raise refusals.referenced(place.subject, place.version, others)
        for place in places:
            before = {"id": place.id, "deleted": place.deleted}
            if permanent:
                tables.remove_version(session, place.subject, place.version)
                action, after = "delete permanently", None
            else:
                tables.mark_deleted(session, place.subject, place.version)
                action, after = "delete", {"id": place.id, "deleted": True}
            self._audit(session, actor, action, place.subject, place.version, before, after)
        if not permanent:
            return
        tables.forget_unused(session, [place.id for place in places])
        for subject in {place.subject for place in places}:
            if not tables.places(session, Deleted.INCLUDED, subject):
                for kind in (CONFIG, MODE, ABOUT):
                    self._change(session, actor, kind, subject, None)

    # Migrations

    def migration(self, name: str) -> MigrationState:
        """The state of a migration. One that has not begun has the revision 0."""
        with self._database.reading() as session:
            state = migrating.state_of(session, name)
            reads = {}
            for consumer in () if state.phase is None else MigrationRules.read(state.rules).consumers:
                read = tables.setting(session, _READ, _read_place(state.subject, consumer))
                if read is not None:
                    reads[consumer] = Read.read(read)
            return replace(state, reads=reads)

    def note_read(self, actor: Actor, number: int) -> None:
        """Note that a token has read a schema, for migrations with a consumer of its name. This is not audited, and an
        error does not fail the read."""
        at = self._micros()
        before = self._noted.get((actor.name, number))
        if before is not None and at - before < _NOTE_MICROS:
            return
        self._noted.put((actor.name, number), at)
        try:
            with self._database.writing() as session:
                for place in tables.places_of_id(session, number, Deleted.INCLUDED):
                    read = Read(at, number).body()
                    tables.put_setting(session, _READ, _read_place(place.subject, actor.name), read)
        except RegistryError:
            self._noted.put((actor.name, number), self._micros() - _NOTE_MICROS + _NOTE_AGAIN_MICROS)

    def _micros(self) -> int:
        return to_micros(datetime.fromisoformat(self._clock()))

    def change_migration(self, actor: Actor, name: str, change: migrating.MigrationChange) -> MigrationState:
        """Advance a migration or roll it back, and register or delete the schema of the phase. Or store a measurement,
        or other rules."""
        with self._database.writing() as session:
            before = migrating.state_of(session, name)
            migrating.require_possible(before, change)
            now = self._micros()
            latest = _latest_text(session, change.subject) if change.schema is not None else None
            migrating.require_due(before, change, now, latest)
            policy.require_writable(self._mode(session, change.subject), change.subject)
            version = None
            if change.schema is not None:
                version = self._registered(session, actor, _Asked(change.subject, change.schema)).version
            self._withdraw(session, actor, change.subject, migrating.withdrawn_version(before, change))
            after = migrating.keep(session, migrating.changed(before, change, version, now))
            moves = after.phase != before.phase
            if moves or after.rules != before.rules:
                way = f"{migrating.shown(before.phase)} to {migrating.shown(after.phase)}"
                words = f"migrate {way}" if moves else "migrate with other rules"
                accounts = migrating.account(before), migrating.account(after)
                self._audit(session, actor, words, change.subject, version, *accounts)
            return after

    def consumer_seen(self, actor: Actor, name: str, consumer: str, reader: str) -> MigrationState:
        """Store that a consumer runs, and its reader schema. A changed schema is audited."""
        with self._database.writing() as session:
            before = migrating.state_of(session, name)
            if before.phase is None:
                raise refusals.Refused(
                    40450, f"Migration '{name}' has not begun; advance it into expand first."
                )
            policy.require_writable(self._mode(session, before.subject), before.subject)
            seen = migrating.with_seen(before, consumer, reader, self._micros())
            was, now = before.seen.get(consumer), seen.seen[consumer]
            is_news = was is None or was.reader != now.reader
            after = migrating.keep(session, seen, is_news=is_news)
            if is_news:
                bodies = None if was is None else was.body(), now.body()
                self._audit(session, actor, f"consumer {consumer} seen", before.subject, None, *bodies)
            return after

    def _withdraw(self, session: Transaction, actor: Actor, subject: str, version: int | None) -> None:
        """Delete a version, not permanently, unless it is deleted already."""
        every = tables.places(session, Deleted.LEFT_OUT, subject)
        self._delete(session, actor, [place for place in every if place.version == version], False)


def _latest_text(session: Transaction, subject: str) -> str | None:
    """The text of the latest schema of a subject, if it has one."""
    every = tables.places(session, Deleted.LEFT_OUT, subject)
    schema = tables.definition(session, every[-1].id) if every else None
    return None if schema is None else schema.text


def _id_for(session: Transaction, key: str, asked: int | None) -> int:
    """The id of a schema: the one that was asked for, else the one that it has, else a new one."""
    if asked is None:
        known = tables.ids_of_identity(session, key)
        chosen = known[0] if known else tables.largest_id(session) + 1
        if chosen > LARGEST:
            raise refusals.not_permitted("every id is taken; an id has four bytes.")
        return chosen
    if tables.identity_of_id(session, asked) not in (None, key):
        raise refusals.not_permitted(
            f"Overwrite new schema with id {asked} is not permitted: it is the id of another schema here."
        )
    return asked


def _make_room(session: Transaction, place: SubjectVersion, number: int) -> None:
    """Remove a version that an import replaces. Refused if a reference would then mean another schema."""
    by = tables.referring_ids(session, place.subject, place.version, Deleted.INCLUDED)
    if by and place.id != number:
        raise refusals.referenced(place.subject, place.version, by)
    tables.remove_version(session, place.subject, place.version)
