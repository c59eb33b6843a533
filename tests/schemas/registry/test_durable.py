"""Many at once, killed at any moment, and what stands in the way of starting: with the real process."""

from __future__ import annotations

import http.client
import json
import random
import socket
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latecomer.cli import main
from schemas.registry.registry_kit import SENT, Asking, Server, beside, environment, record, serving

ONE = record("id:long")


def refused_start(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """The status and the words of a registry that does not start."""
    with pytest.raises(SystemExit) as ended:
        main(["registry", "serve", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


def numbered(number: int) -> str:
    return record("id:long", f"f{number}:int=0", name=f"R{number}")


def test_a_hundred_registrations_of_one_schema_are_one(registry: Server) -> None:
    start = threading.Barrier(100)

    def register(number: int) -> int:
        start.wait(30)
        return registry.asking.register("parallel", ONE)

    with ThreadPoolExecutor(100) as pool:
        ids = list(pool.map(register, range(100)))
    assert set(ids) == {1}
    assert registry.asking.get("/subjects/parallel/versions") == [1]
    assert len(registry.asking.get("/audit")) == 1


def test_parallel_registrations_of_many_schemas_have_numbers_of_their_own(registry: Server) -> None:
    def register(number: int) -> tuple[int, int]:
        return number, registry.asking.register(f"s{number % 7}", numbered(number // 7))

    registry.asking("PUT", "/config", {"compatibility": "NONE"})
    with ThreadPoolExecutor(100) as pool:
        found = dict(pool.map(register, [*range(70), *range(70)]))
    ids = {number // 7: found[number] for number in found}
    assert len(set(ids.values())) == 10
    assert sorted(set(ids.values())) == list(range(1, 11))
    for subject in range(7):
        assert registry.asking.get(f"/subjects/s{subject}/versions") == list(range(1, 11))


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db") as one, serving(tmp_path / "r.db") as two:
        sides = [one.asking, two.asking]
        with ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(lambda n: sides[n % 2].register(f"s{n // 4}", numbered(n // 4)), range(40)))
        assert [ids[n] for n in range(0, 40, 4)] == [ids[n] for n in range(3, 40, 4)]
        assert len(set(ids)) == 10
        assert one.asking.get("/subjects") == two.asking.get("/subjects")


def acknowledged(asking: Asking, prefix: str, outcome: dict[str, int], stop: threading.Event) -> None:
    """Register one schema after the other, and keep what was answered."""
    number = 0
    while not stop.is_set():
        number += 1
        subject = f"{prefix}-{number}"
        try:
            outcome[subject] = asking.register(subject, numbered(random.randrange(10**9)))
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return


@pytest.mark.parametrize("after", [0.05, 0.2, pytest.param(0.7, marks=pytest.mark.long)])
def test_killed_it_has_lost_nothing_that_it_answered(tmp_path: Path, after: float) -> None:
    outcome: dict[str, int] = {}
    rounds = 2
    for each in range(rounds):
        stop = threading.Event()
        with serving(tmp_path / "r.db") as server:
            threads = [
                threading.Thread(target=acknowledged, args=(server.asking, f"r{each}w{n}", outcome, stop))
                for n in range(4)
            ]
            for thread in threads:
                thread.start()
            while len(outcome) < 3 * (each + 1):
                stop.wait(0.01)
            stop.wait(after)
            server.kill()
            stop.set()
            for thread in threads:
                thread.join(30)
    with serving(tmp_path / "r.db") as server:
        for subject, number in outcome.items():
            assert server.asking.get(f"/subjects/{subject}/versions/1")["id"] == number
            assert server.asking.get(f"/schemas/ids/{number}")
        entries = server.asking.get("/audit?limit=10000")
        subjects = server.asking.get("/subjects")
    assert [each["number"] for each in entries] == list(range(1, len(entries) + 1))
    assert sorted(each["subject"] for each in entries) == subjects
    assert set(outcome) <= set(subjects)
    with sqlite3.connect(tmp_path / "r.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_asked_to_stop_it_stops(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db") as server:
        server.asking.register("a", ONE)
        server.stop()
        assert server.process.returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == ["r.db"], "all of it is in one file then"


# Starting


def test_a_port_in_use(registry: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = refused_start(capsys, "--store", tmp_path / "other.db", "--port", registry.asking.port)
    assert status == 1
    assert f"port {registry.asking.port} of 127.0.0.1 is in use" in said
    assert "stop it, or give another port with --port" in said


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--host", "no.such.host.invalid"], "cannot be served"),
        (["--host", "no..host"], "no..host is not the name of a host; correct --host or --port"),
        (["--port", "70000"], "--port"),
        (["--store", "/no/such/folder/r.db"], "there is no folder /no/such/folder"),
        (["--store", "a\0b.db"], "'a\\x00b.db' holds a NUL character"),
        (["--tokens", "/no/such/file"], "the tokens cannot be read"),
        (["--tls-key", "key.pem"], "needs a certificate"),
        (["--tls-cert", "/no/such/cert.pem"], "cannot be used"),
        (["--store", "postgresql://ana:s3cret@127.0.0.1:1/none"], "refused"),
        (
            ["--store", "mysql://ana:s3cret@127.0.0.1/none"],
            "--store names mysql://…, and the registry knows no such",
        ),
    ],
)
def test_what_stands_in_the_way(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    word: str,
) -> None:
    if "--host" in options:
        monkeypatch.setenv("LATECOMER_REGISTRY_TOKENS", "ana read sha256:" + "a" * 64)
    given = {"--host": "127.0.0.1", "--store": str(tmp_path / "r.db"), "--port": "0"}
    given[options[0]] = options[1]
    status, said = refused_start(capsys, *(part for pair in given.items() for part in pair))
    assert status in (1, 2)
    assert word in said
    assert "s3cret" not in said


def test_files_of_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.db").write_text("nothing of SQLite's " * 100)
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE theirs (x INTEGER)")
    database.close()
    before = (tmp_path / "other.db").read_bytes()
    assert "no SQLite database" in refused_start(capsys, "--port", 0, "--store", tmp_path / "text.db")[1]
    assert (
        "database of another program"
        in refused_start(capsys, "--port", 0, "--store", tmp_path / "other.db")[1]
    )
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_later_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with beside(tmp_path / "r.db"):
        pass
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.execute("UPDATE registry_format SET version = version + 1")
    database.close()
    assert "later version" in refused_start(capsys, "--port", 0, "--store", tmp_path / "r.db")[1]


def test_a_file_that_is_gone_takes_nothing_with_it(registry: Server, tmp_path: Path) -> None:
    """What would be written to a file without a name is not acknowledged."""
    registry.asking.register("a", ONE)
    (tmp_path / "registry.db").rename(tmp_path / "moved.db")
    refused = registry.asking.refused("POST", "/subjects/b/versions", {"schema": ONE})
    assert (refused.status, refused.code) == (500, 50001)
    assert str(tmp_path) not in refused.message
    assert registry.asking("GET", "/health").status == 503
    (tmp_path / "moved.db").rename(tmp_path / "registry.db")
    assert registry.asking.get("/subjects") == ["a"]


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['fastapi'] = None; from latecomer.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "registry", "serve", "--store", str(tmp_path / "r.db")],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 1
    assert "pip install 'latecomer[registry]'" in done.stderr


def test_somebody_who_goes_away_in_the_middle(registry: Server) -> None:
    for _ in range(20):
        with socket.create_connection((registry.asking.host, registry.asking.port), timeout=10) as line:
            head = f"POST /subjects/a/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {SENT}\r\n"
            line.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
    assert registry.asking.get("/subjects") == []
