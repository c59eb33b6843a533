"""The target of a Postgres sink: forms, users and passwords, and that no secret is shown."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import psycopg
import pytest

from latecomer.config.sinks import PostgresSink
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import open_sink
from postgres_kit import PASSWORD, Postgres
from sink.postgres_sink_kit import NUMBERS, refused_opening, shown
from sink.sink_kit import SHAPE, apply, insert, opened


def test_the_extra_is_named_where_it_is_missing(
    path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert refused_opening(path) == (
        f"postgres sink {shown(postgres)}: Postgres needs the package psycopg; install it: pip install "
        "'latecomer[postgres]'. Nothing is lost: the next run catches this sink up."
    )


PASSWORDS = ("s3/cr:et@#?&%20", "it's \\ odd \n", "${env:OTHER}", " ", "' dbname='x")
FORMS = ("url", "pairs", "quoted pairs", "file", "whole")


@pytest.mark.parametrize(
    ("password", "form"),
    # The end of a file's last line is none of the secret.
    [
        pytest.param(word, form, marks=[pytest.mark.long] * (word != PASSWORDS[0] and form != "url"))
        for word in PASSWORDS
        for form in FORMS
        if form != "file" or not word.endswith("\n")
    ],
)
def test_a_password_may_hold_anything(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str, form: str
) -> None:
    user = f"user{next(NUMBERS)}"
    with psycopg.connect(postgres.url_with_password, autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("create role {} superuser login password {}").format(
                psycopg.sql.Identifier(user), psycopg.sql.Literal(password)
            )
        )
    monkeypatch.setenv("DB_PASSWORD", password)
    (tmp_path / "secret").write_text(f"{password}\n", encoding="utf-8")
    pairs = f"host=127.0.0.1 port={postgres.port} user={user} dbname=postgres"
    whole = psycopg.conninfo.make_conninfo(pairs, password=password)
    monkeypatch.setenv("DB", whole)
    target = {
        "url": f"postgresql://{user}:${{env:DB_PASSWORD}}@127.0.0.1:{postgres.port}/postgres",
        "pairs": f"{pairs} password=${{env:DB_PASSWORD}}",
        "quoted pairs": f"{pairs} password='${{env:DB_PASSWORD}}'",
        "file": f"postgresql://{user}:${{file:secret}}@127.0.0.1:{postgres.port}/postgres",
        "whole": "${env:DB}",
    }[form]
    sink = PostgresSink(target=target, schema=f"of {user}")
    logic = open_sink(sink, tmp_path, "upi", SHAPE)
    assert logic.last_batch() == -1
    logic.close()


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        (
            "postgresql://ana:s3/cr@et@db/books",
            "the target is not a URL that Postgres can read; write postgresql://",
        ),
        (
            "postgresql://ana:s3cret@db:port/books?hunter=s3cret",
            "the target is neither a URL nor key=value pairs",
        ),
        ("hostess=db password=s3cret", "the target is neither a URL nor key=value pairs"),
        (
            "postgresql://ana:${env:NO_SUCH}@db",
            "${env:NO_SUCH}: the environment has no such variable; set NO_SUCH",
        ),
        (
            "postgresql://ana:${file:none}@db",
            "${file:none}: the file cannot be read (No such file or directory)",
        ),
        (
            "postgresql://ana:${NO_SUCH}@db",
            "${NO_SUCH}: a reference says neither env nor file; write ${env:NAME}",
        ),
    ],
)
def test_a_target_that_cannot_be_used_is_refused_without_its_password(
    target: str, outcome: str, tmp_path: Path
) -> None:
    with pytest.raises(SinkError) as caught:
        open_sink(PostgresSink(target=target), tmp_path, "upi", SHAPE)
    assert outcome in str(caught.value)
    assert "s3" not in str(caught.value)
    assert not isinstance(caught.value, SinkOutage)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (
            (PASSWORD, "wrong-password"),
            'the password was not accepted (connection failed: connection to server at "127',
        ),
        (("ana:", "nobody:"), "the password was not accepted"),
        (("/postgres", "/books"), "there is no such database (connection failed: "),
        ((f":{PASSWORD}", ""), "the password was not accepted"),
    ],
)
def test_who_is_not_let_in_is_told_at_once(
    path: Path, target: str, change: tuple[str, str], outcome: str
) -> None:
    scheme, rest = target.split("://")
    said = refused_opening(path, target=f"{scheme}://{rest.replace(*change)}")
    assert outcome in said
    assert "wrong-password" not in said


def test_a_user_who_may_not_connect_is_told_so(postgres: Postgres, path: Path) -> None:
    user, database = f"user{next(NUMBERS)}", f"closed{next(NUMBERS)}"
    postgres.ask(f"create role {user} login password '{PASSWORD}'")
    postgres.ask(f"create database {database}")
    postgres.ask(f"revoke connect on database {database} from public")
    target = postgres.url_with_password.replace("ana:", f"{user}:").replace("/postgres", f"/{database}")
    assert "the user may not connect to the database (connection failed: " in refused_opening(
        path, target=target
    )


def test_a_password_that_is_changed_while_it_works_is_read_again(
    postgres: Postgres, path: Path, tmp_path: Path
) -> None:
    user = f"user{next(NUMBERS)}"
    postgres.ask(f"create role {user} superuser login password 'before'")
    (tmp_path / "secret").write_text("before")
    target = f"postgresql://{user}:${{file:{tmp_path}/secret}}@127.0.0.1:{postgres.port}/postgres"
    sink = opened("postgres", path, target=target)
    apply(sink, 0, insert(0, "chai", 0))
    postgres.ask(f"alter role {user} password 'after'")
    sink.close()
    with pytest.raises(SinkOutage, match="the password was not accepted"):
        sink.open()
    (tmp_path / "secret").write_text("after")
    sink.open()
    assert sink.last_batch() == 0


def test_no_secret_is_shown(
    path: Path, target: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    sink = opened("postgres", path)
    apply(sink, 0, insert(0, "chai", 0))
    with pytest.raises(SinkOutage) as caught:
        opened("postgres", path, target=target.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.2:"))
    shown = [caplog.text, str(caught.value), repr(caught.value), repr(sink), *capfd.readouterr()]
    assert [text for text in shown if PASSWORD in text] == []
