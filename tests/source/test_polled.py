"""Asking a source how far it reaches: what is written down, what is handed out, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from latecomer.config.models import Pipeline
from latecomer.config.user_classes import PolledSource
from latecomer.errors import SourceOutage, StoreError
from latecomer.source.polled import Polled
from latecomer.store.answers import SourceAnswers


class Growing(PolledSource):
    """Has one row more whenever it is asked; it answers with ten more at most."""

    rows: ClassVar[int] = 0
    down: ClassVar[bool] = False
    gone: ClassVar[int] = 0

    def latest(self, since: Any) -> Any:
        if Growing.down:
            raise OSError("nobody there")
        Growing.rows += 1
        return {"to": min(Growing.rows, (since or {"to": 0})["to"] + 10), "end": Growing.rows}

    def unread(self, until: Any) -> int:
        return int(until["end"] - until["to"])

    def remaining(self, until: Any) -> Any:
        return {**until, "gone": Growing.gone} if Growing.gone else until


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Polled:
    monkeypatch.setattr(Growing, "rows", 35)
    pipeline = Pipeline.model_validate(
        {
            "name": "sales",
            "store": str(tmp_path),
            "source": {"own": Growing(), "schema": {"at": "string"}},
            "event": {"time": "at"},
            "watermark": {"delay": "1m"},
            "outputs": {"days": {"window": {"tumbling": "1d"}, "aggregates": {"sales": "count(*)"}}},
        }
    )
    return Polled(pipeline, {"at": "string"}, Growing())


def bounds(source: Polled, root: Path, number: int) -> tuple[int, int] | None:
    slice_ = source.slice_of(root, number)
    return slice_ and (slice_.since["to"] if slice_.since else 0, slice_.until["to"])


def test_a_bounded_run_ends_although_the_source_grows(source: Polled, tmp_path: Path) -> None:
    source.find_all(tmp_path)
    found = [bounds(source, tmp_path, number) for number in range(5)]
    assert found == [(0, 10), (10, 20), (20, 30), (30, 39), None]


def test_answers_do_not_pile_up(source: Polled, tmp_path: Path) -> None:
    for number in range(50):
        slice_ = source.next_slice(tmp_path, number)
        assert slice_ is not None
        assert bounds(source, tmp_path, number) == (slice_.since["to"] if number else 0, slice_.until["to"])
    assert len(list((tmp_path / "offsets").iterdir())) == 2
    source.resume(tmp_path, accepted=49, logged=False)
    assert SourceAnswers(tmp_path).last() == 49


def test_a_source_that_cannot_be_asked_says_so(
    source: Polled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Growing, "down", True)
    with pytest.raises(SourceOutage, match="nobody there"):
        source.next_slice(tmp_path, 0)
    with pytest.raises(SourceOutage, match="nobody there"):
        source.find_all(tmp_path)
    monkeypatch.setattr(Growing, "down", False)
    assert source.next_slice(tmp_path, 0) is not None


def test_what_has_gone_since_an_answer_is_written_into_it(
    source: Polled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.find_all(tmp_path)
    monkeypatch.setattr(Growing, "gone", 3)
    source.slice_of(tmp_path, 1)
    said = [SourceAnswers(tmp_path).read(number) for number in (0, 1)]
    assert [answer and answer.until.get("gone") for answer in said] == [None, 3]


@pytest.mark.parametrize(
    ("accepted", "logged"),
    [(4, False), (3, True), (7, False)],
    ids=["behind", "half logged", "of another store"],
)
def test_answers_of_another_moment_are_refused(
    source: Polled, tmp_path: Path, accepted: int, logged: bool
) -> None:
    source.find_all(tmp_path)
    source.resume(tmp_path, accepted=3, logged=False)
    with pytest.raises(StoreError, match=r"ends with answer 3, and batch \d of it was read already"):
        source.resume(tmp_path, accepted, logged)


def test_a_missing_answer_is_refused(source: Polled, tmp_path: Path) -> None:
    source.find_all(tmp_path)
    (tmp_path / "offsets" / "000000000002.json").unlink()
    with pytest.raises(StoreError, match="was read already"):
        source.resume(tmp_path, accepted=2, logged=False)
