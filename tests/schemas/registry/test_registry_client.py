"""Our own client: against our server, and against servers that answer otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import RegistryError, RegistryOutage
from latecomer.schemas import Level, Policy
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.records import Definition, Deleted, Reference
from latecomer.schemas.registry.tokens import Scope, add_token, new_token
from schemas.registry.registry_kit import Asking, Server, beside, fresh, record

ONE, TWO = record("id:long"), record("id:long", "x:int=0")


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)


def test_it_registers_and_reads(client: Client, subject: str) -> None:
    number = client.register(subject, Definition(ONE))
    assert client.schema(number).definition == Definition(ONE)
    assert client.problems(subject, Definition(TWO)) == []
    [problem] = client.problems(subject, Definition(record("id:string")))
    assert "long is written, and string is read" in problem
    client.register(subject, Definition(TWO), normalize=True)
    assert client.version(subject).version == 2
    assert client.versions(subject) == [1, 2]
    assert client.versions("nobody") == []
    assert subject in client.subjects("orders-")
    assert client.compatibility(subject) == (Level.BACKWARD, Policy.STRICT)
    with pytest.raises(RegistryError, match="give it a default") as caught:
        client.register(subject, Definition(record("id:long", "y:int")))
    assert caught.value.code == 409
    assert not isinstance(caught.value, RegistryOutage)


def test_an_id_that_nobody_knows(client: Client) -> None:
    with pytest.raises(RegistryError) as caught:
        client.schema(2_000_000_000)
    assert caught.value.code == 40403
    assert not isinstance(caught.value, RegistryOutage)


def test_references_come_along(client: Client, ask: Asking, subject: str) -> None:
    coin, purse = fresh("coin"), fresh("purse")
    ask.register(coin, record("paise:long", name="Coin"))
    ask.register(purse, record("coin:Coin", name="Purse"), references=[Reference("Coin", coin, 1).body()])
    references = (Reference("Purse", purse, 1), Reference("Coin", coin, 1))
    number = client.register(subject, Definition(record("p:Purse", "c:Coin"), "AVRO", references))
    fetched = client.schema(number)
    assert fetched.references["Purse"].references["Coin"].definition.text == record("paise:long", name="Coin")
    assert set(fetched.parsed().schema.names) == {"Order", "Purse", "Coin"}


def test_a_deleted_version_can_be_read(client: Client, ask: Asking, subject: str) -> None:
    ask.register(subject, ONE)
    ask("DELETE", f"/subjects/{subject}/versions/1")
    assert client.version(subject, 1, Deleted.INCLUDED).deleted
    assert client.versions(subject, Deleted.INCLUDED) == [1]


def test_tokens_and_passwords(tmp_path: Path) -> None:
    secret, kept = new_token("ana", Scope.READ)
    add_token(tmp_path / "tokens", kept)
    with beside(tmp_path / "r.db", tmp_path / "tokens") as server:
        assert Client(server.url, token=secret).subjects() == []
        assert Client(server.url.replace("//", f"//ana:{secret}@")).subjects() == []
        for client in (Client(server.url), Client(server.url.replace("//", "//ana:hunter22@"))):
            with pytest.raises(RegistryError, match="give a token that it knows") as caught:
                client.subjects()
            assert "hunter22" not in str(caught.value)
        with pytest.raises(RegistryError, match="scope admin") as caught:
            Client(server.url, token=secret).audit()
        assert secret not in str(caught.value)


# Servers that answer otherwise


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that says the same to everybody, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization')}")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_redirects_are_not_followed() -> None:
    with answering(200, b"[]") as (elsewhere, asked), answering(302, b"", Location=elsewhere) as (url, _):
        with pytest.raises(RegistryError, match="redirects to another URL"):
            Client(url, token="secret-token").subjects()
        assert asked == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b""),
        (200, b"{}"),
        (200, b"7"),
        (200, b"[" * 100_000),
        (400, b"<html>"),
        (418, b"{}"),
    ],
)
def test_what_is_no_registry(status: int, body: bytes) -> None:
    with answering(status, body) as (url, _):
        with pytest.raises(RegistryError, match="does not answer as a schema registry does") as caught:
            Client(url).subjects()
        assert not isinstance(caught.value, RegistryOutage)


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_what_may_pass(status: int) -> None:
    with answering(status, b'{"error_code": 50001, "message": "down, password=hunter22"}') as (url, _):
        with pytest.raises(RegistryOutage, match="cannot answer now") as caught:
            Client(url).subjects()
        assert "hunter22" not in str(caught.value)


def test_nobody_there() -> None:
    with pytest.raises(RegistryOutage, match="does not answer"):
        Client("http://127.0.0.1:1", timeout=2).subjects()


def test_a_schema_of_another_shape() -> None:
    for body in (b"{}", b'{"schema": 7}', b'{"schema": "x", "references": [{"name": "a"}]}', b"[]"):
        with answering(200, body) as (url, _), pytest.raises(RegistryError, match="does not answer as"):
            Client(url).schema(1)


VERSION: dict[str, Any] = {"subject": "a", "version": 1, "id": 1, "schema": '"int"'}
REFERENCE = {"name": "a", "subject": "b", "version": 1}
STRANGE: list[tuple[Any, Callable[[Client], Any], str]] = [
    (
        {**VERSION, "id": "7"},
        lambda it: it.version("a"),
        '/versions/latest: id is "7", and not a whole number',
    ),
    ({**VERSION, "id": None}, lambda it: it.version("a"), "id is null, and not a whole number"),
    ({**VERSION, "id": 1.5}, lambda it: it.version("a"), "id is 1.5, and not a whole number"),
    ({**VERSION, "id": float("inf")}, lambda it: it.version("a"), "id is Infinity, and not"),
    ({**VERSION, "version": True}, lambda it: it.version("a"), "version is true, and not a whole number"),
    ({**VERSION, "subject": 3}, lambda it: it.version("a"), "subject is 3, and not text"),
    ({**VERSION, "schemaType": []}, lambda it: it.version("a"), r"schemaType is \[\], and not text"),
    ({**VERSION, "deleted": "no"}, lambda it: it.version("a"), 'deleted is "no", and not true or false'),
    ({**VERSION, "references": {}}, lambda it: it.version("a"), r"references is \{\}, and not a list"),
    ({**VERSION, "references": [1]}, lambda it: it.version("a"), r"references\[0\] is 1, and not an object"),
    (
        {**VERSION, "references": [{**REFERENCE, "version": "1"}]},
        lambda it: it.schema(7),
        r"/schemas/ids/7: references\[0\].version is \"1\", and not a whole number",
    ),
    ([VERSION], lambda it: it.version("a"), "the answer is .*, and not an object"),
    ([1, "2"], lambda it: it.versions("a"), r'/subjects/a/versions: \[1\] is "2", and not a whole number'),
    ({"versions": [1]}, lambda it: it.versions("a"), "the answer is .*, and not a list"),
    (["a", None], lambda it: it.subjects(), r"/subjects: \[1\] is null, and not text"),
    ({"id": "7"}, lambda it: it.register("a", Definition(ONE)), 'id is "7", and not a whole number'),
    ({"is_compatible": "yes"}, lambda it: it.problems("a", Definition(ONE)), 'is_compatible is "yes"'),
    ({"is_compatible": False, "messages": "no"}, lambda it: it.problems("a", Definition(ONE)), "messages is"),
    (
        {"compatibilityLevel": ["FULL"]},
        lambda it: it.compatibility(),
        r'compatibilityLevel is \["FULL"\], and not',
    ),
    ({"compatibilityLevel": "SOME"}, lambda it: it.compatibility("a"), "/config/a: compatibilityLevel is"),
    (
        {"rules": [{}], "others": "allow"},
        lambda it: it.naming(),
        r"rules\[0\].subjects is null, and not text",
    ),
    ({"name": "m", "revision": float("inf")}, lambda it: it.migration("m"), "/migrations/m: the answer is"),
    ([7], lambda it: it.audit(), r"/audit: \[0\] is 7, and not an object"),
]


@pytest.mark.parametrize(("body", "ask", "message"), STRANGE)
def test_an_answer_of_another_form_is_one_error_with_its_place(
    body: Any, ask: Callable[[Client], Any], message: str
) -> None:
    with answering(200, json.dumps(body).encode()) as (url, _):
        with pytest.raises(RegistryError, match=message) as caught:
            ask(Client(url))
        assert str(caught.value).startswith(f"{url} does not answer as a schema registry does: /")


def test_the_deleted_versions_alone(client: Client, ask: Asking, subject: str) -> None:
    for schema in (ONE, TWO):
        ask.register(subject, schema)
    ask("DELETE", f"/subjects/{subject}/versions/1")
    assert client.versions(subject, Deleted.ONLY) == [1]
    assert subject not in client.subjects(deleted=Deleted.ONLY)
    ask("DELETE", f"/subjects/{subject}")
    assert subject in client.subjects(deleted=Deleted.ONLY)


def test_a_host_that_cannot_be() -> None:
    with pytest.raises(RegistryError, match="is no URL of a registry"):
        Client(f"http://{'a' * 70}.example").subjects()


def test_references_that_lead_back_to_themselves_end() -> None:
    body = (
        b'{"subject": "a", "version": 1, "id": 1, "schema": "\\"int\\"", '
        b'"references": [{"name": "a", "subject": "a", "version": 1}]}'
    )
    with answering(200, body) as (url, _), pytest.raises(RegistryError, match="more than 50 schemas"):
        Client(url).schema(1)


def test_a_path_before_the_paths() -> None:
    with answering(200, b"[]") as (url, asked):
        assert Client(f"{url}/apis/ccompat/v7/").subjects() == []
        assert asked == ["/apis/ccompat/v7/subjects None"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "registry",
        "ftp://x",
        "http://",
        "http://x:notaport",
        "http://x/?a=b",
        "http://ana:hun/ter22@x",
        "file:///etc",
        "http://x/é",
    ],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(RegistryError) as caught:
        Client(url)
    assert "ter22" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "é"])
def test_tokens_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(RegistryError, match="cannot be sent") as caught:
        Client("http://127.0.0.1:1", token=token)
    assert not token or token not in str(caught.value)
