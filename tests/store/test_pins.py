"""`pipeline.json`, where it cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import StoreMismatch
from latecomer.store import files
from latecomer.store.migrations import FORMAT
from latecomer.store.pins import PINS, read_pins
from latecomer.store.state_types import NARROW


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


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"columns": {"a": "LONG"}}, ": columns.a ('LONG') is not what latecomer writes"),
        ({"sources": {"s": {"a": 7}}}, ": sources.s.a is not what latecomer writes"),
        ({"policies": {"o": [{"policy": {}}]}}, ": policies.o.0.since is not what latecomer writes"),
        ({"outputs": 7}, ": outputs is not what latecomer writes"),
        ({"sums": ...}, " lacks sums"),
        ({"pipeline": ..., "outputs": ...}, " lacks pipeline, outputs"),
    ],
)
def test_what_latecomer_cannot_have_written_is_named(
    tmp_path: Path, written: dict[str, Any], reason: str
) -> None:
    pins = {"pipeline": "p", "outputs": {}, "policies": {}, "columns": {}, "sums": NARROW} | written
    kept = {key: value for key, value in pins.items() if value is not ...}
    (tmp_path / PINS).write_text(json.dumps({"format": FORMAT, **kept}), encoding="utf-8")
    with pytest.raises(StoreMismatch) as refused:
        read_pins(tmp_path)
    assert str(refused.value) == f"store {tmp_path}: {PINS}{reason}; restore it"


@pytest.mark.parametrize("written", [1.0, True, "1", None, FORMAT + 1])
def test_a_format_that_latecomer_does_not_know_is_refused(tmp_path: Path, written: object) -> None:
    pins = {"pipeline": "p", "outputs": {}, "policies": {}, "columns": {}, "sums": NARROW}
    (tmp_path / PINS).write_text(json.dumps({"format": written, **pins}), encoding="utf-8")
    with pytest.raises(StoreMismatch, match=f"has format {written}, and this latecomer knows none beyond"):
        read_pins(tmp_path)
