"""A store that never began a batch can be deleted. Its sources may have other names in the file by now."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.store.answers import SourceAnswer, SourceAnswers
from latecomer.store.definitions import fix_if_unread
from latecomer.store.source_files import Found, FoundLog
from latecomer.store.source_turns import Turn, take_turn
from latecomer.store.store import home_of


def test_a_store_that_only_has_its_pins_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text("{}")
    assert fix_if_unread(tmp_path) == f"delete the store at {tmp_path} and run again: no batch was read yet"


@pytest.mark.parametrize("source", ["", "near", "far"])
@pytest.mark.parametrize("kind", ["files", "answers"])
def test_a_batch_of_any_source_was_begun(tmp_path: Path, source: str, kind: str) -> None:
    home = home_of(tmp_path, source)
    if kind == "files":
        found = FoundLog(home)
        found.open(-1, logged=False)
        assert fix_if_unread(tmp_path) is not None
        found.write([Found("/a.json", 1)], size=1)
    else:
        SourceAnswers(home).write(0, SourceAnswer(None, {"0": 7}))
    take_turn(tmp_path, Turn("near"))
    assert fix_if_unread(tmp_path) is None
