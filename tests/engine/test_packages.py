"""Jars beside Spark's own: from the cache, from a repository, and what is said where there are none."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from latecomer.errors import MachineError
from latecomer.spark import packages
from latecomer.spark.packages import MavenPackage, Package, cached, jars

THING = Package("A thing", (MavenPackage("agroup:thing:1.0"),))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_cached_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_downloaded", lambda package: pytest.fail("it is there"))
    there = written(THING.folder, "agroup_thing-1.0.jar", "agroup_other-2.jar")
    assert jars(THING) == sorted(there) == cached(THING)


def test_another_version_has_a_folder_of_its_own() -> None:
    written(THING.folder, "agroup_thing-1.0.jar")
    assert cached(Package("A thing", (MavenPackage("agroup:thing:1.1"),))) is None


def test_no_repository_that_answers(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9/")
    with pytest.raises(MachineError) as raised:
        jars(Package("A thing", (MavenPackage("nobody.has:such-a-thing:1.0"),)))
    message = str(raised.value)
    assert "A thing could not be downloaded (nobody.has:such-a-thing:1.0: " in message
    assert "let this machine reach a Maven repository once" in message
    assert "\n" not in message
    assert [path.name for path in (cache / "latecomer" / "jars").iterdir() if path.is_dir()] == []


def test_a_repository_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a thing and what it needs."""
    with repository({"agroup/thing/1.0": "other:2", "agroup/other/2": ""}) as url:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", url)
        found = [path.name for path in jars(THING)]
    assert found == ["agroup_other-2.jar", "agroup_thing-1.0.jar"]
    assert [path.name for path in jars(THING)] == found


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        MachineError, match=r"cannot be kept in .*; make the folder writable, or set XDG_CACHE"
    ):
        jars(THING)


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
