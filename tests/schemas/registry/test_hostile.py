"""Input that nobody means well with: each gets a JSON error, and the server goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from schemas.registry.registry_kit import SENT, Asking, record

ONE = record("id:long")
RECURSIVE = json.dumps(
    {
        "type": "record",
        "name": "A",
        "fields": [{"name": f"f{number}", "type": "A", "default": {}} for number in range(50)],
    }
)


@pytest.fixture(autouse=True)
def still_there(ask: Asking) -> Iterator[None]:
    yield
    assert ask.get("/health") == {"status": "ok"}


def raw_answer(ask: Asking, sent: bytes) -> tuple[int, dict[str, object]]:
    """Bytes to the server, and what comes back."""
    with socket.create_connection((ask.host, ask.port), timeout=10) as line:
        line.sendall(sent)
        found = b""
        while chunk := line.recv(65536):
            found += chunk
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


# Paths


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a/versions/1",
        "ein fluß",
        "日本",
        "100%",
        "a?b#c",
        "a\\b",
        "..a",
        "%2F",
        "a+b",
        "'; DROP TABLE x",
    ],
)
def test_odd_names_are_names(ask: Asking, name: str) -> None:
    path = quote(name, safe="")
    number = ask.register(path, ONE)
    assert name in ask.get("/subjects")
    assert ask.get(f"/subjects/{path}/versions/1")["subject"] == name
    assert ask.get(f"/schemas/ids/{number}/subjects?subject={path}") == [name]
    assert ask("DELETE", f"/subjects/{path}").body == [1]
    assert ask("DELETE", f"/subjects/{path}?permanent=true").body == [1]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/subjects/a%00b/versions", 422, 42208),
        ("/subjects/a%0D%0Ab/versions", 422, 42208),
        ("/subjects/%E2%80%AEevil/versions", 422, 42208),
        ("/subjects/%20/versions", 422, 42208),
        ("/subjects/../versions", 422, 42208),
        ("/subjects/%2E%2E/versions", 422, 42208),
        ("/subjects/./versions", 422, 42208),
        ("/subjects/:.other:a/versions", 422, 42208),
        ("/subjects/__GLOBAL/versions", 422, 42208),
        (f"/subjects/{'a' * 501}/versions", 422, 42208),
        ("/subjects/%FF/versions", 400, 400),
        ("/subjects/%C0%AF/versions", 400, 400),
        ("/subjects/%zz/versions", 400, 400),
        ("/subjects/%/versions", 400, 400),
        (f"/subjects/{'a' * 9000}/versions", 414, 414),
        ("/subjects//versions", 404, 404),
        ("//subjects", 404, 404),
        ("/subjects/a/versions/1/../../..", 404, 404),
        ("/%73ubjects", 404, 404),
        ("/schemas/ids/1%2F..", 404, 40403),
        ("/schemas/ids/%F0%9D%9F%99", 404, 40403),
        ("/subjects?deleted=%FF", 400, 400),
        ("/subjects?" + "&".join(f"a{number}=" for number in range(60)), 400, 400),
    ],
)
def test_tricks_with_paths(ask: Asking, path: str, status: int, code: int) -> None:
    found = ask.refused("GET", path)
    assert (found.status, found.code) == (status, code)


def test_a_path_must_be_one(ask: Asking) -> None:
    for target in (b"http://elsewhere/subjects", b"*", b"subjects"):
        status, body = raw_answer(
            ask, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        assert (status, body["error_code"]) == (400, 400)


# Heads


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n",
        b"POST /subjects/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["words", "no-host", "header", "length", "tls"],
)
def test_what_is_no_http(ask: Asking, sent: bytes) -> None:
    status, body = raw_answer(ask, sent)
    assert (status, body["error_code"]) == (400, 400)


@pytest.mark.parametrize("size", [33_000, 60_000])
def test_long_headers(ask: Asking, size: int) -> None:
    found = ask.refused("GET", "/subjects", headers={"X": "x" * size})
    assert found.status in (400, 431)
    assert ask("GET", "/subjects", headers={"X": "x" * 30_000}).status == 200


def test_without_tokens_it_answers_to_loopback_names_alone(ask: Asking) -> None:
    assert ask.refused("GET", "/subjects", headers={"Host": "evil.example"}).status == 421
    assert ask.refused("GET", "/subjects", headers={"Host": "localhost.evil.example:8081"}).status == 421
    for host in ("localhost", "127.0.0.1:8081", "[::1]:8081"):
        assert ask("GET", "/subjects", headers={"Host": host}).status == 200


def test_answers_are_json_and_nothing_else(ask: Asking) -> None:
    assert ask.refused("GET", "/subjects", headers={"Accept": "application/xml"}).status == 406
    found = ask("GET", "/subjects")
    assert "server" not in found.headers
    assert "access-control-allow-origin" not in found.headers


# Bodies


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": ""},
        {"Content-Encoding": "gzip"},
    ],
)
def test_a_body_of_another_kind(ask: Asking, headers: dict[str, str]) -> None:
    found = ask.refused("POST", "/subjects/kinds/versions", {"schema": ONE}, headers=headers)
    assert (found.status, found.code) == (415, 415)


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"schema": NaN}', "NaN"),
        (b'{"schema": "a", "schema": "b"}', "twice"),
        (b'{"schema": "\xff"}', "not UTF-8"),
        (b'{"schema": "\\ud800"}', "surrogate"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "too long"),
        (b"[" + b"1," * 250_000 + b"1]", "too many values"),
    ],
    ids=["empty", "open", "nan", "twice", "bytes", "surrogate", "lists", "objects", "number", "many"],
)
def test_a_body_that_is_no_json_within_limits(ask: Asking, raw: bytes, word: str) -> None:
    found = ask.refused("POST", "/subjects/limits/versions", raw=raw)
    assert (found.status, found.code) == (400, 400)
    assert word in found.message


def test_a_body_that_is_too_large(ask: Asking) -> None:
    assert ask.refused("POST", "/subjects/large/versions", raw=b" " * (4 * 2**20 + 1)).status == 413


def test_a_body_that_does_not_say_how_large_it_is(ask: Asking) -> None:
    chunk = b"%x\r\n%s\r\n" % (2**16, b" " * 2**16)
    head = (
        f"POST /subjects/large/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {SENT}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((ask.host, ask.port), timeout=10) as line:
        line.sendall(head.encode())
        found = b""
        try:
            for _ in range(200):
                line.sendall(chunk)
            line.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        try:
            while part := line.recv(65536):
                found += part
        except OSError:
            pass
    assert b" 413 " in found.split(b"\r\n")[0]


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "array", "items": ' * 400 + '"int"' + "}" * 400,
        "[" * 200_000,
        '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
        '"' + "a" * 1_000_001 + '"',
        '{"type": "fixed", "name": "F", "size": 99999999999999}',
        "null",
        "true",
    ],
    ids=["deep", "brackets", "enum", "long", "fixed", "null", "true"],
)
def test_schemas_that_are_none(ask: Asking, schema: str) -> None:
    found = ask.refused("POST", "/subjects/hostile/versions", {"schema": schema})
    assert (found.status, found.code) == (422, 42201)
    assert len(found.message) < 2000


def test_defaults_that_lead_to_themselves(ask: Asking, subject: str) -> None:
    """Java overflows its stack with them. Here nothing is read with them."""
    path = f"/subjects/{subject}/versions"
    assert ask.refused("POST", f"{path}?normalize=true", {"schema": RECURSIVE}).code == 42201
    ask.register(subject, record("x:int", name="A"))
    found = ask.refused("POST", path, {"schema": RECURSIVE})
    assert (found.code, "it has no default" in found.message) == (409, True)


def test_schemas_that_would_take_for_ever_to_compare(ask: Asking, subject: str) -> None:
    """Each branch of a union against each branch of the other, for each field."""
    names = [f'{{"type": "record", "name": "B{number}", "fields": []}}' for number in range(25)]
    union = f"[{','.join(names)}]"
    again = json.dumps([f"B{number}" for number in range(25)])
    fields = ",".join(
        f'{{"name": "f{number}", "type": {union if number == 0 else again}}}' for number in range(1000)
    )
    schema = f'{{"type": "record", "name": "Wide", "fields": [{fields}]}}'
    ask.register(subject, schema)
    found = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": schema.replace("f999", "f1000")})
    assert (found.status, found.code) == (422, 42201)
    assert "too many steps" in found.message


def test_nobody_is_asked_for_anything(ask: Asking, subject: str) -> None:
    """A schema that names a place elsewhere is a schema; nothing is fetched."""
    schema = json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [],
            "$ref": "http://127.0.0.1:1/",
            "doc": "http://127.0.0.1:1/",
        }
    )
    ask.register(subject, schema)


def test_two_requests_in_one(ask: Asking) -> None:
    """Both lengths at once is how one request is smuggled into another's."""
    sent = (
        f"POST /subjects/smuggled/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {SENT}\r\n"
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        "0\r\n\r\nGET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    with socket.create_connection((ask.host, ask.port), timeout=10) as line:
        line.sendall(sent.encode())
        found = b""
        while part := line.recv(65536):
            found += part
    assert found.count(b"HTTP/1.1 ") == 1
    assert b" 400 " in found.split(b"\r\n")[0]
