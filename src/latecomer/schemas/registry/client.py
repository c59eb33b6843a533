"""A client of schema registries: ours, Confluent's, Karapace, Apicurio. It needs only the standard library.

    client = Client("http://127.0.0.1:8081", token="…")
    client.schema(7)                 the schema of an id, with its references
    client.version("orders-value")   the latest version of a subject

If the registry does not answer, or has an error of its own, that is a `RegistryOutage`: a later try may succeed. A
refusal is a `RegistryError` with the registry's code. Redirects are not followed: a token is sent to its registry only.
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
from latecomer.schemas.migrations import MigrationState
from latecomer.schemas.registry.answers import Answer, not_a_registry
from latecomer.schemas.registry.kinds import Parsed, parsed
from latecomer.schemas.registry.migrating import MigrationChange
from latecomer.schemas.registry.names import LATEST
from latecomer.schemas.registry.policy import policy_of
from latecomer.schemas.registry.records import DEEPEST_REFERENCES, Definition, Deleted, Reference, Version
from latecomer.schemas.registry.refusals import NO_LEVEL, NO_SUBJECT

SECONDS = 10.0
LARGEST_ANSWER = 32 * 2**20
_SENT = "application/vnd.schemaregistry.v1+json"
_TAKEN = f"{_SENT}, application/vnd.schemaregistry+json, application/json"
_PASSING = (408, 425, 429)
_MISSING = 404
_FIX = "write it such as http://127.0.0.1:8081, special characters as %XX"
_DELETED = {
    Deleted.LEFT_OUT: {},
    Deleted.INCLUDED: {"deleted": "true"},
    Deleted.ONLY: {"deletedOnly": "true"},
}


@dataclass(frozen=True)
class FetchedSchema:
    """A schema, and the schemas that it refers to, by name."""

    definition: Definition
    references: Mapping[str, FetchedSchema]

    def parsed(self, known: dict[int, Parsed] | None = None) -> Parsed:
        """`known` has those that are parsed already, by identity: several schemas may refer to one."""
        known = {} if known is None else known
        if id(self) not in known:
            below = {name: each.parsed(known) for name, each in self.references.items()}
            known[id(self)] = parsed(self.definition, below)
        return known[id(self)]


class Client:
    """Opens a connection for each request, which fails after `timeout` seconds without data."""

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
        self._fetched: dict[tuple[str, int], FetchedSchema] = {}

    # Questions

    def schema(self, number: int) -> FetchedSchema:
        """The schema of an id, with its references."""
        answer = self._ask("GET", f"/schemas/ids/{number}")
        return self._with_references(_definition(answer), 0)

    def version(self, subject: str, which: int = LATEST, deleted: Deleted = Deleted.LEFT_OUT) -> Version:
        """A version of a subject, by default the latest. A deleted one is read unless these are left out."""
        number = "latest" if which == LATEST else str(which)
        path = f"/subjects/{quote(subject, safe='')}/versions/{number}"
        answer = self._ask("GET", path, {} if deleted is Deleted.LEFT_OUT else {"deleted": "true"})
        place = answer["subject"].text(), answer["version"].whole_number(), answer["id"].whole_number()
        is_deleted = answer["deleted"].value is not None and answer["deleted"].flag()
        return Version(*place, _definition(answer), is_deleted)

    def parsed(self, version: Version) -> Parsed:
        """The schema of a version, with its references."""
        return self._with_references(version.definition, 0).parsed()

    def subjects(self, prefix: str = "", deleted: Deleted = Deleted.LEFT_OUT) -> list[str]:
        query = {"subjectPrefix": prefix} if prefix else {}
        answer = self._ask("GET", "/subjects", {**query, **_DELETED[deleted]})
        names = [each.text() for each in answer.items()]
        return [name for name in names if name.startswith(prefix)]  # not every registry knows the parameter

    def versions(self, subject: str, deleted: Deleted = Deleted.LEFT_OUT) -> list[int]:
        """The numbers of a subject's versions; empty if there is no such subject."""
        try:
            answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions", _DELETED[deleted])
        except RegistryError as error:
            if error.code == NO_SUBJECT:
                return []
            raise
        return [each.whole_number() for each in answer.items()]

    def compatibility(self, subject: str | None = None) -> tuple[Level, Policy]:
        """The level and the policy in force for a subject, or for the registry."""
        if subject is not None:
            path = f"/config/{quote(subject, safe='')}"
            try:
                return _compatibility(self._ask("GET", path, {"defaultToGlobal": "true"}))
            except RegistryError as error:
                if error.code not in (NO_LEVEL, NO_SUBJECT):
                    raise
        return _compatibility(self._ask("GET", "/config"))

    def naming(self) -> dict[str, Any] | None:
        """The naming rules; None if the registry does not know them."""
        answer = self._own("/naming")
        if answer is None:
            return None
        for rule in answer["rules"].items():
            rule["subjects"].text()
        answer["others"].text()
        return answer.fields()

    def about(self, subject: str) -> dict[str, Any] | None:
        """The owner of a subject; None if the registry does not know owners."""
        answer = self._own(f"/about/{quote(subject, safe='')}")
        return None if answer is None else answer.fields()

    def migration(self, name: str) -> MigrationState:
        """The state of a migration. One that has not begun has the revision 0."""
        answer = self._own(f"/migrations/{quote(name, safe='')}")
        if answer is None:
            raise RegistryError(
                f"the registry {self.shown} keeps no migrations: it is not latecomer's own; ask one that "
                "latecomer registry serve has started"
            )
        return _state(answer)

    def audit(self, after: int = 0, limit: int = 1000, subject: str | None = None) -> list[dict[str, Any]]:
        """Changes after a number, the oldest first. This needs a token with the scope admin."""
        query = {"after": str(after), "limit": str(limit), **({"subject": subject} if subject else {})}
        return [each.fields() for each in self._ask("GET", "/audit", query).items()]

    # Registering and testing

    def register(self, subject: str, schema: Definition, *, normalize: bool = False) -> int:
        """Register a schema as a version of a subject; its id."""
        query = {"normalize": "true"} if normalize else {}
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", query, schema.body())
        return answer["id"].whole_number()

    def problems(self, subject: str, schema: Definition) -> list[str]:
        """Why a schema could not be registered under a subject; empty if it could."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        try:
            answer = self._ask("POST", path, {"verbose": "true"}, schema.body())
        except RegistryError as error:
            if error.code == NO_SUBJECT:  # some registries answer so for a new subject
                return []
            raise
        if answer["is_compatible"].flag():
            return []
        messages = answer["messages"].items() if answer["messages"].value else []
        return [each.text() for each in messages] or ["it is not compatible"]

    # Migrations

    def change_migration(self, name: str, change: MigrationChange) -> MigrationState:
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
        return _state(self._ask("PUT", f"/migrations/{quote(name, safe='')}", {}, body))

    def consumer_seen(self, name: str, consumer: str, reader: str) -> MigrationState:
        """Report that a consumer runs, and its reader schema."""
        body = {"consumer": consumer, "reader": reader}
        return _state(self._ask("POST", f"/migrations/{quote(name, safe='')}/seen", {}, body))

    # Answers

    def _with_references(self, definition: Definition, depth: int) -> FetchedSchema:
        if depth > DEEPEST_REFERENCES:
            raise RegistryError(
                f"{self.shown}: references lead through more than {DEEPEST_REFERENCES} schemas"
            )
        return FetchedSchema(
            definition, {each.name: self._referred(each, depth + 1) for each in definition.references}
        )

    def _referred(self, reference: Reference, depth: int) -> FetchedSchema:
        place = (reference.subject, reference.version)
        if place not in self._fetched:
            version = self.version(*place, Deleted.INCLUDED)
            self._fetched[place] = self._with_references(version.definition, depth)
        return self._fetched[place]

    def _own(self, path: str) -> Answer | None:
        """The answer of a path that only latecomer's registry has; None from others."""
        try:
            answer = self._ask("GET", path)
        except RegistryError as error:
            if isinstance(error, RegistryOutage) or error.code != _MISSING:
                raise
            return None
        return answer if isinstance(answer.value, dict) else None

    # The wire

    def _ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> Answer:
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
        except UnicodeError:
            raise _no_url(self.shown) from None
        except (OSError, http.client.HTTPException) as error:
            reason = without_secrets(first_line(error))
            raise RegistryOutage(
                f"the registry {self.shown} does not answer ({reason}); see that it is up, and that the URL is right"
            ) from None
        finally:
            connection.close()
        if len(raw) > LARGEST_ANSWER:
            raise RegistryError(f"{self.shown} answers with more than {LARGEST_ANSWER} bytes")
        return Answer(self._read(response.status, raw), self.shown, f"{self._base}{path}")

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _read(self, status: int, raw: bytes) -> Any:
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            answer = None
        if status == 200 and answer is not None:
            return answer
        if 300 <= status < 400:
            raise RegistryError(
                f"{self.shown} redirects to another URL, which is not followed; give that URL instead"
            )
        code, words = _error(answer)
        if status in (401, 403):
            raise RegistryError(
                f"the registry {self.shown} does not allow it ({status}{words}); give a token that it knows",
                code,
            )
        if status >= 500 or status in _PASSING:
            raise RegistryOutage(f"the registry {self.shown} cannot answer now ({status}{words})", code)
        if code is None and status != _MISSING:
            raise not_a_registry(self.shown)
        raise RegistryError(f"the registry {self.shown} refused{words or f': {status}'}", code or status)


def _error(answer: Any) -> tuple[int | None, str]:
    """The code and the message of an error."""
    if not isinstance(answer, dict):
        return None, ""
    code, message = answer.get("error_code"), answer.get("message")
    words = f": {without_secrets(str(message))[:20_000]}" if message else ""
    return (code if isinstance(code, int) else None), words


def _definition(answer: Answer) -> Definition:
    listed = answer["references"].items() if answer["references"].value is not None else []
    references = tuple(
        Reference(each["name"].text(), each["subject"].text(), each["version"].whole_number())
        for each in listed
    )
    kind = answer["schemaType"].text() if answer["schemaType"].value is not None else ""
    return Definition(answer["schema"].text(), kind or "AVRO", references)


def _compatibility(answer: Answer) -> tuple[Level, Policy]:
    level, written = answer["compatibilityLevel"], answer["compatibilityPolicy"]
    if level.text() not in Level.__members__:
        level.refuse("a compatibility level")
    return Level(level.text()), policy_of(written.text() if written.value else Policy.STRICT)


def _state(answer: Answer) -> MigrationState:
    try:
        return MigrationState.read(answer.fields())
    except ValueError:
        answer.refuse("the state of a migration")


def _checked(url: str, shown: str) -> Any:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_url(shown) from None
    is_http = parts.scheme in ("http", "https")
    if not is_http or not parts.hostname or is_torn(url) or port == 0 or not parts.path.isascii():
        raise _no_url(shown)
    if parts.query or parts.fragment or any(each <= " " or each == "\x7f" for each in url):
        raise RegistryError(f"{shown} has more than a host and a path; {_FIX}")
    return parts


def _no_url(shown: str) -> RegistryError:
    return RegistryError(f"{shown} is no URL of a registry; {_FIX}")


def _sendable(token: str) -> str:
    if not token or not token.isascii() or any(each <= " " or each == "\x7f" for each in token):
        raise RegistryError(
            "the token has a character that cannot be sent, or is empty; see where it comes from"
        )
    return token
