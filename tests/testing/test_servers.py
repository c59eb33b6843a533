"""Servers for tests: what cannot be had, or does not start, is said in words."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from latecomer.errors import MachineError
from latecomer.testing.servers import KafkaServer, PostgresServer, free_ports, running_kafka, running_postgres
from postgres_kit import required_binaries


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with more listeners asks again before it has taken the ports that it was given."""
    (given,) = free_ports(1)
    _draws_first(monkeypatch, given)
    assert free_ports(1) != [given]
    with socket.socket() as server:
        server.bind(("127.0.0.1", given))


def test_a_port_that_another_process_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "from latecomer.testing.servers import free_ports; print(*free_ports(1), flush=True); input()"
    command = [sys.executable, "-c", asks]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        given = int(other.stdout.readline())
        _draws_first(monkeypatch, given)
        ours = free_ports(1)
        other.communicate("\n")
    assert ours != [given]


def test_a_port_that_somebody_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        _draws_first(monkeypatch, taken)
        assert free_ports(1) != [taken]


@pytest.mark.long
def test_a_broker_runs_until_the_block_ends(kafka_jars: None, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    with running_kafka(tmp_path / "kafka") as server:
        assert AdminClient({"bootstrap.servers": server.servers}).list_topics(timeout=10).brokers
    assert server.process is not None
    assert server.process.poll() is not None


def test_a_broker_that_does_not_start_says_why(kafka_jars: None, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"(?s)cannot be made; it said: .*nobody"):
        KafkaServer(tmp_path, {"process.roles": "nobody"}).launch()


def test_no_postgres(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LATECOMER_TEST_POSTGRES", str(tmp_path))
    with pytest.raises(MachineError, match=r"no Postgres here.*LATECOMER_TEST_POSTGRES"), running_postgres():
        pass


def test_a_postgres_whose_data_cannot_be_made_says_why(tmp_path: Path) -> None:
    server = PostgresServer(1, tmp_path, required_binaries())
    with pytest.raises(MachineError, match=r"(?s)pg_ctl of Postgres failed; it said: .*data"):
        server.start()
    assert not server.is_up


def test_a_postgres_is_gone_with_its_folder() -> None:
    with running_postgres(required_binaries()) as server, psycopg.connect(server.url_with_password) as asked:
        assert asked.execute("select 1").fetchone() == (1,)
    assert not server.folder.exists()
    assert not server.is_up


def _draws_first(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """The next port that is drawn is this one."""
    draw, first = random.randrange, [port]
    monkeypatch.setattr(random, "randrange", lambda *limits: first.pop() if first else draw(*limits))
