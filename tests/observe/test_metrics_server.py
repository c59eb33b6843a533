"""The pages of a run: who may read them, and what is refused before it starts."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cli.cli_kit import Cli
from latecomer.errors import MachineError
from latecomer.observe.metrics_server import TOKEN, ServedMetrics
from latecomer.observe.server import address_of
from observe.observe_kit import get, samples, value, watched_shop

SECRET = "s3cret-of-the-metrics"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedMetrics]:
    with ServedMetrics(watched_shop(tmp_path), "127.0.0.1", 0) as each:
        yield each


def test_the_pages(served: ServedMetrics) -> None:
    status, text = get(served.url)
    assert status == 200
    assert value(samples(text), "ready") == 0
    root = served.url.removesuffix("/metrics")
    assert get(f"{root}/healthz") == (200, '{"status": "ok"}\n')
    assert get(f"{root}/readyz") == (503, '{"status": "not ready"}\n')
    assert get(f"{root}/etc/passwd")[0] == 404


def test_nobody_is_served_after_the_run(tmp_path: Path) -> None:
    """Also not over a connection from before."""
    with ServedMetrics(watched_shop(tmp_path), "127.0.0.1", 0) as each:
        connection = HTTPConnection(urlsplit(each.url).netloc, timeout=5)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
    with pytest.raises(ConnectionRefusedError):
        connection.request("GET", "/healthz")


def test_a_web_page_with_a_name_of_its_own_reads_nothing(served: ServedMetrics) -> None:
    assert get(served.url, {"Host": "evil.example"})[0] == 421


def test_openmetrics_for_who_asks(served: ServedMetrics) -> None:
    _, text = get(served.url, {"Accept": "application/openmetrics-text; version=1.0.0"})
    assert text.endswith("# EOF\n")


def test_a_token_lets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    with ServedMetrics(watched_shop(tmp_path), "0.0.0.0", 0) as each:
        url = each.url.replace("0.0.0.0", "127.0.0.1")
        assert get(url)[0] == 401
        assert get(url, {"Authorization": "Bearer wrong"})[0] == 401
        assert get(url, {"Authorization": f"Bearer {SECRET}"})[0] == 200
        assert get(url.replace("/metrics", "/healthz"))[0] == 200, "what asks whether it lives has no token"


def test_elsewhere_there_must_be_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(MachineError, match=f"'0.0.0.0' is not loopback; set {TOKEN}"):
        ServedMetrics(watched_shop(tmp_path), "0.0.0.0", 0)
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(MachineError, match="shorter than 16 characters"):
        ServedMetrics(watched_shop(tmp_path), "0.0.0.0", 0)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_that_no_name_can_be(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    with pytest.raises(MachineError, match=f"{host} is not the name of a host; correct --metrics"):
        ServedMetrics(watched_shop(tmp_path), host, 9464)


@pytest.mark.parametrize("written", ["", "port", "1:2:3", "70000", "localhost:", "-1", "host name:1"])
def test_what_is_no_address(written: str, cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a port"):
        address_of(written)
    watched_shop(tmp_path)
    said = cli("run", tmp_path / "pipeline.yaml", f"--metrics={written}")
    assert said.status == 2
    assert "is not a port\n    fix: write a port such as 9464" in said.err


def test_a_port_in_use_is_told_before_spark_starts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched_shop(tmp_path)
    monkeypatch.setitem(
        sys.modules, "latecomer.engine.running", None
    )  # whoever went on would fail to import it
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = cli("run", tmp_path / "pipeline.yaml", "--metrics", port)
    assert said.status == 1
    assert f"port {port} of 127.0.0.1 is in use by another program" in said.err
    assert "stop it, or give another port with --metrics" in said.err
