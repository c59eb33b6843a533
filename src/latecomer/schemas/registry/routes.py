"""The paths: Confluent's, which answer as Confluent's do, and those that only this registry has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from latecomer.schemas.registry import contracts, policy
from latecomer.schemas.registry.bodies import (
    AboutBody,
    ConfigBody,
    MigrationBody,
    ModeBody,
    SchemaBody,
    SeenBody,
)
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.gate import HEALTH
from latecomer.schemas.registry.kinds import KINDS
from latecomer.schemas.registry.migrating import name_of
from latecomer.schemas.registry.names import DEFAULT_CONTEXT, Naming, guid_of, subject_of
from latecomer.schemas.registry.records import NOBODY
from latecomer.schemas.registry.refusals import unusable
from latecomer.schemas.registry.requests import Request, Route
from latecomer.schemas.registry.tokens import Scope

_PAGE = ("offset", "limit")
_DELETED = ("deleted", "deletedOnly", "deleted_only")
_NO_CLUSTER = {"id": "", "scope": {"path": [], "clusters": {"schema-registry-cluster": "latecomer"}}}
"""The id of the cluster: always the same, and no Kafka cluster."""
MOST_ENTRIES = 10_000
"""Entries of the audit that one request may ask for."""


# Schemas


def _contexts(registry: Registry, request: Request) -> Any:
    return request.page(["."])


def _server_version(registry: Registry, request: Request) -> Any:
    try:
        return {"version": version("latecomer"), "commitId": ""}
    except PackageNotFoundError:  # run from its sources
        return {"version": "", "commitId": ""}


def _schemas(registry: Registry, request: Request) -> Any:
    versions = registry.all_versions(request.deleted, request.flag("latestOnly"))
    names = registry.aliases() if request.flag("aliases") else {}
    kind = request.query.get("ruleType")
    wanted = [
        each
        for each in versions
        if any(name.startswith(request.prefix) for name in (each.subject, *names.get(each.subject, ())))
        and (not kind or kind in contracts.rule_types(each.definition.rules))
    ]
    more = {subject: {"aliases": others} for subject, others in names.items()}
    return [{**each.body(), **more.get(each.subject, {})} for each in request.page(wanted)]


def _schema(registry: Registry, request: Request) -> Any:
    _check_subject(request)
    body = _read_id(registry, request, request.id)
    return {**body, "maxId": registry.largest_id()} if request.flag("fetchMaxId") else body


def _schema_of_guid(registry: Registry, request: Request) -> Any:
    return _read_id(registry, request, registry.ids_of_guid(guid_of(request.path["guid"]))[0])


def _ids_of_guid(registry: Registry, request: Request) -> Any:
    ids = registry.ids_of_guid(guid_of(request.path["guid"]))
    return [{"context": DEFAULT_CONTEXT.strip(":"), "id": number} for number in ids]


def _read_id(registry: Registry, request: Request, number: int) -> dict[str, Any]:
    body = {**registry.definition(number).body(), "guid": registry.guid(number)}
    _note(registry, request, number)
    return _formatted(registry, request, number, body)


def _formatted(registry: Registry, request: Request, number: int, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "schema": registry.formatted(number, request.format)} if request.format else body


def _subjects_of_id(registry: Registry, request: Request) -> Any:
    places = _places(registry, request)
    return request.page(sorted({subject for subject, _ in places}))


def _versions_of_id(registry: Registry, request: Request) -> Any:
    return request.page(
        [{"subject": subject, "version": version} for subject, version in _places(registry, request)]
    )


def _places(registry: Registry, request: Request) -> list[tuple[str, int]]:
    only = _check_subject(request)
    only = None if only is None else registry.behind_alias(only)
    places = registry.places_of_id(request.id, request.deleted)
    return [(each.subject, each.version) for each in places if only in (None, each.subject)]


def _check_subject(request: Request) -> str | None:
    """The subject that a client may send with an id. The id has the same schema under every subject."""
    written = request.query.get("subject")
    return subject_of(written) if written else None


# Subjects


def _subject(registry: Registry, request: Request) -> str:
    return registry.behind_alias(request.subject)


def _subjects(registry: Registry, request: Request) -> Any:
    return request.page(registry.subjects(request.prefix, request.deleted))


def _look_up(registry: Registry, request: Request) -> Any:
    version = registry.look_up(_subject(registry, request), request.body.definition(), request.deleted)
    return _formatted(registry, request, version.id, version.body())


def _delete_subject(registry: Registry, request: Request) -> Any:
    permanent = _is_permanent(request)
    return registry.delete_subject(request.actor, _subject(registry, request), permanent=permanent)


def _versions(registry: Registry, request: Request) -> Any:
    return request.page(registry.versions(_subject(registry, request), request.deleted))


def _register(registry: Registry, request: Request) -> Any:
    body: SchemaBody = request.body
    version = registry.register(
        request.actor,
        _subject(registry, request),
        body.new_definition(),
        normalize=request.flag("normalize"),
        number=body.asked_id,
        version=body.asked_version,
    )
    return {"id": version.id, "version": version.version, "guid": version.guid, **version.definition.body()}


def _version(registry: Registry, request: Request) -> Any:
    version = registry.version(_subject(registry, request), request.version, request.deleted)
    _note(registry, request, version.id)
    return _formatted(registry, request, version.id, version.body())


def _with_metadata(registry: Registry, request: Request) -> Any:
    keys, values = request.repeated["key"], request.repeated["value"]
    if len(keys) != len(values) or not keys:
        raise unusable("key and value come in pairs: write ?key=team&value=rides")
    wanted = dict(zip(keys, values, strict=True))
    version = registry.latest_with(_subject(registry, request), wanted, request.deleted)
    return _formatted(registry, request, version.id, version.body())


def _note(registry: Registry, request: Request, number: int) -> None:
    """Note who has read a schema; without tokens that is unknown."""
    if request.actor.name != NOBODY:
        registry.note_read(request.actor, number)


def _delete_version(registry: Registry, request: Request) -> Any:
    permanent = _is_permanent(request)
    place = _subject(registry, request), request.version
    return registry.delete_version(request.actor, *place, permanent=permanent)


def _referring(registry: Registry, request: Request) -> Any:
    return request.page(registry.referring_ids(_subject(registry, request), request.version, request.deleted))


def _is_permanent(request: Request) -> bool:
    if request.flag("permanent"):
        request.require(Scope.ADMIN, "delete for good")
        return True
    return False


# Compatibility


def _compatible(registry: Registry, request: Request) -> Any:
    which = request.version if "version" in request.path else None
    subject, schema = _subject(registry, request), request.body.definition()
    problems = registry.complaints(subject, schema, which, normalize=request.flag("normalize"))
    messages = {"messages": [each.text for each in problems]} if request.flag("verbose") else {}
    return {"is_compatible": not problems, **messages}


# Levels and modes, of the registry and of a subject


def _whose(request: Request) -> str | None:
    return request.subject if "subject" in request.path else None


def _config(registry: Registry, request: Request) -> Any:
    return registry.config(_whose(request), request.flag("defaultToGlobal"))


def _set_config(registry: Registry, request: Request) -> Any:
    change = request.body.change()
    if change.get(policy.ALIAS) and _whose(request) in (None, change[policy.ALIAS]):
        raise unusable("alias: a subject is an alias of another one; PUT it to /config/ALIAS")
    registry.set_config(request.actor, _whose(request), change)
    return {name: value for name, value in change.items() if value is not None}


def _mode(registry: Registry, request: Request) -> Any:
    return {"mode": registry.mode(_whose(request), request.flag("defaultToGlobal"))}


def _set_mode(registry: Registry, request: Request) -> Any:
    subject = _whose(request)
    mode = policy.mode_of(request.body.mode, subject)
    registry.set_mode(request.actor, subject, mode, force=request.flag("force"))
    return {"mode": mode}


def _unset_config(registry: Registry, request: Request) -> Any:
    return registry.unset_config(request.actor, _whose(request))


def _unset_mode(registry: Registry, request: Request) -> Any:
    return {"mode": registry.unset_mode(request.actor, _whose(request))}


# Paths that Confluent's registry does not have: owners of subjects, naming rules, migrations, the audit


def _about(registry: Registry, request: Request) -> Any:
    return registry.about(request.subject)


def _health(registry: Registry, request: Request) -> Any:
    registry.check_health()
    return {"status": "ok"}


def _set_about(registry: Registry, request: Request) -> Any:
    """Set the owner and metadata; remove them if the request has no body."""
    body: AboutBody | None = request.body
    registry.set_about(request.actor, request.subject, None if body is None else body.value())
    return registry.about(request.subject)


def _set_naming(registry: Registry, request: Request) -> Any:
    """Set the naming rules; remove them if the request has no body."""
    registry.set_naming(request.actor, request.body)
    return registry.naming().body()


def _migration(registry: Registry, request: Request) -> Any:
    return registry.migration(name_of(request.path["name"])).body()


def _change_migration(registry: Registry, request: Request) -> Any:
    name, change = name_of(request.path["name"]), request.body.change()
    return registry.change_migration(request.actor, name, change).body()


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


_ID, _GUID, _SUBJECT = "/schemas/ids/{id}", "/schemas/guids/{guid}", "/subjects/{subject}"
_VERSIONS, _VERSION = f"{_SUBJECT}/versions", f"{_SUBJECT}/versions/{{version}}"
_TEST, _MIGRATION = "/compatibility/subjects/{subject}/versions", "/migrations/{name}"
_LISTED = ("subjectPrefix", "latestOnly", "aliases", "ruleType", *_DELETED, *_PAGE)
_BY_PROPERTY = ("key", "value", "deleted", "format")
_VERBOSE = ("verbose", "normalize")
_SUBJECT_IN = ("subject", "deleted", *_PAGE)
R, W, A = Scope.READ, Scope.WRITE, Scope.ADMIN

ROUTES = (
    Route("GET", "/", R, lambda *_: {}, "see that the registry is there"),
    Route("GET", "/v1/metadata/id", R, lambda *_: _NO_CLUSTER, "see which registry this is"),
    Route("GET", "/v1/metadata/version", R, _server_version, "see which version this is"),
    Route("GET", "/contexts", R, _contexts, "list the contexts, of which there is one", _PAGE),
    Route("GET", "/schemas", R, _schemas, "list schemas", _LISTED),
    Route("GET", "/schemas/types", R, lambda *_: sorted(KINDS), "list the types of schemas"),
    Route("GET", _ID, R, _schema, "read the schema of an id", ("subject", "fetchMaxId", "format")),
    Route(
        "GET", f"{_ID}/schema", R, _schema, "read the text of an id", ("subject", "format"), text_only=True
    ),
    Route("GET", f"{_ID}/subjects", R, _subjects_of_id, "list who has an id", _SUBJECT_IN),
    Route("GET", f"{_ID}/versions", R, _versions_of_id, "list who has an id", _SUBJECT_IN),
    Route("GET", _GUID, R, _schema_of_guid, "read the schema of a GUID", ("format",)),
    Route("GET", f"{_GUID}/ids", R, _ids_of_guid, "list the ids of a GUID"),
    Route("GET", "/subjects", R, _subjects, "list subjects", ("subjectPrefix", *_DELETED, *_PAGE)),
    Route("POST", _SUBJECT, R, _look_up, "look a schema up", ("normalize", "deleted", "format"), SchemaBody),
    Route("DELETE", _SUBJECT, W, _delete_subject, "delete a subject", ("permanent",)),
    Route(
        "GET",
        f"{_SUBJECT}/metadata",
        R,
        _with_metadata,
        "read the latest version with a property",
        _BY_PROPERTY,
    ),
    Route("GET", _VERSIONS, R, _versions, "list versions", (*_DELETED, *_PAGE)),
    Route("POST", _VERSIONS, W, _register, "register a schema", ("normalize",), SchemaBody),
    Route("GET", _VERSION, R, _version, "read a version", ("deleted", "format")),
    Route("DELETE", _VERSION, W, _delete_version, "delete a version", ("permanent",)),
    Route("GET", f"{_VERSION}/schema", R, _version, "read its text", ("deleted", "format"), text_only=True),
    Route("GET", f"{_VERSION}/referencedby", R, _referring, "list who refers to it", ("deleted", *_PAGE)),
    Route("POST", _TEST, R, _compatible, "test a schema", _VERBOSE, SchemaBody),
    Route("POST", f"{_TEST}/{{version}}", R, _compatible, "test a schema", _VERBOSE, SchemaBody),
    *(
        route
        for place in ("", "/{subject}")
        for route in (
            Route("GET", f"/config{place}", R, _config, "read the level", ("defaultToGlobal",)),
            Route("PUT", f"/config{place}", A, _set_config, "set the level", (), ConfigBody),
            Route("DELETE", f"/config{place}", A, _unset_config, "unset the level"),
            Route("GET", f"/mode{place}", R, _mode, "read the mode", ("defaultToGlobal",)),
            Route("PUT", f"/mode{place}", A, _set_mode, "set the mode", ("force",), ModeBody),
            Route("DELETE", f"/mode{place}", A, _unset_mode, "unset the mode"),
        )
    ),
    Route("GET", HEALTH, R, _health, "see that the registry can read its database"),
    Route("GET", "/about/{subject}", R, _about, "read who owns a subject"),
    Route("PUT", "/about/{subject}", A, _set_about, "say who owns a subject", (), AboutBody),
    Route("DELETE", "/about/{subject}", A, _set_about, "forget who owns a subject"),
    Route("GET", "/naming", R, lambda registry, _: registry.naming().body(), "read the naming rules"),
    Route("PUT", "/naming", A, _set_naming, "set the naming rules", (), Naming),
    Route("DELETE", "/naming", A, _set_naming, "remove the naming rules"),
    Route("GET", _MIGRATION, R, _migration, "read where a migration stands"),
    Route("PUT", _MIGRATION, W, _change_migration, "advance a migration or roll it back", (), MigrationBody),
    Route("POST", f"{_MIGRATION}/seen", W, _consumer_seen, "say that a consumer runs", (), SeenBody),
    Route("GET", "/audit", A, _audit, "read the audit", ("after", "limit", "subject")),
)
