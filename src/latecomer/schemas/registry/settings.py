"""The settings of a subject or of the whole registry: levels, modes, owners, naming rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from latecomer.schemas.registry import policy, refusals, tables
from latecomer.schemas.registry.names import Naming
from latecomer.schemas.registry.policy import InForce
from latecomer.schemas.registry.records import Actor, Deleted, Mode
from latecomer.schemas.registry.refusals import NO_LEVEL, NO_MODE
from latecomer.schemas.registry.schemas import Schemas
from latecomer.schemas.registry.tables import EVERYWHERE, Database, Transaction

CONFIG, MODE, ABOUT, NAMING = "config", "mode", "about", "naming"


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Settings:
    """A registry's database, and its settings. Each change is audited."""

    def __init__(self, database: Database, clock: Callable[[], str] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._schemas = Schemas()

    @property
    def shown(self) -> str:
        return self._database.shown

    def close(self) -> None:
        self._database.close()

    def config(self, subject: str | None = None, in_force: bool = False) -> dict[str, Any]:
        """The level and other settings of a subject or of the registry."""
        with self._database.reading() as session:
            config = self._config(session, subject)
            if subject is not None and config.own is None and not in_force:
                raise refusals.not_set(subject, NO_LEVEL, "compatibility", "level")
            values = {policy.ALIAS: (config.own or {}).get(policy.ALIAS)}
            values |= {name: config.get(name) for name in policy.SETTINGS}
            set_values = {name: each for name, each in values.items() if each is not None}
            return {"compatibilityLevel": config.level, **set_values}

    def set_config(self, actor: Actor, subject: str | None, change: Mapping[str, Any]) -> None:
        """Change settings; None removes one. The others stay."""
        if not change:
            return
        with self._database.writing() as session:
            policy.require_writable(self._mode(session, subject), subject)
            before = tables.setting(session, CONFIG, subject or EVERYWHERE) or {}
            after = {name: value for name, value in {**before, **change}.items() if value is not None}
            self._change(session, actor, CONFIG, subject, after or None)

    def unset_config(self, actor: Actor, subject: str | None) -> dict[str, Any]:
        """Remove the settings of a subject or of the registry; the level that was in force."""
        with self._database.writing() as session:
            policy.require_writable(self._mode(session, subject), subject)
            config = self._config(session, subject)
            if subject is not None and config.own is None:
                raise refusals.subject_not_found(subject)
            self._change(session, actor, CONFIG, subject, None)
            return {"compatibilityLevel": config.level}

    def mode(self, subject: str | None = None, in_force: bool = False) -> Mode:
        """The mode of a subject or of the registry."""
        with self._database.reading() as session:
            own, everywhere = self._settings(session, MODE, subject)
            if subject is not None and own is None and not in_force:
                raise refusals.not_set(subject, NO_MODE, "mode", "mode")
            return policy.mode_in_force(own, everywhere)

    def set_mode(self, actor: Actor, subject: str | None, mode: Mode, *, force: bool = False) -> None:
        """Set the mode. IMPORT needs an empty subject or registry, unless it is forced."""
        with self._database.writing() as session:
            begins = mode is Mode.IMPORT and self._mode(session, subject) is not Mode.IMPORT
            if begins and not force and tables.places(session, Deleted.LEFT_OUT, subject):
                raise refusals.not_permitted(
                    "Cannot import since found existing subjects. Delete them, or send force=true."
                )
            self._change(session, actor, MODE, subject, str(mode))

    def unset_mode(self, actor: Actor, subject: str | None) -> Mode:
        """Remove the mode of a subject or of the registry; the mode that was set."""
        with self._database.writing() as session:
            own, everywhere = self._settings(session, MODE, subject)
            if subject is not None and own is None:
                raise refusals.subject_not_found(subject)
            self._change(session, actor, MODE, subject, None)
            return policy.mode_in_force(own, None if subject else everywhere)

    def about(self, subject: str) -> dict[str, Any]:
        """The owner of a subject, its metadata, and the naming rule that it fits."""
        with self._database.reading() as session:
            own = tables.setting(session, ABOUT, subject) or {}
            naming = self._naming(session)
        rule = naming.rule_for(subject)
        return {
            "subject": subject,
            "owner": policy.owner_of(own, naming, subject),
            "metadata": own.get("metadata", {}),
            "namingRule": rule.subjects if rule else None,
        }

    def set_about(self, actor: Actor, subject: str, value: Mapping[str, Any] | None) -> None:
        with self._database.writing() as session:
            policy.require_writable(self._mode(session, subject), subject)
            self._change(session, actor, ABOUT, subject, None if value is None else dict(value))

    def naming(self) -> Naming:
        with self._database.reading() as session:
            return self._naming(session)

    def set_naming(self, actor: Actor, naming: Naming | None) -> None:
        """Set the rules for the names of new subjects, and for their owners. Existing subjects stay."""
        with self._database.writing() as session:
            policy.require_writable(self._mode(session, None), None)
            self._change(session, actor, NAMING, None, naming.body() if naming else None)

    # What all operations share

    def _settings(self, session: Transaction, kind: str, subject: str | None) -> tuple[Any, Any]:
        """The setting of the subject, and that of the registry."""
        own = None if subject is None else tables.setting(session, kind, subject)
        return own, tables.setting(session, kind)

    def _config(self, session: Transaction, subject: str | None) -> InForce:
        return InForce(*self._settings(session, CONFIG, subject))

    def _mode(self, session: Transaction, subject: str | None) -> Mode:
        return policy.mode_in_force(*self._settings(session, MODE, subject))

    def _naming(self, session: Transaction) -> Naming:
        return policy.naming_of(tables.setting(session, NAMING))

    def _change(self, session: Transaction, actor: Actor, kind: str, subject: str | None, value: Any) -> None:
        place = subject or EVERYWHERE
        before = tables.setting(session, kind, place)
        if before == value:
            return
        if value is None:
            tables.remove_setting(session, kind, place)
        else:
            tables.put_setting(session, kind, place, value)
        action = f"{'remove' if value is None else 'set'} {kind}"
        self._audit(session, actor, action, subject, None, before, value)

    def _audit(
        self,
        session: Transaction,
        actor: Actor,
        action: str,
        subject: str | None,
        version: int | None,
        before: Any,
        after: Any,
    ) -> None:
        tables.add_entry(session, self._clock(), actor, action, subject, version, before, after)
