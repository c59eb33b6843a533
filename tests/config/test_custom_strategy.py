"""A strategy named in the pipeline file: found, made with its options, or refused with field, value and fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.config.load import parse_pipeline
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError, Problem
from latecomer.model.strategies import Strategy

PIPELINE = """\
name: upi
store: ./lake
source: {files: {path: arrivals}}
event: {time: event_time}
watermark: {WATERMARK}
outputs:
  totals: {window: {tumbling: 1m}, aggregates: {n: count(*)}, allowed_lateness: 5m}
"""
MODULE = """\
from __future__ import annotations
from latecomer import Duration, TickSummary, Strategy
from pydantic import Field
import patience_of_towers

class Patient(Strategy):
    patience: Duration
    share: float = Field(0.5, gt=0)

    def lag(self, state: object, partition: str) -> int:
        return self.patience + patience_of_towers.EXTRA

class Stranger:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the module and one that it imports, forgotten afterwards."""
    (tmp_path / "tower_rules.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "patience_of_towers.py").write_text("EXTRA = 7", encoding="utf-8")
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    assert sys.path == path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def load(folder: Path, watermark: str) -> Pipeline:
    return parse_pipeline(PIPELINE.replace("{WATERMARK}", watermark), folder / "pipeline.yaml")


def refused(folder: Path, watermark: str) -> Problem:
    with pytest.raises(PipelineError) as caught:
        load(folder, watermark)
    (problem,) = caught.value.problems
    assert problem.line == 5
    return problem


def test_a_class_beside_the_pipeline_file_is_found_and_made(folder: Path) -> None:
    written = "{strategy: 'tower_rules:Patient', options: {patience: 30s}, idle_after: 2m, every: event}"
    strategy = load(folder, written).watermark
    assert (type(strategy).__name__, strategy.idle_after, strategy.every) == ("Patient", 120_000_000, "event")
    assert strategy.max_future == 300_000_000
    assert strategy.mark(100_000_000, "") == 100_000_000 - 30_000_007
    assert strategy.keeps == "newest"
    assert load(folder, written).watermark == strategy


def test_a_class_made_in_python_is_taken_as_it_is(folder: Path) -> None:
    class Mine(Strategy):
        pass

    fields = load(folder, "{delay: 1s}")
    assert type(Pipeline(**{**dict(fields), "watermark": Mine()}).watermark) is Mine


@pytest.mark.parametrize(
    ("watermark", "field", "message", "value", "fix"),
    [
        (
            "{strategy: 'tower_rule:Patient'}",
            "watermark.strategy",
            "there is no module tower_rule",
            "tower_rule:Patient",
            "put tower_rule.py beside the pipeline file",
        ),
        (
            "{strategy: 'tower_rules:Patent'}",
            "watermark.strategy",
            "module tower_rules has no class Patent",
            "tower_rules:Patent",
            "did you mean Patient?",
        ),
        (
            "{strategy: 'tower_rules:Stranger'}",
            "watermark.strategy",
            "Stranger is not a strategy",
            "tower_rules:Stranger",
            "write class Stranger(latecomer.Strategy):",
        ),
        (
            "{strategy: 'tower_rules:Patient', options: {patience: soon}}",
            "watermark.options.patience",
            "not a duration",
            "soon",
            "write a number and a unit",
        ),
        (
            "{strategy: 'tower_rules:Patient', options: {patience: 1s, tempo: 3}}",
            "watermark.options.tempo",
            "unknown key",
            3,
            "the options of Patient are patience, share",
        ),
        (
            "{strategy: 'tower_rules:Patient'}",
            "watermark.options.patience",
            "is missing",
            None,
            "add it to options: of Patient",
        ),
        (
            "{strategy: 'tower_rules:Patient', patience: 1s}",
            "watermark.patience",
            "unknown key",
            "1s",
            "the keys here are",
        ),
    ],
)
def test_what_cannot_be_made_is_told(
    folder: Path, watermark: str, field: str, message: str, value: object, fix: str
) -> None:
    problem = refused(folder, watermark)
    assert (problem.field, problem.message, problem.value) == (field, message, value)
    assert fix in str(problem.fix)


def test_a_module_that_fails_is_told_with_its_reason(folder: Path) -> None:
    (folder / "broken_rules.py").write_text("1 / 0", encoding="utf-8")
    problem = refused(folder, "{strategy: 'broken_rules:Any'}")
    assert "module broken_rules cannot be loaded: ZeroDivisionError" in problem.message
    (folder / "lacking_rules.py").write_text("import no_such_thing", encoding="utf-8")
    assert "No module named 'no_such_thing'" in refused(folder, "{strategy: 'lacking_rules:Any'}").message


def test_a_module_of_the_same_name_that_is_loaded_already_is_not_taken_for_it(folder: Path) -> None:
    (folder / "json.py").write_text("class Any: pass", encoding="utf-8")
    problem = refused(folder, "{strategy: 'json:Any'}")
    assert problem.message.startswith("another module json is loaded already")
    assert problem.fix == "rename json.py"


def test_lateness_is_checked_against_idleness_whatever_the_strategy(folder: Path) -> None:
    for named in ("strategy: 'tower_rules:Patient', options: {patience: 1s}", "strategy: adaptive"):
        text = PIPELINE.replace("{WATERMARK}", f"{{{named}, idle_after: 10m}}")
        text = text.replace("lateness: 5m", "lateness: 5m, late: update, too_late: drop")
        with pytest.raises(PipelineError, match="is shorter than watermark"):
            parse_pipeline(text, folder / "pipeline.yaml")
