"""What the last batch of several sources was made of: it is read, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.errors import StoreError
from latecomer.store.source_turns import SOURCES, TURN, Turn, TurnPart, take_turn, whose_turn


def test_a_turn_is_read_as_it_was_written(tmp_path: Path) -> None:
    for turn in (Turn("near"), Turn(parts=[TurnPart("near", 1), TurnPart("far", 2, 3, 4)], read_to={})):
        take_turn(tmp_path, turn)
        assert whose_turn(tmp_path) == turn


@pytest.mark.parametrize(
    "planted", ["", "[]", '{"read_to": []}', '{"read_to": {"near": 1}}', '{"parts": 1}', "[" * 100_000]
)
def test_a_turn_that_is_none_of_ours_is_refused(tmp_path: Path, planted: str) -> None:
    (tmp_path / SOURCES).mkdir()
    (tmp_path / SOURCES / TURN).write_text(planted)
    with pytest.raises(StoreError, match=r"sources/turn\.json cannot be read \(.*\), .*; restore it"):
        whose_turn(tmp_path)
