"""`latecomer registry`: check, dry-run, audit and tokens, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latecomer.cli import main
from latecomer.schemas.registry.tokens import Tokens
from schemas.registry.registry_kit import Asking, Server, beside, fresh, record

ONE, TWO, OTHER = record("id:long"), record("id:long", "x:int=0"), record("id:string")


class Cli:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["registry", *map(str, arguments)])
        said = self.capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in ("LATECOMER_REGISTRY_URL", "LATECOMER_REGISTRY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return Cli(capsys)


# check


def test_a_folder_that_could_be_registered(cli: Cli, server: Server, ask: Asking, tmp_path: Path) -> None:
    same, grown, new = fresh("same"), fresh("grown"), fresh("new")
    ask.register(same, ONE)
    ask.register(grown, ONE)
    (tmp_path / "deep").mkdir()
    (tmp_path / f"{same}.avsc").write_text(json.dumps(json.loads(ONE), indent=2))
    (tmp_path / "deep" / f"{grown}.avsc").write_text(TWO)
    (tmp_path / f"{new}.avsc").write_text(OTHER)
    (tmp_path / "README.md").write_text("schemas")
    status, out, err = cli("check", tmp_path, "--url", server.url)
    assert (status, out) == (0, "")
    assert "0 problems; 1 registered already, 1 new version, 1 new subject" in err
    assert ask.get(f"/subjects/{grown}/versions") == [1]


def test_a_file_with_its_references_written_out_is_registered_already(
    cli: Cli, server: Server, ask: Asking, tmp_path: Path
) -> None:
    coin, order = fresh("coin"), fresh("order")
    defined = record("paise:long", name="Coin")
    ask.register(coin, defined)
    ask.register(order, record("paid:Coin"), references=[{"name": "Coin", "subject": coin, "version": 1}])
    whole = json.loads(record("paid:Coin"))
    whole["fields"][0]["type"] = json.loads(defined)
    (tmp_path / f"{order}.avsc").write_text(json.dumps(whole))
    assert "1 registered already" in cli("check", tmp_path, "--url", server.url)[2]


def test_a_file_is_held_to_the_specification(cli: Cli, server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{fresh()}.avsc").write_text(record('id:long="x"'))
    status, out, _ = cli("check", tmp_path, "--url", server.url)
    assert (status, "does not fit its type" in out) == (1, True)


def test_each_problem_is_one_line(cli: Cli, server: Server, ask: Asking, tmp_path: Path) -> None:
    broken, torn = fresh("broken"), fresh("torn")
    ask.register(broken, ONE)
    ask("PUT", f"/about/{broken}", {"owner": "ana@shop.example"})
    (tmp_path / f"{broken}.avsc").write_text(record("id:string", "y:int"))
    (tmp_path / f"{torn}.avsc").write_text("{")
    (tmp_path / "bytes.avsc").write_bytes(b"\xff")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{broken}.avsc").write_text(ONE)
    status, out, err = cli("check", tmp_path, "--url", server.url)
    lines = out.splitlines()
    assert status == 1
    assert len(lines) == 5
    assert all(line.startswith(str(tmp_path)) for line in lines)
    text = {
        word: next(line for line in lines if word in line) for word in ("fields[0]", "fields[1]", "not JSON")
    }
    assert f"{broken}: the new schema cannot read data of version 1: fields[0].type" in text["fields[0]"]
    assert text["fields[1]"].endswith(f"Ask the owner of '{broken}': ana@shop.example.")
    assert any("not UTF-8" in line for line in lines)
    assert any("has the same subject" in line for line in lines)
    assert "5 problems" in err


def test_two_files_may_write_one_subject_in_two_ways(cli: Cli, server: Server, tmp_path: Path) -> None:
    """Clients may write the default context before a subject."""
    subject = fresh()
    for name in (subject, f":.:{subject}", f"%3A.%3A{subject}"):
        (tmp_path / f"{name}.avsc").write_text(ONE)
    status, out, err = cli("check", tmp_path, "--url", server.url)
    assert (status, out.count(f"{subject}: ")) == (1, 2)
    assert out.count("has the same subject; rename one of them") == 2
    assert "2 problems; 0 registered already, 0 new versions, 1 new subject" in err


def test_files_may_refer_to_each_other(cli: Cli, server: Server, tmp_path: Path) -> None:
    for number, (name, kind) in enumerate((("A", "B"), ("B", "C"), ("C", "int"))):
        (tmp_path / f"{fresh('chain')}-{number}.avsc").write_text(record(f"x:{kind}", name=name))
    assert cli("check", tmp_path, "--url", server.url)[0] == 0
    (tmp_path / "lost.avsc").write_text(record("x:Nowhere", name="D"))
    status, out, _ = cli("check", tmp_path, "--url", server.url)
    assert (status, len(out.splitlines())) == (1, 1)
    assert "Nowhere" in out


def test_files_of_protobuf_are_imported_by_their_places(
    cli: Cli, server: Server, ask: Asking, tmp_path: Path
) -> None:
    ride, fare = fresh("ride"), fresh("fare")
    (tmp_path / "pay").mkdir()
    (tmp_path / "pay" / f"{fare}.proto").write_text('syntax = "proto3"; message Fare { int64 paise = 1; }')
    text = f'syntax = "proto3"; import "pay/{fare}.proto"; message Ride {{ Fare fare = 1; int32 no = 2; }}'
    (tmp_path / f"{ride}.proto").write_text(text)
    assert (
        "0 problems; 0 registered already, 0 new versions, 2 new subjects"
        in cli("check", tmp_path, "--url", server.url)[2]
    )
    ask.register(ride, 'syntax = "proto3"; message Ride { string no = 2; }', schemaType="PROTOBUF")
    (tmp_path / f"{fresh()}.proto").write_text("message {")
    status, out, _ = cli("check", tmp_path, "--url", server.url)
    assert (status, len(out.splitlines())) == (1, 2)
    assert "Ride.2: string is written, and int32 is read (FIELD_SCALAR_KIND_CHANGED)" in out
    assert "line 1: there is {, and a name is expected" in out


def test_naming_rules_are_checked(cli: Cli, registry: Server, tmp_path: Path) -> None:
    registry.asking("PUT", "/naming", {"rules": [{"subjects": "pay.*"}], "others": "refuse"})
    (tmp_path / "other.avsc").write_text(ONE)
    (tmp_path / "pay.orders.avsc").write_text(ONE)
    status, out, _ = cli("check", tmp_path, "--url", registry.url)
    assert status == 1
    assert "fits no naming rule" in out
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (["check", "/no/such/folder", "--url", "http://127.0.0.1:1"], 2, "is not a folder"),
        (["check", "{folder}"], 2, "--url"),
        (["check", "{folder}", "--url", "nonsense"], 1, "is no URL of a registry"),
        (["check", "{folder}", "--url", "http://127.0.0.1:1"], 1, "does not answer"),
        (
            ["check", "{folder}", "--url", "http://127.0.0.1:1", "--token-file", "/no/such"],
            2,
            "cannot be read",
        ),
        (["dry-run", "--level", "FULL"], 2, "--url"),
        (["dry-run", "--level", "FUL", "--store", "x.db"], 2, "did you mean FULL"),
        (["dry-run", "--level", "FULL", "--store", "/no/such.db"], 1, "there is no registry"),
        (["dry-run", "--level", "FULL", "--store", "x.db", "--url", "http://x"], 2, "give one of them"),
        (["audit"], 2, "--url"),
        (["token", "new", "--name", "a b"], 2, "cannot be a token's name"),
        (["token", "new", "--name", "ana", "--scope", "owner"], 2, "no scope"),
        (["token", "new"], 2, "--name"),
    ],
)
def test_wrong_calls(cli: Cli, tmp_path: Path, arguments: list[str], status: int, word: str) -> None:
    (tmp_path / "a.avsc").write_text(ONE)
    found, _, err = cli(*(each.format(folder=tmp_path) for each in arguments))
    assert (found, word in err) == (status, True), err


def test_a_folder_without_schemas(cli: Cli, server: Server, tmp_path: Path) -> None:
    status, _, err = cli("check", tmp_path, "--url", server.url)
    assert (status, "has no schema" in err) == (2, True)


# dry-run


def test_what_a_stricter_level_would_have_refused(cli: Cli, registry: Server, tmp_path: Path) -> None:
    ask = registry.asking
    ask("PUT", "/config", {"compatibility": "NONE"})
    for each in (ONE, TWO, OTHER):
        ask.register("a", each)
    ask.register("b", ONE)
    ask.register("b", TWO)
    ask("DELETE", "/subjects/a/versions/3")
    for options in (("--url", registry.url), ("--store", tmp_path / "registry.db")):
        status, out, err = cli("dry-run", "--level", "full", *options)
        assert status == 1
        assert len(out.splitlines()) == 2
        assert out.count("a version 3 (id 3)") == 2
        assert "the new schema cannot read data of version 2" in out
        assert "version 2 cannot read data of the new schema" in out
        assert "FULL would have refused 1 version" in err
        status, out, err = cli("dry-run", "--level", "FULL", "--prefix", "b", *options)
        assert (status, out) == (0, "")
        assert "0 versions" in err


# audit and tokens


def test_the_audit_is_printed(cli: Cli, registry: Server, tmp_path: Path) -> None:
    registry.asking.register("a", ONE)
    registry.asking("PUT", "/config/b", {"compatibility": "NONE"})
    for options in (("--url", registry.url), ("--store", tmp_path / "registry.db")):
        status, out, _ = cli("audit", *options)
        assert status == 0
        assert "anonymous" in out
        assert "127.0.0.1" in out
        rows = json.loads(cli("audit", "--format", "json", *options)[1])
        assert [(each["number"], each["action"]) for each in rows] == [(1, "register"), (2, "set config")]
        assert [json.loads(each["after"]) for each in rows][1] == {"compatibility": "NONE"}
        rows = json.loads(cli("audit", "--format", "json", "--subject", "b", "--after", 1, *options)[1])
        assert [each["subject"] for each in rows] == ["b"]


def test_a_new_token(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    status, out, err = cli("token", "new", "--name", "ana", "--scope", "admin", "--tokens", file)
    assert status == 0
    found = Tokens.of_file(file).token_of(out.strip())
    assert found is not None
    assert (found.name, found.scope.word) == ("ana", "admin")
    assert out.strip() not in err
    secret, line = cli("token", "new", "--name", "bo")[1].splitlines()
    file.write_text(line)
    kept = Tokens.of_file(file).token_of(secret)
    assert kept is not None
    assert kept.scope.word == "read"


def test_the_token_to_send_comes_from_the_environment_or_a_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = cli("token", "new", "--name", "ana", "--scope", "admin", "--tokens", tmp_path / "tokens")[
        1
    ].strip()
    (tmp_path / "mine").write_text(secret + "\n")
    with beside(tmp_path / "r.db", tmp_path / "tokens") as server:
        status, _, err = cli("audit", "--url", server.url)
        assert (status, "give a token" in err) == (1, True)
        assert cli("audit", "--url", server.url, "--token-file", tmp_path / "mine")[0] == 0
        monkeypatch.setenv("LATECOMER_REGISTRY_TOKEN", secret)
        monkeypatch.setenv("LATECOMER_REGISTRY_URL", server.url)
        assert cli("audit")[0] == 0
