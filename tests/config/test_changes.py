"""Other settings for a replay: what gives way, what follows, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.config.changed_settings import changed
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sinks import JsonlSink
from latecomer.config.sources import Files, Source
from latecomer.errors import PipelineError
from latecomer.model.panes import Accumulation
from latecomer.model.strategies import Ascending, Bounded, Percentile, Strategy
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.windows import Sliding, Tumbling


def pipeline(watermark: Strategy | None = None, **output: Any) -> Pipeline:
    fields: dict[str, Any] = {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}
    return Pipeline(
        name="p",
        store="lake",
        source=Source(files=Files(path="in"), columns={"at": "timestamp", "key": "string"}),
        event=Event(time="at"),
        watermark=watermark or Bounded("30s", idle_after="2m", max_future="1h"),
        outputs={"out": Output(**{**fields, **output}), "other": Output(**fields)},
    )


def output_with(base: Pipeline, changes: dict[str, object]) -> Output:
    return changed(base, {f"outputs.out.{field}": value for field, value in changes.items()}).outputs["out"]


def test_one_field_changes_and_the_rest_stays() -> None:
    base = pipeline(by=("key",))
    supposed = changed(base, {"watermark.delay": "2m", "outputs.out.allowed_lateness": "3m"})
    assert supposed.watermark == Bounded("2m", idle_after="2m", max_future="1h")
    assert supposed.outputs["out"] == base.outputs["out"].model_copy(update={"allowed_lateness": 180_000_000})
    assert supposed.outputs["other"] == base.outputs["other"]
    assert supposed.store_path == base.store_path


def test_a_replay_has_no_sinks_and_what_they_cannot_take_does_not_matter() -> None:
    base = pipeline(late="side_output", sinks=(JsonlSink(path="changes"),), late_to=(JsonlSink(path="late"),))
    base = base.model_copy(update={"dead_letters_to": (JsonlSink(path="dead"),)})
    assert list(changed(base, {}).listed_sinks()) == []
    assert list(changed(base, {"outputs.out.allowed_lateness": "3m"}).listed_sinks()) == []
    assert output_with(base, {"late": "update", "allowed_lateness": "3m"}).sinks == ()


def test_what_follows_from_late_follows_the_new_one() -> None:
    found = output_with(pipeline(late="drop"), {"late": "retract", "allowed_lateness": "3m"})
    assert (found.too_late, found.accumulation) == (TooLatePolicy.SIDE_OUTPUT, Accumulation.RETRACTING)
    found = output_with(pipeline(late="retract", allowed_lateness="3m", too_late="drop"), {"late": "update"})
    assert (found.too_late, found.accumulation) == (TooLatePolicy.DROP, Accumulation.ACCUMULATING)
    assert found.late is LatePolicy.UPDATE


def test_another_kind_of_window_or_trigger_takes_the_place_of_the_old() -> None:
    sliding = pipeline(window={"sliding": "5m", "every": "1m"}, trigger={"early": "1m", "late": "every 30s"})
    assert output_with(sliding, {"window.tumbling": "5m"}).window == Tumbling("5m")
    assert output_with(sliding, {"window.sliding": "10m"}).window == Sliding("10m", every="1m")
    found = output_with(sliding, {"trigger.early.count": 3, "trigger.late.count": 5}).trigger
    assert (found.early, found.late) == (Count(3), Count(5))
    found = output_with(sliding, {"trigger.early": None, "trigger.late.every": "1m"}).trigger
    assert (found.early, found.late) == (None, Every("1m"))
    tumbling = pipeline()
    changes: dict[str, object] = {"window.every": "1m", "window.sliding": "5m"}
    assert output_with(tumbling, changes).window == Sliding("5m", every="1m")


def test_another_strategy_keeps_what_it_knows() -> None:
    shared = {"idle_after": "2m", "max_future": "1h"}
    base = pipeline()
    assert changed(base, {"watermark.strategy": "ascending"}).watermark == Ascending(**shared)
    found = changed(base, {"watermark.strategy": "percentile", "watermark.p": 0.9}).watermark
    assert found == Percentile(0.9, delay="30s", **shared)
    assert changed(base, {"watermark": Bounded("1m", max_future="1h")}).watermark.idle_after is None


def test_an_unsafe_combination_is_refused_as_in_the_file() -> None:
    with pytest.raises(PipelineError, match="returns from silence"):
        output_with(pipeline(), {"late": "update", "too_late": "drop", "allowed_lateness": "1m"})


def test_a_field_that_needs_another_is_told_by_name() -> None:
    with pytest.raises(PipelineError) as outcome:
        changed(pipeline(), {"watermark.strategy": "percentile", "watermark.of": 3})
    assert [problem.field for problem in outcome.value.problems] == ["watermark.of"]
    assert outcome.value.problems[0].file == "changes"
    assert outcome.value.problems[0].line is None
