"""The receivers of a process: which stand, and which are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import latecomer
from frames.frames_kit import write_pipeline
from latecomer import frames
from latecomer.config.models import Pipeline

SESSION: Any = SimpleNamespace(sparkContext=object())
QUERY: Any = SimpleNamespace(id="run", queries=SimpleNamespace(addListener=print, removeListener=print))


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    def fails(*_: object, **__: object) -> NoReturn:
        raise latecomer.StoreInUse("another run has the store")

    monkeypatch.setattr(frames, "opened", fails)
    yield latecomer.load_pipeline(write_pipeline(tmp_path))
    frames._OPEN.clear()


def test_one_that_cannot_be_opened_is_forgotten(pipeline: Pipeline) -> None:
    receiver = frames._receiver(pipeline, None, SESSION)
    with pytest.raises(latecomer.StoreInUse):
        receiver.finish(drain=False)
    assert not frames._OPEN
    assert frames._receiver(pipeline, None, SESSION) is not receiver


def test_one_that_a_query_follows_stands_until_the_query_ends(pipeline: Pipeline) -> None:
    receiver = frames._receiver(pipeline, None, SESSION)
    receiver.listen(QUERY)
    with pytest.raises(latecomer.StoreInUse):
        receiver.finish(drain=False)
    assert frames._receiver(pipeline, None, SESSION) is receiver
    receiver.ended(QUERY)
    assert not frames._OPEN


def test_a_corrected_pipeline_gets_a_receiver_of_its_own(pipeline: Pipeline) -> None:
    frames._receiver(pipeline, None, SESSION).listen(QUERY)
    corrected = pipeline.model_copy(update={"name": "corrected"})
    assert frames._receiver(corrected, None, SESSION).pipeline is corrected
