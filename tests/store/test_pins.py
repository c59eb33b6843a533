"""`pipeline.json`, where it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.errors import StoreMismatch
from latecomer.store import files
from latecomer.store.pins import PINS, read_pins


def test_a_folder_that_may_not_be_entered_says_nothing_of_a_store_to_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "read_text", denied)
    with pytest.raises(StoreMismatch) as refused:
        read_pins(tmp_path)
    assert str(refused.value) == (
        f"store {tmp_path}: {PINS}: permission is denied; give whoever runs latecomer the right to read and write there"
    )


def test_a_damaged_file_is_to_be_restored(tmp_path: Path) -> None:
    (tmp_path / PINS).write_text("{", encoding="utf-8")
    with pytest.raises(StoreMismatch, match=r"pipeline.json cannot be read \(.*\); restore it"):
        read_pins(tmp_path)
