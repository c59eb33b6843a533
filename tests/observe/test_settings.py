"""`alerts:` in the pipeline file: read, described, and known to editors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cli.cli_kit import Cli
from latecomer import Alerts, PipelineError, load_pipeline
from latecomer.config.jsonschema import pipeline_schema
from shop_kit import FILE


def write(folder: Path, alerts: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(f"{FILE}alerts: {alerts}\n", encoding="utf-8")
    return file


def valid(file: Path) -> bool:
    written: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(pipeline_schema()).is_valid(written)


@pytest.mark.parametrize("alerts", ["{lag: 2m}", "{lag: null}", "{}"])
def test_what_is_taken(tmp_path: Path, alerts: str) -> None:
    file = write(tmp_path, alerts)
    assert load_pipeline(file).alerts == Alerts(lag="2m" if "2m" in alerts else None)
    assert valid(file)


@pytest.mark.parametrize("alerts", ["{lag: soon}", "{lag: 0s}", "{lag: 60}", "{lags: 2m}", "often"])
def test_what_is_refused(tmp_path: Path, alerts: str) -> None:
    file = write(tmp_path, alerts)
    with pytest.raises(PipelineError, match="alerts"):
        load_pipeline(file)
    assert not valid(file)


def test_it_is_said_in_words(tmp_path: Path, cli: Cli) -> None:
    said = cli("validate", write(tmp_path, "{lag: 2m}"))
    assert "alerts     a watermark more than 2m behind the wall clock" in said.out
