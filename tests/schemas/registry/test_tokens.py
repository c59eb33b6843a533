"""Tokens: what each scope allows, what is let in, and what is said of it."""

from __future__ import annotations

import base64
import hmac
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.cli import main
from latecomer.errors import RegistryError
from latecomer.schemas.registry.server import bound_socket, require_safe
from latecomer.schemas.registry.tokens import (
    ENVIRONMENT,
    Scope,
    StoredToken,
    Tokens,
    add_token,
    new_token,
    read_tokens,
)
from schemas.registry.registry_kit import Asking, Server, beside, record, serving

ONE, TWO = record("id:long"), record("id:long", "x:int=0")
SECRETS = {scope: new_token(f"token-{scope.word}", scope) for scope in Scope}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(
        "# who may come in\n" + "\n".join(kept.line for _, kept in SECRETS.values())
    )
    (folder / "tokens").chmod(0o600)
    admin = SECRETS[Scope.ADMIN][0]
    with beside(folder / "registry.db", folder / "tokens", token=admin) as running:
        for subject in ("read", "write", "admin"):
            running.asking.register(subject, ONE)
        yield running


def with_token(server: Server, secret: str) -> Asking:
    return Asking(server.url, {"Authorization": f"Bearer {secret}"})


READS = [
    ("GET", "/subjects", None),
    ("GET", "/subjects/read/versions/1", None),
    ("GET", "/schemas/ids/1", None),
    ("GET", "/config", None),
    ("GET", "/mode", None),
    ("GET", "/about/read", None),
    ("GET", "/naming", None),
    ("GET", "/openapi.json", None),
    ("POST", "/subjects/read", {"schema": ONE}),
    ("POST", "/compatibility/subjects/read/versions", {"schema": ONE}),
    ("POST", "/compatibility/subjects/read/versions/1", {"schema": ONE}),
]
WRITES = [
    ("POST", "/subjects/write/versions", {"schema": TWO}),
    ("DELETE", "/subjects/write/versions/2", None),
    ("DELETE", "/subjects/write", None),
]
ADMINS = [
    ("PUT", "/config", {"compatibility": "BACKWARD"}),
    ("PUT", "/config/admin", {"compatibility": "FULL"}),
    ("DELETE", "/config/admin", None),
    ("PUT", "/mode", {"mode": "READWRITE"}),
    ("PUT", "/mode/admin", {"mode": "READWRITE"}),
    ("DELETE", "/mode/admin", None),
    ("PUT", "/about/admin", {"owner": "ana"}),
    ("DELETE", "/about/admin", None),
    ("PUT", "/naming", {"rules": []}),
    ("DELETE", "/naming", None),
    ("GET", "/audit", None),
    ("DELETE", "/subjects/write?permanent=true", None),
]


def test_scopes(guarded: Server) -> None:
    for least, requests in ((Scope.READ, READS), (Scope.WRITE, WRITES), (Scope.ADMIN, ADMINS)):
        for method, path, body in requests:
            for scope, (secret, _) in SECRETS.items():
                if scope >= least:
                    continue
                found = with_token(guarded, secret).refused(method, path, body)
                assert (found.status, found.code) == (403, 403), (method, path, scope)
                assert "takes the scope" in found.message
            found = with_token(guarded, SECRETS[least][0])(method, path, body)
            assert found.status == 200, (method, path, found)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer nobody",
        "Bearer " + SECRETS[Scope.ADMIN][1].digest.hex(),
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(f"other:{SECRETS[Scope.ADMIN][0]}".encode()).decode(),
        "Digest " + SECRETS[Scope.ADMIN][0],
        SECRETS[Scope.ADMIN][0],
        "Bearer é",
    ],
    ids=itertools.count(),  # tokens are other ones in each test process, and so would be the names
)
def test_who_is_not_let_in(guarded: Server, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    for path in ("/subjects", "/nothing", "/openapi.json", "/"):
        found = Asking(guarded.url, headers).refused("GET", path)
        assert (found.status, found.code) == (401, 401)
        assert found.headers["www-authenticate"].startswith("Bearer")
        assert "nobody" not in found.message


def test_a_token_may_come_as_a_password(guarded: Server) -> None:
    """Clients that know no bearer tokens send a name and a password."""
    secret, kept = SECRETS[Scope.READ]
    pair = base64.b64encode(f"{kept.name}:{secret}".encode()).decode()
    assert Asking(guarded.url, {"Authorization": f"Basic {pair}"}).get("/subjects")


def test_health_needs_no_token(guarded: Server) -> None:
    assert Asking(guarded.url).get("/health") == {"status": "ok"}


def test_with_tokens_any_host_is_served(guarded: Server) -> None:
    found = guarded.asking("GET", "/subjects", headers={"Host": "registry.example"})
    assert found.status == 200


def test_a_body_is_not_read_of_somebody_unknown(guarded: Server) -> None:
    found = Asking(guarded.url).refused("POST", "/subjects/a/versions", raw=b"{")
    assert found.status == 401
    found = with_token(guarded, SECRETS[Scope.READ][0]).refused("POST", "/subjects/a/versions", raw=b"{")
    assert found.status == 403


def test_a_token_can_be_taken_back_while_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    (first, kept), (second, other) = new_token("ana", Scope.READ), new_token("bo", Scope.READ)
    add_token(file, kept)
    add_token(file, other)
    with beside(tmp_path / "registry.db", file) as server:
        assert with_token(server, first)("GET", "/subjects").status == 200
        file.write_text(other.line)
        assert with_token(server, first).refused("GET", "/subjects").status == 401
        assert with_token(server, second)("GET", "/subjects").status == 200
        file.write_text("nonsense")
        assert with_token(server, second).refused("GET", "/subjects").status == 401
        file.unlink()
        assert with_token(server, second).refused("GET", "/subjects").status == 401
        file.write_text(other.line)
        file.chmod(0o600)
        assert with_token(server, second)("GET", "/subjects").status == 200


def test_others_are_not_let_in_without_tokens(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="without tokens the registry serves this machine alone"):
        require_safe("0.0.0.0", None)
    with pytest.raises(SystemExit) as ended:
        main(["registry", "serve", "--store", str(tmp_path / "r.db"), "--host", "0.0.0.0", "--port", "0"])
    assert ended.value.code == 1
    assert not (tmp_path / "r.db").exists()


def test_tokens_of_the_environment(tmp_path: Path) -> None:
    secret, kept = new_token("ana", Scope.READ)
    with serving(tmp_path / "r.db", **{ENVIRONMENT: kept.line}) as server:
        assert Asking(server.url).refused("GET", "/subjects").status == 401
        assert with_token(server, secret).get("/subjects") == []


# The file


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "there is no token"),
        ("# none\n\n", "there is no token"),
        ("ana read", "line 1: this is no token"),
        ("ana read secret-in-plain-text", "line 1: this is no token"),
        ("ana write sha256:abc", "this is no token"),
        ("ana owner sha256:" + "a" * 64, "the scope is not valid"),
        ("a/b read sha256:" + "a" * 64, "this is no token"),
        ("\n".join(["ana read sha256:" + "a" * 64] * 2), "line 2: the name ana is there already"),
    ],
)
def test_files_of_tokens_that_cannot_be_used(text: str, word: str) -> None:
    with pytest.raises(RegistryError) as caught:
        read_tokens(text, "tokens")
    assert word in str(caught.value)
    assert "secret-in-plain-text" not in str(caught.value)


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(new_token("ana", Scope.READ)[1].line)
    file.chmod(0o666)
    with pytest.raises(RegistryError, match="chmod go-w"):
        Tokens.of_file(file)


def test_a_new_file_is_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    secret, kept = new_token("ana", Scope.WRITE)
    add_token(file, kept)
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret not in file.read_text()
    assert Tokens.of_file(file).token_of(secret) == kept
    with pytest.raises(RegistryError, match="has a token called ana"):
        add_token(file, kept)


def test_a_token_is_not_shown() -> None:
    secret, kept = new_token("ana", Scope.READ)
    assert kept.digest.hex() not in repr(kept)
    assert secret not in repr(kept)


def test_every_hash_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes to be let in must not tell which token it was."""
    made = [new_token(f"t{number}", Scope.READ) for number in range(5)]
    tokens = Tokens(tuple(kept for _, kept in made))
    compared: list[bytes] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    found = tokens.token_of(made[0][0])
    assert isinstance(found, StoredToken)
    assert len(compared) == 5


def test_a_token_is_added_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(SECRETS[Scope.READ][1].line)  # as some editors leave it
    path.chmod(0o600)
    add_token(path, SECRETS[Scope.WRITE][1])
    assert len(read_tokens(path.read_text(), str(path))) == 2


def test_a_host_that_cannot_be_served() -> None:
    with pytest.raises(RegistryError, match="correct --host or --port"):
        bound_socket("a" * 70, 0)
