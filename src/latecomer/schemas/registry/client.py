"""Asks a schema registry: ours, Confluent's, Karapace, Apicurio. With the standard library alone.

    client = Client("http://127.0.0.1:8081", token="…")
    client.schema(7)                 the schema of an id, with all that it refers to
    client.version("orders-value")   the latest version of a subject

What may pass (no answer, an error of the server) is a `RegistryOutage`; what the registry refuses is a `RegistryError`
with its code. Redirects are not followed: a token goes where it was meant to go, or nowhere.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from latecomer.errors import RegistryError, RegistryOutage, first_line
from latecomer.errors.redacting import conceal, is_torn, redacted, without_secrets
from latecomer.schemas import Level, Policy
from latecomer.schemas.migrations import State
from latecomer.schemas.registry.kinds import Parsed, parsed
from latecomer.schemas.registry.migrating import Change
from latecomer.schemas.registry.names import LATEST
from latecomer.schemas.registry.policy import policy_of
from latecomer.schemas.registry.records import Definition, Deleted, Reference, Version

SECONDS = 10.0
LARGEST_ANSWER = 32 * 2**20
DEEPEST_REFERENCES = 50
NO_LEVEL, NO_SUBJECT, NO_SCHEMA = 40408, 40401, 40403
_SENT = "application/vnd.schemaregistry.v1+json"
_TAKEN = f"{_SENT}, application/vnd.schemaregistry+json, application/json"
_PASSING = (408, 425, 429)
_MISSING = 404


@dataclass(frozen=True)
class Fetched:
    """A schema, with all that it refers to, by name."""

    definition: Definition
    references: Mapping[str, Fetched]

    def parsed(self, known: dict[int, Parsed] | None = None) -> Parsed:
        """`known` are those parsed already, by identity: several may refer to one."""
        known = {} if known is None else known
        if id(self) not in known:
            below = {name: each.parsed(known) for name, each in self.references.items()}
            known[id(self)] = parsed(self.definition, below)
        return known[id(self)]


class Client:
    """Each question is a connection of its own, which ends within `timeout` seconds of silence."""

    def __init__(self, url: str, *, token: str | None = None, timeout: float = SECONDS) -> None:
        self.shown = redacted(url)
        self._timeout = timeout
        self._headers = {"Accept": _TAKEN, "User-Agent": "latecomer"}
        parts = _checked(url, self.shown)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        self._base = parts.path.rstrip("/")
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_sendable(conceal(token))}"
        elif parts.username is not None:
            user, password = unquote(parts.username), conceal(unquote(parts.password or ""))
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {conceal(pair)}"
        self._fetched: dict[tuple[str, int], Fetched] = {}

    # Questions

    def schema(self, number: int) -> Fetched:
        """The schema of an id, with all that it refers to."""
        found = self._ask("GET", f"/schemas/ids/{number}")
        return self._with_references(self._definition(found), 0)

    def version(self, subject: str, which: int = LATEST, deleted: Deleted = Deleted.LEFT_OUT) -> Version:
        """A version of a subject, the latest unless another is asked for."""
        number = "latest" if which == LATEST else str(which)
        query = {} if deleted is Deleted.LEFT_OUT else {"deleted": "true"}
        found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{number}", query)
        try:
            place = (str(found["subject"]), int(found["version"]), int(found["id"]))
        except (KeyError, TypeError, ValueError):
            raise self._strange() from None
        return Version(*place, self._definition(found), bool(found.get("deleted", False)))

    def parsed(self, version: Version) -> Parsed:
        """The schema of a version, with all that it refers to."""
        return self._with_references(version.definition, 0).parsed()

    def subjects(self, prefix: str = "", deleted: Deleted = Deleted.LEFT_OUT) -> list[str]:
        query = {"subjectPrefix": prefix} if prefix else {}
        found = self._ask("GET", "/subjects", {**query, **_deleted(deleted)})
        # Not every registry knows the parameter.
        return [str(each) for each in self._list(found) if str(each).startswith(prefix)]

    def versions(self, subject: str, deleted: Deleted = Deleted.LEFT_OUT) -> list[int]:
        """The numbers of a subject's versions; none where there is no such subject."""
        try:
            found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions", _deleted(deleted))
        except RegistryError as error:
            if error.code == NO_SUBJECT:
                return []
            raise
        return [int(each) for each in self._list(found)]

    def held_to(self, subject: str | None = None) -> tuple[Level, Policy]:
        """The level and the policy in force for a subject, or for the registry."""
        if subject is not None:
            path = f"/config/{quote(subject, safe='')}"
            try:
                return self._held_to(self._ask("GET", path, {"defaultToGlobal": "true"}))
            except RegistryError as error:
                if error.code not in (NO_LEVEL, NO_SUBJECT):
                    raise
        return self._held_to(self._ask("GET", "/config"))

    def naming(self) -> dict[str, Any] | None:
        """The naming rules; none of a registry that has no such thing."""
        return self._own("/naming")

    def about(self, subject: str) -> dict[str, Any] | None:
        """Who owns a subject; none of a registry that has no such thing."""
        return self._own(f"/about/{quote(subject, safe='')}")

    def migration(self, name: str) -> State:
        """Where a migration stands; one that nobody has begun has the revision 0."""
        found = self._own(f"/migrations/{quote(name, safe='')}")
        if found is None:
            raise RegistryError(
                f"the registry {self.shown} keeps no migrations: it is not latecomer's own; ask one that "
                "latecomer registry serve has started"
            )
        return self._state(found)

    def audit(self, after: int = 0, limit: int = 1000, subject: str | None = None) -> list[dict[str, Any]]:
        """Changes after a number, the oldest first. It takes a token with the scope admin."""
        query = {"after": str(after), "limit": str(limit), **({"subject": subject} if subject else {})}
        return list(self._list(self._ask("GET", "/audit", query)))

    # Registering and testing

    def register(self, subject: str, schema: Definition, *, normalize: bool = False) -> int:
        """The id of a schema, which is a version of the subject from now on."""
        query = {"normalize": "true"} if normalize else {}
        found = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", query, schema.body())
        try:
            return int(found["id"])
        except (KeyError, TypeError, ValueError):
            raise self._strange() from None

    def look_up(self, subject: str, schema: Definition) -> int | None:
        """The version of a subject that is this schema; none if there is none."""
        try:
            found = self._ask("POST", f"/subjects/{quote(subject, safe='')}", {}, schema.body())
        except RegistryError as error:
            if error.code in (NO_SUBJECT, NO_SCHEMA):
                return None
            raise
        return int(found["version"])

    def problems(self, subject: str, schema: Definition) -> list[str]:
        """Why a schema could not become a version of a subject; none if it could."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        try:
            found = self._ask("POST", path, {"verbose": "true"}, schema.body())
        except RegistryError as error:
            if error.code == NO_SUBJECT:  # some registries say so of a subject that would be new
                return []
            raise
        if not isinstance(found, dict) or "is_compatible" not in found:
            raise self._strange()
        if found["is_compatible"]:
            return []
        return [str(each) for each in found.get("messages") or ["it is not compatible"]]

    # Migrations

    def change_migration(self, name: str, change: Change) -> State:
        """Advance a migration or roll it back, and register the schema that goes with it."""
        measured = change.measured
        body = {
            "revision": change.revision,
            "subject": change.subject,
            "owner": change.owner,
            "phase": None if change.phase is None else str(change.phase),
            "identity": change.identity,
            "register": None if change.schema is None else change.schema.body(),
            "measured": None if measured is None else {"events": measured[0], "drifted": measured[1]},
            "rules": None if change.rules is None else change.rules.body(),
        }
        return self._state(self._ask("PUT", f"/migrations/{quote(name, safe='')}", {}, body))

    def consumer_seen(self, name: str, consumer: str, reader: str) -> State:
        """Say that a consumer runs, and the schema that it reads with."""
        body = {"consumer": consumer, "reader": reader}
        return self._state(self._ask("POST", f"/migrations/{quote(name, safe='')}/seen", {}, body))

    def _state(self, found: Any) -> State:
        try:
            return State.of(found)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange() from None

    # Answers

    def _with_references(self, definition: Definition, depth: int) -> Fetched:
        if depth > DEEPEST_REFERENCES:
            raise RegistryError(
                f"{self.shown}: references lead through more than {DEEPEST_REFERENCES} schemas"
            )
        return Fetched(
            definition, {each.name: self._referred(each, depth + 1) for each in definition.references}
        )

    def _referred(self, reference: Reference, depth: int) -> Fetched:
        place = (reference.subject, reference.version)
        if place not in self._fetched:
            version = self.version(*place, Deleted.INCLUDED)
            self._fetched[place] = self._with_references(version.definition, depth)
        return self._fetched[place]

    def _definition(self, found: Any) -> Definition:
        try:
            references = tuple(
                Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in found.get("references") or ()
            )
            text = found["schema"]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange() from None
        if not isinstance(text, str):
            raise self._strange()
        return Definition(text, str(found.get("schemaType") or "AVRO"), references)

    def _held_to(self, found: Any) -> tuple[Level, Policy]:
        try:
            level, written = Level(found["compatibilityLevel"]), found.get("compatibilityPolicy")
        except (KeyError, TypeError, ValueError):
            raise self._strange() from None
        return level, policy_of(written or Policy.STRICT)

    def _list(self, found: Any) -> list[Any]:
        if not isinstance(found, list):
            raise self._strange()
        return found

    def _own(self, path: str) -> dict[str, Any] | None:
        try:
            found = self._ask("GET", path)
        except RegistryError as error:
            if isinstance(error, RegistryOutage) or error.code != _MISSING:
                raise
            return None
        return found if isinstance(found, dict) else None

    def _strange(self) -> RegistryError:
        return RegistryError(
            f"{self.shown} does not answer as a schema registry does; see that the URL is right, its path included"
        )

    # The wire

    def _ask(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        target = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        headers, sent = dict(self._headers), None
        if body is not None:
            sent = json.dumps(body).encode()
            headers["Content-Type"] = _SENT
        connection = self._connection()
        try:
            connection.request(method, target, sent, headers)
            response = connection.getresponse()
            raw = response.read(LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            reason = without_secrets(first_line(error))
            raise RegistryOutage(
                f"the registry {self.shown} does not answer ({reason}); see that it is up, and that the URL is right"
            ) from None
        finally:
            connection.close()
        if len(raw) > LARGEST_ANSWER:
            raise RegistryError(f"{self.shown} answers with more than {LARGEST_ANSWER} bytes")
        return self._read(response.status, raw)

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _read(self, status: int, raw: bytes) -> Any:
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            found = None
        if status == 200 and found is not None:
            return found
        if 300 <= status < 400:
            raise RegistryError(
                f"{self.shown} answers from another place, which is not asked; give its URL instead"
            )
        code, words = _error(found)
        if status in (401, 403):
            raise RegistryError(
                f"the registry {self.shown} does not allow it ({status}{words}); give a token that it knows",
                code,
            )
        if status >= 500 or status in _PASSING:
            raise RegistryOutage(f"the registry {self.shown} cannot answer now ({status}{words})", code)
        if code is None and status != _MISSING:
            raise self._strange()
        raise RegistryError(f"the registry {self.shown} refused{words or f': {status}'}", code or status)


def _error(found: Any) -> tuple[int | None, str]:
    """The code and the words of an error."""
    if not isinstance(found, dict):
        return None, ""
    code, message = found.get("error_code"), found.get("message")
    words = f": {without_secrets(str(message))[:20_000]}" if message else ""
    return (code if isinstance(code, int) else None), words


def _checked(url: str, shown: str) -> Any:
    fix = "write it such as http://127.0.0.1:8081, special characters as %XX"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise RegistryError(f"{shown} is no URL of a registry; {fix}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or is_torn(url) or port == 0:
        raise RegistryError(f"{shown} is no URL of a registry; {fix}")
    if parts.query or parts.fragment or any(each <= " " or each == "\x7f" for each in url):
        raise RegistryError(f"{shown} has more than a host and a path; {fix}")
    return parts


def _sendable(token: str) -> str:
    if not token or not token.isascii() or any(each <= " " or each == "\x7f" for each in token):
        raise RegistryError(
            "the token has a character that cannot be sent, or is empty; see where it comes from"
        )
    return token


def _deleted(deleted: Deleted) -> dict[str, str]:
    return {} if deleted is Deleted.LEFT_OUT else {"deleted": "true"}
