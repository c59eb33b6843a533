"""Paths that Confluent's registry does not have: owners of subjects, naming rules, migrations, the audit."""

from __future__ import annotations

from typing import Any

from latecomer.schemas.registry.bodies import AboutBody, MigrationBody, NamingBody, SeenBody
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.gate import HEALTH
from latecomer.schemas.registry.migrating import name_of
from latecomer.schemas.registry.names import subject_of
from latecomer.schemas.registry.refusals import unusable
from latecomer.schemas.registry.requests import Request, Route
from latecomer.schemas.registry.tokens import Scope

MOST_ENTRIES = 10_000


def _health(registry: Registry, request: Request) -> Any:
    registry.check_health()
    return {"status": "ok"}


def _about(registry: Registry, request: Request) -> Any:
    return registry.about(request.subject)


def _set_about(registry: Registry, request: Request) -> Any:
    """Set the owner and metadata; remove them if the request has no body."""
    body: AboutBody | None = request.body
    registry.set_about(request.actor, request.subject, None if body is None else body.value())
    return registry.about(request.subject)


def _naming(registry: Registry, request: Request) -> Any:
    return registry.naming().body()


def _set_naming(registry: Registry, request: Request) -> Any:
    """Set the naming rules; remove them if the request has no body."""
    body: NamingBody | None = request.body
    registry.set_naming(request.actor, None if body is None else body.naming())
    return registry.naming().body()


def _migration(registry: Registry, request: Request) -> Any:
    return registry.migration(name_of(request.path["name"])).body()


def _change_migration(registry: Registry, request: Request) -> Any:
    body: MigrationBody = request.body
    return registry.change_migration(request.actor, name_of(request.path["name"]), body.change()).body()


def _consumer_seen(registry: Registry, request: Request) -> Any:
    body: SeenBody = request.body
    name = name_of(request.path["name"])
    return registry.consumer_seen(request.actor, name, body.consumer, body.reader).body()


def _audit(registry: Registry, request: Request) -> Any:
    after, limit = request.number("after", 0), request.number("limit", 1000)
    if after < 0 or not 1 <= limit <= MOST_ENTRIES:
        raise unusable(f"after is a number from 0 on, and limit one from 1 to {MOST_ENTRIES}")
    subject = request.query.get("subject")
    entries = registry.audit(after, limit, subject_of(subject) if subject else None)
    return [each.body() for each in entries]


R, W, A = Scope.READ, Scope.WRITE, Scope.ADMIN
_MIGRATION = "/migrations/{name}"

OWN_ROUTES = (
    Route("GET", HEALTH, R, _health, "see that the registry can read its database"),
    Route("GET", "/about/{subject}", R, _about, "read who owns a subject"),
    Route("PUT", "/about/{subject}", A, _set_about, "say who owns a subject", (), AboutBody),
    Route("DELETE", "/about/{subject}", A, _set_about, "forget who owns a subject"),
    Route("GET", "/naming", R, _naming, "read the naming rules"),
    Route("PUT", "/naming", A, _set_naming, "set the naming rules", (), NamingBody),
    Route("DELETE", "/naming", A, _set_naming, "remove the naming rules"),
    Route("GET", _MIGRATION, R, _migration, "read where a migration stands"),
    Route("PUT", _MIGRATION, W, _change_migration, "advance a migration or roll it back", (), MigrationBody),
    Route("POST", f"{_MIGRATION}/seen", W, _consumer_seen, "say that a consumer runs", (), SeenBody),
    Route("GET", "/audit", A, _audit, "read the audit", ("after", "limit", "subject")),
)
