"""docs/tutorial.md: every command runs as it stands there, and prints what stands there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.cli_kit import calling
from documents.tutorial_kit import commands, matches

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_says_what_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where Spark is there already; the shell has the rest."""
    monkeypatch.chdir(tmp_path)
    call = calling(capsys)
    ran = []
    for command in commands(PAGE.read_text(encoding="utf-8")):
        if command.text.startswith("latecomer "):
            said = call(*shlex.split(command.text)[1:])
            assert said.status == 0, f"{command.text}: {said.err}"
            assert matches(command.expected, said.out), f"{command.text} prints\n{said.out}"
            ran.append(command.text.split()[1])
        else:
            subprocess.run(["bash", "-euc", command.text], check=True, cwd=tmp_path)
    assert ran.count("run") == 2
    assert {"validate", "results", "late", "dead-letters", "explain", "ledger"} <= set(ran)
    drawn = (tmp_path / "tea.svg").read_text(encoding="utf-8")
    assert drawn == (PAGE.parent / "pictures" / "updated.svg").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_tutorial_runs_in_a_shell(tmp_path: Path) -> None:
    """As a reader runs it: each command a process, Spark started anew."""
    home = tmp_path / "bin"
    home.mkdir()
    (home / "latecomer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latecomer "$@"\n')
    (home / "latecomer").chmod(0o755)
    settings = os.environ | {"PATH": f"{home}{os.pathsep}{os.environ['PATH']}"}
    for command in commands(PAGE.read_text(encoding="utf-8")):
        ended = subprocess.run(
            ["bash", "-euc", command.text],
            cwd=tmp_path,
            env=settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{command.text}: {ended.stderr}"
        assert matches(command.expected, ended.stdout), f"{command.text} prints\n{ended.stdout}"
