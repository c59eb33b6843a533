"""A profile sets what the file does not say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.changed_settings import changed
from latecomer.config.load import parse_pipeline
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.profiles import PROFILES, settings
from latecomer.config.sources import NamedSource
from latecomer.errors import PipelineError
from latecomer.model.sources import BySource
from latecomer.model.strategies import Bounded
from latecomer.model.triggers import Trigger
from latecomer.model.windows import Session

WRITTEN = """\
name: visits
store: ./lake
profile: kafka
source: {files: {path: arrivals}, schema: {at: string, user: string}}
event: {time: at}
watermark: {delay: 30s}
outputs:
  visits:
    window: {session: 10m}
    aggregates: {clicks: count(*)}
  minutes:
    window: {tumbling: 1m}
    aggregates: {clicks: count(*)}
    trigger: {on_time: always}
"""


def pipeline(text: str = WRITTEN) -> Pipeline:
    return parse_pipeline(text, Path("visits.yaml"))


@pytest.mark.parametrize("name", PROFILES)
def test_each_is_what_its_table_says(name: str) -> None:
    found = pipeline(WRITTEN.replace("kafka", name).replace("    trigger: {on_time: always}\n", ""))
    window, trigger = found.outputs["visits"].window, found.outputs["visits"].trigger
    assert isinstance(window, Session)
    said = {"window.touching": window.touching, "window.final": window.final, "trigger.early": trigger.early}
    said |= {"trigger.on_time": trigger.on_time, "watermark.on_idle": found.watermark.on_idle}
    for part, defaults in PROFILES[name].items():
        assert {setting: said[f"{part}.{setting}"] for setting in defaults} == defaults
    assert found.outputs["minutes"].trigger == trigger


def test_what_is_written_goes_first() -> None:
    text = WRITTEN.replace("{session: 10m}", "{session: 10m, touching: separate, final: at_once}")
    found = pipeline(text.replace("delay: 30s", "delay: 30s, on_idle: advance"))
    assert found.outputs["minutes"].trigger == Trigger(early={"count": 1, "per": "batch"}, on_time="always")
    assert found.outputs["visits"].trigger == Trigger(
        early={"count": 1, "per": "batch"}, on_time="if_changed"
    )
    assert found.outputs["visits"].window == Session("10m")
    assert found.watermark == Bounded("30s")


def test_it_holds_for_what_is_made_in_python_too() -> None:
    plain = pipeline(WRITTEN.replace("profile: kafka\n", ""))
    outputs = {
        "visits": Output(window=Session("10m"), aggregates={"clicks": "count(*)"}),
        "minutes": Output(
            window={"tumbling": "1m"}, aggregates={"clicks": "count(*)"}, trigger=Trigger(on_time="always")
        ),
    }
    whole = {**dict(plain), "outputs": outputs, "watermark": Bounded("30s"), "profile": "kafka"}
    made = Pipeline.model_validate(whole)
    assert made.outputs == pipeline().outputs
    assert made.watermark == pipeline().watermark
    assert Pipeline.model_validate(dict(made)) == made


SEVERAL = """\
name: visits
store: ./lake
profile: flink
sources:
  app: {files: {path: app}, schema: {at: string, user: string}, watermark: {delay: 30s}}
  web: {files: {path: web}, schema: {at: string, user: string}, watermark: {delay: 1m}}
event: {time: at}
outputs:
  minutes: {window: {tumbling: 1m}, aggregates: {clicks: count(*)}}
"""


def test_it_holds_for_the_own_watermark_of_each_source() -> None:
    several = pipeline(SEVERAL)
    assert {name: view.watermark.on_idle for name, view in several.views.items()} == {
        "app": "hold",
        "web": "hold",
    }
    assert several.watermark.on_idle == "hold"
    assert Pipeline.model_validate(dict(several)) == several


def test_what_a_source_writes_goes_first() -> None:
    several = pipeline(SEVERAL.replace("delay: 1m", "delay: 1m, on_idle: advance"))
    assert {name: view.watermark.on_idle for name, view in several.views.items()} == {
        "app": "hold",
        "web": "advance",
    }


def test_it_holds_for_a_source_that_is_made_in_python_too() -> None:
    plain = pipeline(SEVERAL.replace("profile: flink\n", ""))
    sources = {
        name: NamedSource(files=source.files, schema=source.columns, watermark=Bounded(delay))
        for (name, source), delay in zip(plain.sources.items(), ("30s", "1m"), strict=True)
    }
    made = Pipeline.model_validate({**dict(plain), "sources": sources, "watermark": None, "profile": "flink"})
    assert isinstance(made.watermark, BySource)
    assert made.watermark.on_idle == "hold"
    assert made.watermark == pipeline(SEVERAL).watermark


def test_a_count_trigger_is_shown_as_it_is_run() -> None:
    assert settings("kafka", sessions=False) == (
        "trigger.early: {count: 1, per: batch}, trigger.on_time: if_changed, watermark.on_idle: hold"
    )


def test_a_changed_pipeline_keeps_what_was_written_against_the_profile() -> None:
    found = changed(pipeline(), {"outputs.minutes.allowed_lateness": "5m"})
    assert found.outputs["minutes"].trigger == pipeline().outputs["minutes"].trigger


def test_one_that_there_is_not() -> None:
    with pytest.raises(PipelineError, match=r"visits.yaml:3: profile: is not one of the choices"):
        pipeline(WRITTEN.replace("kafka", "storm"))
