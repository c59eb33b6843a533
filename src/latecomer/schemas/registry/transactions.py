"""The base of all operations of a registry: database, clock, settings and audit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from latecomer.schemas.registry import policy, tables
from latecomer.schemas.registry.databases import Database, Session
from latecomer.schemas.registry.names import Naming
from latecomer.schemas.registry.records import Actor, Entry, Mode
from latecomer.schemas.registry.schemas import Schemas
from latecomer.schemas.registry.tables import EVERYWHERE

CONFIG, MODE, ABOUT, NAMING = "config", "mode", "about", "naming"


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Transactions:
    """A registry's database, with what its operations share."""

    def __init__(self, database: Database, clock: Callable[[], str] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._schemas = Schemas()

    @property
    def shown(self) -> str:
        return self._database.shown

    def close(self) -> None:
        self._database.close()

    def _settings(self, session: Session, kind: str, subject: str | None) -> tuple[Any, Any]:
        """The setting of the subject, and that of the registry."""
        own = None if subject is None else tables.setting(session, kind, subject)
        return own, tables.setting(session, kind)

    def _mode(self, session: Session, subject: str | None) -> Mode:
        return policy.mode_in_force(*self._settings(session, MODE, subject))

    def _naming(self, session: Session) -> Naming:
        return policy.naming_of(tables.setting(session, NAMING))

    def _change(self, session: Session, actor: Actor, kind: str, subject: str | None, value: Any) -> None:
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
        session: Session,
        actor: Actor,
        action: str,
        subject: str | None,
        version: int | None,
        before: Any,
        after: Any,
    ) -> None:
        entry = Entry(0, self._clock(), actor.name, actor.address, action, subject, version, before, after)
        tables.add_entry(session, entry)
