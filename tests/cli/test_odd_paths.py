"""A path that cannot be used is one sentence and its fix, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.cli_kit import Cli, Lake

ONE = ["--window", "2026-04-25T12:00Z", "--key", "merchant=a"]
WRITING = {
    "explain --svg": ["explain", "FILE", "minute_totals", *ONE, "--svg", "PATH"],
    "certify --to": ["certify", "FILE", "minute_totals", "--to", "PATH"],
    "snapshot": ["snapshot", "FILE", "PATH"],
    "registry --store": ["registry", "serve", "--port", "0", "--store", "PATH"],
    "token --tokens": ["registry", "token", "new", "--name", "ana", "--tokens", "PATH"],
    "cluster pack": ["cluster", "pack", "PATH"],
}
READING = {
    "pipeline": ["validate", "PATH"],
    "transcript": ["test", "PATH"],
    "a store": ["snapshot", "PATH", "copy"],
    "raw files": ["advise", "PATH", "--event-time", "at"],
    "reconcile": ["reconcile", "FILE", "minute_totals", "--against", "PATH"],
    "reconcile, SQLite": [
        *("reconcile", "FILE", "minute_totals", "--against", "sqlite:PATH"),
        *("--query", "select 1"),
    ],
    "certificate": ["certify", "FILE", "minute_totals", "--check", "PATH"],
    "audit --store": ["registry", "audit", "--store", "PATH"],
    "--token-file": ["registry", "audit", "--url", "http://127.0.0.1:1", "--token-file", "PATH"],
}
ODD = {
    "too long": "a" * 300,
    "too long as a whole": "/".join(["d" * 100] * 60),
    "NUL": "a\0b",
    "within a file": "plain/x.csv",
    "a folder": "folder",
    "of nobody": "~nobody-is-called-so/x.csv",
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("verb", {**WRITING, **READING})
def test_a_path_that_cannot_be_used(
    cli: Cli, filled: Lake, monkeypatch: pytest.MonkeyPatch, verb: str, odd: str
) -> None:
    home = filled.file.parent
    monkeypatch.chdir(home)
    (home / "folder").mkdir()
    (home / "folder" / "plain.txt").write_text("none of ours")
    (home / "plain").write_text("none of ours")
    before = found_in(home)
    words = {**WRITING, **READING}[verb]
    said = cli(*(word.replace("PATH", ODD[odd]).replace("FILE", str(filled.file)) for word in words))
    assert said.status in (1, 2), said
    assert "Traceback" not in said.err
    assert ";" in said.err or "fix: " in said.err or "UNREADABLE" in said.out, said.err
    assert found_in(home) == before


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("pipeline", "is too large for a pipeline file"),
        ("certificate", "cannot be read: it has more than 4,194,304 bytes"),
        ("--token-file", "cannot be read (it has more than 4,194,304 bytes)"),
        ("token --tokens", "the tokens cannot be read (it has more than 4,194,304 bytes)"),
    ],
)
def test_a_device_without_an_end_is_refused(cli: Cli, filled: Lake, verb: str, message: str) -> None:
    words = {**WRITING, **READING}[verb]
    said = cli(*(word.replace("PATH", "/dev/zero").replace("FILE", str(filled.file)) for word in words))
    assert said.status in (1, 2), said
    assert message in said.err


def found_in(folder: Path) -> set[str]:
    return {os.path.join(place, name) for place, _, names in os.walk(folder) for name in names}


@pytest.mark.parametrize("path", [".", "/", ""])
def test_a_certificate_is_not_written_into_a_folder(cli: Cli, filled: Lake, path: str) -> None:
    said = cli("certify", filled.file, "minute_totals", "--to", path)
    assert said.status == 2
    assert "is a folder\n    fix: name a file" in said.err


def test_a_copy_at_a_path_that_is_not_utf_8_is_refused_before_it_begins(cli: Cli, filled: Lake) -> None:
    said = cli("snapshot", filled.file, filled.file.parent / "x\udcff")
    assert said.status == 2
    assert "not UTF-8\n    fix: name another folder" in said.err
    assert not (filled.file.parent / "x\udcff").exists()


def test_a_transcript_whose_name_is_not_utf_8_is_shown_with_escapes(cli: Cli, tmp_path: Path) -> None:
    said = cli("test", tmp_path / "x\udcff.yaml")
    assert (said.status, "x\\udcff" in said.out) == (2, True)
