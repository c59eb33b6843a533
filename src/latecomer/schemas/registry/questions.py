"""The reading operations of a registry. Each is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from latecomer.schemas.levels import Breach, Level, compared
from latecomer.schemas.registry import contracts, policy, refusals, tables
from latecomer.schemas.registry.kinds import Parsed, complaints
from latecomer.schemas.registry.names import LATEST
from latecomer.schemas.registry.records import AuditEntry, Definition, Deleted, Version
from latecomer.schemas.registry.schemas import Found, Sent, chosen
from latecomer.schemas.registry.settings import CONFIG, Settings
from latecomer.schemas.registry.tables import SubjectVersion, Transaction


class Questions(Settings):
    """Subjects, versions, schemas and the audit, and why a schema could not be registered."""

    def check_health(self) -> None:
        """Fail if the database cannot be read."""
        with self._database.reading() as session:
            session.rows("SELECT version FROM registry_format")

    def subjects(self, prefix: str = "", deleted: Deleted = Deleted.LEFT_OUT) -> list[str]:
        """The names of subjects. A subject is deleted if all of its versions are."""
        with self._database.reading() as session:
            places = tables.places(session, Deleted.INCLUDED)
        live = {place.subject for place in places if not place.deleted}
        every = {place.subject for place in places if place.subject.startswith(prefix)}
        return sorted(subject for subject in every if deleted.takes(subject not in live))

    def versions(self, subject: str, deleted: Deleted = Deleted.LEFT_OUT) -> list[int]:
        with self._database.reading() as session:
            places = tables.places(session, Deleted.INCLUDED, subject)
        numbers = [place.version for place in places if deleted.takes(place.deleted)]
        if not numbers:
            raise refusals.subject_not_found(subject)
        return numbers

    def version(self, subject: str, which: int = LATEST, deleted: Deleted = Deleted.LEFT_OUT) -> Version:
        with self._database.reading() as session:
            return tables.filled(session, chosen(session, subject, which, deleted))

    def parsed(self, version: Version) -> Parsed:
        """The schema of a version, with its references."""
        with self._database.reading() as session:
            return self._schemas.kept(session, version.id, {}).parsed

    def all_versions(self, deleted: Deleted, latest_only: bool) -> list[Version]:
        """Every version of every subject, by subject and number."""
        with self._database.reading() as session:
            places = tables.places(session, deleted)
            if latest_only:
                places = list({place.subject: place for place in places}.values())
            return [tables.filled(session, place) for place in places]

    def aliases(self) -> dict[str, list[str]]:
        """Subject → its aliases."""
        with self._database.reading() as session:
            aliases: dict[str, list[str]] = {}
            for subject, setting in sorted(tables.settings(session, CONFIG).items()):
                if setting.get(policy.ALIAS):
                    aliases.setdefault(setting[policy.ALIAS], []).append(subject)
            return aliases

    def behind_alias(self, subject: str) -> str:
        """The subject of an alias; any other name as it is. An alias of an alias is not followed."""
        with self._database.reading() as session:
            setting = tables.setting(session, CONFIG, subject) or {}
            return str(setting.get(policy.ALIAS) or subject)

    def latest_with(self, subject: str, properties: Mapping[str, str], deleted: Deleted) -> Version:
        """The latest version whose metadata has these properties."""
        with self._database.reading() as session:
            places = tables.places(session, deleted, subject)
            if not places:
                raise refusals.subject_not_found(subject)
            for place in reversed(places):
                version = tables.filled(session, place)
                metadata = version.definition.metadata
                if all(contracts.property_of(metadata, name) == each for name, each in properties.items()):
                    return version
            raise refusals.schema_not_found()

    def definition(self, number: int) -> Definition:
        """The schema of an id, also if it is deleted but not permanently."""
        with self._database.reading() as session:
            schema = tables.definition(session, number)
        if schema is None:
            raise refusals.schema_not_found(number)
        return schema

    def formatted(self, number: int, name: str) -> str:
        """The schema of an id in another format."""
        with self._database.reading() as session:
            return self._schemas.kept(session, number, {}).parsed.formatted(name)

    def guid(self, number: int) -> str:
        """The GUID of the schema of an existing id."""
        with self._database.reading() as session:
            return tables.guid_of_id(session, number)

    def ids_of_guid(self, guid: UUID) -> list[int]:
        """The ids of the schema that has a GUID."""
        with self._database.reading() as session:
            ids = tables.ids_of_guid(session, guid)
        if not ids:
            raise refusals.schema_not_found(guid)
        return ids

    def largest_id(self) -> int:
        with self._database.reading() as session:
            return tables.largest_id(session)

    def places_of_id(self, number: int, deleted: Deleted = Deleted.LEFT_OUT) -> list[SubjectVersion]:
        """The versions of subjects that have an id."""
        with self._database.reading() as session:
            if tables.definition(session, number) is None:
                raise refusals.schema_not_found(number)
            return tables.places_of_id(session, number, deleted)

    def referring_ids(
        self, subject: str, which: int = LATEST, deleted: Deleted = Deleted.LEFT_OUT
    ) -> list[int]:
        """The ids of schemas that refer to a version."""
        with self._database.reading() as session:
            place = chosen(session, subject, which, Deleted.INCLUDED)
            return tables.referring_ids(session, subject, place.version, deleted)

    def look_up(self, subject: str, schema: Definition, deleted: Deleted = Deleted.LEFT_OUT) -> Version:
        """The version of a subject that is this schema. Layout makes no difference."""
        with self._database.reading() as session:
            found = tables.places(session, deleted, subject)
            if not found:
                raise refusals.subject_not_found(subject)
            same = self._schemas.same(session, subject, self._schemas.sent(session, schema), found)
            if not same:
                raise refusals.schema_not_found()
            return tables.filled(session, same[0])

    def complaints(
        self, subject: str, schema: Definition, which: int | None = None, *, normalize: bool = False
    ) -> list[Breach]:
        """Why a schema could not be registered: compared with one version, or with those of the level."""
        with self._database.reading() as session:
            new = self._schemas.sent(session, schema)
            self._require_valid(session, subject, new, normalize)
            places = tables.places(session, Deleted.LEFT_OUT, subject)
            if which == LATEST:
                places = places[-1:]  # empty if it would be the first
            elif which is not None:
                places = [place for place in places if place.version == which]
                if not places:
                    raise refusals.version_not_found(which)
            return self._complaints(session, subject, new, places)

    def audit(self, after: int = 0, limit: int = 1000, subject: str | None = None) -> list[AuditEntry]:
        """Changes after a number, the oldest first."""
        with self._database.reading() as session:
            return tables.entries(session, after, limit, subject)

    def _require_valid(self, session: Transaction, subject: str, new: Sent, normalize: bool) -> None:
        """Refuse a schema that the specification forbids, if the settings ask for that."""
        config = self._config(session, subject)
        if normalize or config.get(policy.NORMALIZE) or config.get(policy.VALIDATE):
            self._schemas.sent(session, new.definition, strict=True)

    def _complaints(
        self, session: Transaction, subject: str, new: Sent, places: Sequence[SubjectVersion]
    ) -> list[Breach]:
        config = self._config(session, subject)
        group = None if config.level is Level.NONE else config.get(policy.GROUP)
        if group is not None:  # only versions with the same value are compared
            wanted = contracts.property_of(new.definition.metadata, group)
            places = [each for each in places if _property(session, each, group) == wanted]
        found: Found = {}
        ids = {place.version: place.id for place in places}
        numbers = compared(ids, config.level)
        olds = {number: self._schemas.kept(session, ids[number], found).parsed for number in numbers}
        return complaints(new.parsed, olds, config.level, config.policy)


def _property(session: Transaction, place: SubjectVersion, name: str) -> str | None:
    """A property of the metadata of a version."""
    found = tables.definition(session, place.id)
    return None if found is None else contracts.property_of(found.metadata, name)
