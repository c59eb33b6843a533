"""A wrong argument in Python is an error of latecomer's own, whatever is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import latecomer
from latecomer import LatecomerError, Pipeline, PipelineError, Reader, load_pipeline
from shop_kit import shop

RESULTS = {
    "Advice",
    "Applied",
    "BatchReport",
    "Certificate",
    "Checked",
    "Explanation",
    "TickSummary",
    "Nowcast",
    "PaneShape",
    "Rebuild",
    "Reconciliation",
    "Replay",
    "ReplayedLetters",
    "RowShape",
    "Rows",
    "RunReport",
    "SinkLogic",
}
"""What latecomer hands out, and nobody makes."""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return shop(tmp_path)


def public(kind: Callable[[Any], bool]) -> dict[str, Any]:
    found = {name: getattr(latecomer, name) for name in latecomer.__all__ if name not in RESULTS}
    return {name: each for name, each in found.items() if kind(each)}


def is_model(each: Any) -> bool:
    return inspect.isclass(each) and hasattr(each, "model_fields")


@pytest.mark.parametrize("name", sorted(public(is_model)))
def test_a_model_with_a_field_that_is_not_there(name: str) -> None:
    with pytest.raises(PipelineError, match=rf"{name}: nonsense: there is no such field"):
        getattr(latecomer, name)(nonsense=1)


@pytest.mark.parametrize("name", sorted(public(is_model)))
@pytest.mark.parametrize("value", [object(), -1.5, "", ["x"]])
def test_a_model_with_nonsense_in_every_field(name: str, value: object) -> None:
    model = getattr(latecomer, name)
    for field in model.model_fields:
        try:
            model(**{field: value})
        except LatecomerError as error:
            assert isinstance(error, ValueError), "as pydantic's own would be"  # noqa: PT017


@pytest.mark.parametrize("name", sorted(public(is_model)))
def test_a_model_with_values_without_names(name: str) -> None:
    with pytest.raises(PipelineError):
        getattr(latecomer, name)(object(), 1, 2)


@pytest.mark.parametrize(
    ("make", "outcome"),
    [
        (lambda: latecomer.Tumbling("abc"), "Tumbling: tumbling: not a duration (value: 'abc')"),
        (lambda: latecomer.Count(0), "Count: count: is too small (value: 0)"),
        (
            lambda: latecomer.Output(window={"tumbling": "1x"}, aggregates={"n": "count(*)"}),
            "Output: window.tumbling",
        ),
        (lambda: latecomer.Files(pth="in"), "did you mean path?"),
        (lambda: latecomer.Event(), "Event: time: is missing"),
    ],
)
def test_the_error_names_field_value_and_fix(make: Callable[[], object], outcome: str) -> None:
    with pytest.raises(PipelineError) as error:
        make()
    assert outcome in str(error.value)


def handed_in(pipeline: Pipeline) -> Pipeline:
    """The pipeline, over DataFrames."""
    source = latecomer.Source(dataframe=latecomer.Frames())
    return pipeline.model_copy(update={"source": source})


CALLS: dict[str, list[Callable[[Pipeline], object]]] = {
    "Reader": [
        lambda p: Reader(123),  # type: ignore[arg-type]
        lambda p: Reader(p).results("nope"),
        lambda p: Reader(p).results(3),  # type: ignore[arg-type]
        lambda p: Reader(p).results(["totals"]),  # type: ignore[arg-type]
        lambda p: Reader(p).results("totals", as_of="yesterday"),  # type: ignore[arg-type]
        lambda p: Reader(p).results("totals", valid_at=5),  # type: ignore[arg-type]
        lambda p: Reader(p).results("totals", include_open="x"),  # type: ignore[arg-type]
        lambda p: Reader(p).results("totals", as_of=datetime(2026, 1, 1), include_open=True),
        lambda p: Reader(p).panes("totals", window="14:00"),  # type: ignore[arg-type]
        lambda p: Reader(p).panes("totals", key="k=1"),  # type: ignore[arg-type]
        lambda p: Reader(p).panes("totals", key={"k": 1}),  # type: ignore[dict-item]
        lambda p: Reader(p).panes("totals", key={"nope": "1"}),
        lambda p: Reader(p).late(None),  # type: ignore[arg-type]
        lambda p: Reader(p).results("totals"),  # nothing has been run yet
    ],
    "compact": [
        lambda p: latecomer.compact("pipeline.yaml"),  # type: ignore[arg-type]
        lambda p: latecomer.compact(p, keep="soon"),
        lambda p: latecomer.compact(p, keep=7),  # type: ignore[arg-type]
        lambda p: latecomer.compact(p, dry_run="yes"),  # type: ignore[arg-type]
        lambda p: latecomer.compact(p, now="now"),  # type: ignore[arg-type]
    ],
    "load_pipeline": [
        lambda p: load_pipeline(3),  # type: ignore[arg-type]
        lambda p: load_pipeline(None),  # type: ignore[arg-type]
        lambda p: load_pipeline("not/there.yaml"),
        lambda p: load_pipeline(p.base),
    ],
    "replay": [
        lambda p: latecomer.replay("pipeline.yaml"),  # type: ignore[arg-type]
        lambda p: latecomer.replay(p, changes=["watermark.delay"]),  # type: ignore[arg-type]
        lambda p: latecomer.replay(p, changes={"watermark.dely": "2m"}),
        lambda p: latecomer.replay(p, changes={3: "2m"}),  # type: ignore[dict-item]
        lambda p: latecomer.replay(p, outputs="totals"),
        lambda p: latecomer.replay(p, outputs=[3]),  # type: ignore[list-item]
        lambda p: latecomer.replay(p, outputs=["nope"]),
        lambda p: latecomer.replay(p, to=5),  # type: ignore[arg-type]
        lambda p: latecomer.replay(p, one_shot="x"),  # type: ignore[arg-type]
        lambda p: latecomer.replay(p, spark="x"),  # type: ignore[arg-type]
    ],
    "replay_dead_letters": [
        lambda p: latecomer.replay_dead_letters("pipeline.yaml"),  # type: ignore[arg-type]
        lambda p: latecomer.replay_dead_letters(p, where=5),  # type: ignore[arg-type]
        lambda p: latecomer.replay_dead_letters(p, fix="format=x"),  # type: ignore[arg-type]
        lambda p: latecomer.replay_dead_letters(p, fix={3: "x"}),  # type: ignore[dict-item]
        lambda p: latecomer.replay_dead_letters(p, fix={"nope": "x"}),
        lambda p: latecomer.replay_dead_letters(p, fix={"unit": 5}),
        lambda p: latecomer.replay_dead_letters(p, fix={"column:k": None}),
        lambda p: latecomer.replay_dead_letters(p, fix={"text": 5}),
        lambda p: latecomer.replay_dead_letters(p, fix={"text": [5]}),
        lambda p: latecomer.replay_dead_letters(p, fix={"text": "not/there.json"}),
        lambda p: latecomer.replay_dead_letters(p, dry_run="x"),  # type: ignore[arg-type]
        lambda p: latecomer.replay_dead_letters(p, spark="x"),  # type: ignore[arg-type]
        lambda p: latecomer.replay_dead_letters(p),  # nothing has been run
    ],
    "run": [
        lambda p: latecomer.run("pipeline.yaml"),  # type: ignore[arg-type]
        lambda p: latecomer.run(p, once="x"),  # type: ignore[arg-type]
        lambda p: latecomer.run(p, drain=1),  # type: ignore[arg-type]
        lambda p: latecomer.run(p, watch=5),  # type: ignore[arg-type]
        lambda p: latecomer.run(p, stop=True),  # type: ignore[arg-type]
        lambda p: latecomer.run(p, spark=5),  # type: ignore[arg-type]
        lambda p: latecomer.run(p, file=5),  # type: ignore[arg-type]
    ],
    "register": [
        lambda p: latecomer.register(5),  # type: ignore[arg-type]
    ],
    "results": [
        lambda p: latecomer.results(None, p, "one"),  # type: ignore[arg-type]
        lambda p: latecomer.results(None, 5, "one"),  # type: ignore[arg-type]
    ],
    "changes": [
        lambda p: latecomer.changes(None, p, "one"),  # type: ignore[arg-type]
    ],
    "into": [
        lambda p: latecomer.into(5),  # type: ignore[arg-type]
        lambda p: latecomer.into("not/there.yaml"),
        lambda p: latecomer.into(p),  # its source is files
        lambda p: latecomer.into(handed_in(p), source=5),  # type: ignore[arg-type]
        lambda p: latecomer.into(handed_in(p), source="app"),
        lambda p: latecomer.into(handed_in(p), watch=5),  # type: ignore[arg-type]
    ],
    "Into": [
        lambda p: latecomer.into(handed_in(p))(5, 0),  # type: ignore[arg-type]
    ],
    "append": [
        lambda p: latecomer.append(p, 5),  # type: ignore[arg-type]
        lambda p: latecomer.append(handed_in(p), 5),  # type: ignore[arg-type]
        lambda p: latecomer.append(handed_in(p), 5, app="a"),  # type: ignore[arg-type]
    ],
    "sink_status": [
        lambda p: latecomer.sink_status("pipeline.yaml"),  # type: ignore[arg-type]
        lambda p: latecomer.sink_status(p),  # nothing has been run
    ],
    "Needs": [
        lambda p: latecomer.Needs(resolution="x"),  # type: ignore[arg-type]
        lambda p: latecomer.Needs(resolution=0),
        lambda p: latecomer.Needs(where=5),  # type: ignore[arg-type]
        lambda p: latecomer.Needs(marker=5),  # type: ignore[arg-type]
    ],
}


@pytest.mark.parametrize(
    ("name", "nth"), [(name, nth) for name, calls in CALLS.items() for nth in range(len(calls))]
)
def test_a_call_with_a_wrong_argument(name: str, nth: int, pipeline: Pipeline) -> None:
    with pytest.raises(LatecomerError) as error:
        CALLS[name][nth](pipeline)
    assert str(error.value)


def test_every_public_callable_is_tried() -> None:
    def is_error(each: Any) -> bool:
        return inspect.isclass(each) and issubclass(each, Exception)

    others = public(lambda each: callable(each) and not is_model(each) and not is_error(each))
    in_test_api = {name for name, each in others.items() if each.__module__ == "latecomer.api"} - set(CALLS)
    assert set(others) - {"Duration"} - in_test_api == set(CALLS)
