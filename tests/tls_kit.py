"""Certificates for the tests' servers and clients, made with openssl by an authority of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MISSING = "no openssl here, which makes the certificates; install it (Debian: apt install openssl)"


class Authority:
    """An authority in a folder, with the certificates that it gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.certificate, self._key = folder / "ca.pem", folder / "ca.key"
        self._openssl("req", "-x509", "-nodes", *_named(folder.name), *_made(self._key, self.certificate))

    def give(self, name: str) -> tuple[Path, Path]:
        """A certificate for a server at 127.0.0.1 or for a client, and its key."""
        certificate, key, asked = (self.folder / f"{name}{end}" for end in (".pem", ".key", ".csr"))
        about = self.folder / f"{name}.ext"
        about.write_text("subjectAltName=IP:127.0.0.1\n", encoding="ascii")
        self._openssl("req", "-nodes", *_named(name), *_made(key, asked))
        by = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial")
        self._openssl(
            "x509", "-req", "-in", str(asked), *by, "-extfile", str(about), "-out", str(certificate)
        )
        return certificate, key

    def lock(self, key: Path, password: str, scheme: tuple[str, str] = ("-v1", "PBE-SHA1-3DES")) -> Path:
        """The key, of which nobody has the use without a password; in a scheme that Java's Kafka client reads."""
        locked = key.with_suffix(".locked.key")
        written = ("-in", str(key), "-out", str(locked), "-passout", f"pass:{password}")
        self._openssl("pkcs8", "-topk8", *scheme, *written)
        return locked

    def _openssl(self, *command: str) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
        done = subprocess.run([openssl, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _named(name: str) -> tuple[str, ...]:
    return ("-subj", f"/CN={name}", "-newkey", "rsa:2048")


def _made(key: Path, written: Path) -> tuple[str, ...]:
    return ("-keyout", str(key), "-out", str(written))
