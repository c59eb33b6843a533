"""Jars beside Spark's own: from the user's folder, from the cache, from a repository, and what is said where there
are none."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyspark
import pytest

from latecomer.errors import MachineError
from latecomer.spark import packages
from latecomer.spark.packages import Package, Part, cached, jars, kafka_connector, with_jars

CONNECTOR = f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar"
TOKENS = "spark-token-provider-kafka-0-10_2.13-4.0.0.jar"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LATECOMER_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_users_jars_come_first_and_need_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATECOMER_JARS", str(tmp_path / "given"))
    given = written(
        tmp_path / "given", CONNECTOR, f"org.apache.spark_{TOKENS}", "kafka-clients-3.9.1.jar", "notes.txt"
    )
    assert jars(kafka_connector()) == sorted(given[:3])
    assert with_jars(kafka_connector()) == {"spark.jars": ",".join(map(str, sorted(given[:3])))}


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ([], "there is no spark-sql-kafka-0-10_2.13 jar in it"),
        ([CONNECTOR], "there is no spark-token-provider-kafka-0-10_2.13 jar in it"),
        (["spark-sql-kafka-0-10_2.13-3.5.0.jar", TOKENS], "of another version than Spark"),
    ],
)
def test_a_folder_of_the_users_that_lacks_a_jar(
    there: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, *there)
    monkeypatch.setenv("LATECOMER_JARS", str(tmp_path))
    with pytest.raises(MachineError, match=message):
        jars(kafka_connector())


def test_what_is_cached_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_downloaded", lambda package: pytest.fail("it is there"))
    there = written(kafka_connector().folder, CONNECTOR, TOKENS)
    assert jars(kafka_connector()) == sorted(there) == cached(kafka_connector())


def test_another_version_of_spark_has_a_folder_of_its_own() -> None:
    written(kafka_connector("4.1.0").folder, CONNECTOR)
    assert cached(kafka_connector("4.1.1")) is None


def test_no_repository_that_answers(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9/")
    with pytest.raises(MachineError) as raised:
        jars(Package("A thing", (Part("nobody.has:such-a-thing:1.0"),)))
    message = str(raised.value)
    assert "A thing could not be downloaded (nobody.has:such-a-thing:1.0: " in message
    assert "set LATECOMER_JARS to it" in message
    assert "\n" not in message
    assert [path.name for path in (cache / "latecomer" / "jars").iterdir() if path.is_dir()] == []


def test_a_repository_is_asked_once_and_what_spark_has_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = next(packages.spark_jars().glob("slf4j-api-*.jar")).stem.removeprefix("slf4j-api-")
    with repository({"agroup/thing/1.0": f"slf4j-api:{shipped}", f"agroup/slf4j-api/{shipped}": ""}) as url:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", url)
        package = Package("A thing", (Part("agroup:thing:1.0"),))
        assert [path.name for path in jars(package)] == ["agroup_thing-1.0.jar"]
    assert [path.name for path in jars(package)] == ["agroup_thing-1.0.jar"]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        MachineError, match=r"cannot be kept in .*; make the folder writable, or set XDG_CACHE"
    ):
        jars(kafka_connector())


@contextlib.contextmanager
def repository(things: dict[str, str]) -> Iterator[str]:
    """A Maven repository that has these things, each with what it needs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            group, thing, version = Path(self.path).parts[1:4] if self.path.count("/") > 3 else ("", "", "")
            answer = pom(group, thing, version) if self.path.endswith(".pom") else b"a jar"
            known = f"{group}/{thing}/{version}" in things and self.path.endswith((".pom", ".jar"))
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(answer) if known else 0))
            self.end_headers()
            self.wfile.write(answer if known and self.command == "GET" else b"")

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing."""

    def pom(group: str, thing: str, version: str) -> bytes:
        name, _, of = things.get(f"{group}/{thing}/{version}", "").partition(":")
        needed = f"<dependency>{ids(group, name, of)}</dependency>" if name else ""
        return (
            f"<project><modelVersion>4.0.0</modelVersion>{ids(group, thing, version)}"
            f"<dependencies>{needed}</dependencies></project>"
        ).encode()

    def ids(group: str, thing: str, version: str) -> str:
        return f"<groupId>{group}</groupId><artifactId>{thing}</artifactId><version>{version}</version>"

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def written(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return [folder / name for name in names]
