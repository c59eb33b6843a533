"""`validate` and secrets: those in plain text are warned of and hidden, references must lead to one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.cli_kit import Cli

WITH_POSTGRES = """
name: upi
store: ./lake
source: {files: {path: in, order_by: at}, schema: {at: string, paise: bigint}}
event: {time: at}
watermark: {delay: 30s}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise)}
    sinks:
      - postgres: TARGET
"""


def with_target(folder: Path, target: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(WITH_POSTGRES.replace("TARGET", target), encoding="utf-8")
    (folder / "in").mkdir(exist_ok=True)
    return file


@pytest.mark.parametrize(
    "target",
    [
        "postgresql://ana:hunter2@db/books",
        "host=db password=hunter2",
        "host=db password='hunter2'",
        "postgresql://ana@db/books?password=hunter2",
    ],
)
def test_a_password_in_plain_text_is_warned_of_and_hidden(tmp_path: Path, cli: Cli, target: str) -> None:
    said = cli("validate", with_target(tmp_path, target))
    assert said.status == 0
    assert "12: outputs.totals.sinks[0].target: holds a password in plain text" in said.err
    assert "fix: write ${env:NAME} or ${file:PATH} in its place" in said.err
    assert "written to postgres " in said.out
    assert "hunter2" not in said.out + said.err


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("token", "hunter2", True),
        ("credential", "id:hunter2", True),
        ("s3.secret-access-key", "hunter2", True),
        ("uri", "postgresql+psycopg2://ana:hunter2@db/catalog", True),
        ("s3.secret-access-key", "${env:HOME}", False),
        ("uri", "postgresql+psycopg2://ana:${env:HOME}@db/catalog", False),
        ("uri", "sqlite:////lake/catalog.db", False),
        ("s3.access-key-id", "AKIA", False),
    ],
)
def test_a_secret_of_a_catalog_in_plain_text_is_warned_of_and_hidden(
    tmp_path: Path, cli: Cli, name: str, value: str, is_secret: bool
) -> None:
    options = {"table": "shop.minutes", "catalog": "lake", "properties": {name: value}}
    file = with_target(tmp_path, "host=db")
    text = file.read_text("utf-8").replace("postgres: host=db", f"iceberg: {json.dumps(options)}")
    file.write_text(text, encoding="utf-8")
    said = cli("validate", file)
    assert said.status == 0, said.err
    assert (f"sinks[0].properties.{name}: holds a secret in plain text" in said.err) is is_secret
    assert "written to iceberg lake.shop.minutes" in said.out
    assert "hunter2" not in said.out + said.err


@pytest.mark.parametrize(
    "target",
    [
        "postgresql://ana:${env:PATH}@db/books",
        "host=db password=${env:PATH}",
        "${env:PATH}",
        "postgresql://ana@db/b",
    ],
)
def test_a_reference_to_a_secret_is_fine(tmp_path: Path, cli: Cli, target: str) -> None:
    said = cli("validate", with_target(tmp_path, target))
    assert (said.status, said.err) == (0, "")
    assert os.environ["PATH"] not in said.out


def test_a_reference_to_nothing_is_told_with_its_line(tmp_path: Path, cli: Cli) -> None:
    file = with_target(tmp_path, "postgresql://ana:${env:NO_SUCH_SECRET}@db/books")
    said = cli("validate", file)
    assert said.status == 2
    assert f"{file}:12: outputs.totals.sinks[0].target: the environment has no such variable" in said.err
    assert "fix: set NO_SUCH_SECRET, and start again" in said.err
    # What only reads the store does not ask for it.
    assert "NO_SUCH_SECRET" not in cli("results", file, "totals").err
