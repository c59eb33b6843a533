"""HTTPS: the server with a certificate, and our client, which believes only authorities that it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.errors import RegistryError, RegistryOutage
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.records import Definition
from latecomer.schemas.registry.server import require_certificate
from schemas.registry.registry_kit import record, serving
from tls_kit import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def test_https(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = authority.give("registry")
    with serving(tmp_path / "r.db", "--tls-cert", certificate, "--tls-key", key) as server:
        assert server.url.startswith("https://")
        with pytest.raises(RegistryOutage, match="certificate"):
            Client(server.url).subjects()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        assert Client(server.url).register("a", Definition(record("id:long"))) == 1


def test_keys_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.give("one")
    _, other = authority.give("two")
    require_certificate(certificate, key)
    (tmp_path / "no.pem").write_text("nothing")
    for wrong in (
        (certificate, other),
        (certificate, authority.lock(key, "hunter22")),
        (tmp_path / "no.pem", key),
    ):
        with pytest.raises(RegistryError, match="cannot be used") as caught:
            require_certificate(*wrong)
        assert "hunter22" not in str(caught.value)
