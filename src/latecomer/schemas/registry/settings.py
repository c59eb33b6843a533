"""The settings of a subject or of the whole registry: levels, modes, owners, naming rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latecomer.schemas.registry import policy, refusals, tables
from latecomer.schemas.registry.names import Naming
from latecomer.schemas.registry.records import Actor, Deleted, Mode
from latecomer.schemas.registry.tables import EVERYWHERE
from latecomer.schemas.registry.transactions import ABOUT, CONFIG, MODE, NAMING, Transactions


class Settings(Transactions):
    """Reads and changes settings. Each change is audited."""

    def config(self, subject: str | None = None, in_force: bool = False) -> dict[str, Any]:
        """The level and other settings of a subject or of the registry."""
        with self._database.reading() as session:
            own, everywhere = self._settings(session, CONFIG, subject)
            if subject is not None and own is None and not in_force:
                raise refusals.no_level(subject)
            values = {name: policy.in_force(name, own, everywhere) for name in policy.SETTINGS}
            values = {policy.ALIAS: (own or {}).get(policy.ALIAS), **values}
            level = policy.level_in_force(own, everywhere)
            return {"compatibilityLevel": level} | {
                name: each for name, each in values.items() if each is not None
            }

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
            own, everywhere = self._settings(session, CONFIG, subject)
            if subject is not None and own is None:
                raise refusals.subject_not_found(subject)
            before = {"compatibilityLevel": policy.level_in_force(own, everywhere)}
            self._change(session, actor, CONFIG, subject, None)
            return before

    def mode(self, subject: str | None = None, in_force: bool = False) -> Mode:
        """The mode of a subject or of the registry."""
        with self._database.reading() as session:
            own, everywhere = self._settings(session, MODE, subject)
            if subject is not None and own is None and not in_force:
                raise refusals.no_mode(subject)
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
