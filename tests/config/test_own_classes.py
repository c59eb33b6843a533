"""User-defined sources, decoders and sinks that lack a method: refused when the pipeline file is loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.config.load import parse_pipeline
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError

PIPELINE = """\
name: upi
store: ./lake
source: SOURCE
event: {time: at}
watermark: {delay: 30s}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {n: count(*)}
    sinks: [SINK]
"""
SOURCE, SINK = "{files: {path: in}, schema: {at: string}}", "{sqlite: results.db}"
MODULE = """\
import latecomer

class Halves(latecomer.Sink):
    target: str

class Lines(latecomer.Decoder):
    pass

class Outbox(latecomer.PolledSource):
    def latest(self, since):
        return 1

class Whole(latecomer.Sink):
    target: str

    def logic(self, pipeline, shape):
        return None

class Inherited(Whole):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "half_written.py").write_text(MODULE, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("half_written", None)


def load(folder: Path, source: str = SOURCE, sink: str = SINK) -> Pipeline:
    text = PIPELINE.replace("SOURCE", source).replace("SINK", sink)
    return parse_pipeline(text, folder / "pipeline.yaml")


@pytest.mark.parametrize(
    ("written", "place", "message", "fix"),
    [
        (
            {"sink": "{half_written:Halves: x}"},
            "10: outputs.totals.sinks[0]",
            "half_written:Halves has no logic()",
            "write def logic(self, pipeline, shape):",
        ),
        (
            {"source": "{files: {path: in, format: half_written:Lines}, schema: {at: string}}"},
            "3: source.files.format",
            "half_written:Lines has no decode()",
            "write def decode(self, record, columns):",
        ),
        (
            {"source": "{half_written:Outbox: {}, schema: {at: string}}"},
            "3: source.half_written:Outbox",
            "half_written:Outbox has no read()",
            "write def read(self, spark, since, until):",
        ),
    ],
)
def test_a_class_that_lacks_a_method_is_refused_with_its_place(
    folder: Path, written: dict[str, str], place: str, message: str, fix: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        load(folder, **written)
    (problem,) = caught.value.problems
    assert f"pipeline.yaml:{place}: {message}" in str(problem)
    assert problem.fix == fix


def test_a_method_may_be_inherited(folder: Path) -> None:
    (sink,) = load(folder, sink="{half_written:Inherited: x}").outputs["totals"].sinks
    assert sink.kind == "half_written:Inherited"


def test_a_class_without_the_method_says_what_to_write_when_it_is_called(folder: Path) -> None:
    """A program may make a sink itself, without a pipeline file."""
    load(folder, sink="{half_written:Whole: x}")
    sink = sys.modules["half_written"].Halves(target="x")
    with pytest.raises(
        NotImplementedError, match=r"has no logic\(\); write def logic\(self, pipeline, shape"
    ):
        sink.logic("upi", None)
