"""Spark's checkpoint after a power cut: what can be made good is, and what cannot is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latecomer.errors import StoreError
from latecomer.source.checkpoint import files_of_batch, next_batch, offset_of, repair_found, repair_offsets


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Two batches of a file each: the second was not run to its end."""
    for folder in ("offsets", "commits", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"7d1c"}')
    for number in (0, 1):
        (tmp_path / "offsets" / str(number)).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{number}}}'
        )
        found = {"path": f"file:///in/{number}.json", "timestamp": number, "batchId": number}
        (tmp_path / "sources/0" / str(number)).write_text("v1\n" + json.dumps(found, separators=(",", ":")))
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    return tmp_path


@pytest.mark.parametrize("torn", ["", "{", '{"id"', "[]", '{"other":1}', "\x00" * 12])
def test_torn_metadata_get_another_id(checkpoint: Path, torn: str) -> None:
    (checkpoint / "metadata").write_text(torn)
    (checkpoint / ".metadata.crc").write_text("of what was there")
    repair_found(checkpoint, accepted=0)
    assert len(json.loads((checkpoint / "metadata").read_text())["id"]) == 36
    assert not (checkpoint / ".metadata.crc").exists()


def test_whole_metadata_stay(checkpoint: Path) -> None:
    repair_found(checkpoint, accepted=0)
    assert (checkpoint / "metadata").read_text() == '{"id":"7d1c"}'
    assert [file.path for file in files_of_batch(checkpoint, 1)] == ["file:///in/1.json"]


@pytest.mark.parametrize("torn", ["", "v", "\x00\x00\x00"])
def test_a_batch_that_was_not_accepted_is_found_anew(checkpoint: Path, torn: str) -> None:
    (checkpoint / "offsets" / "1").write_text(torn)
    (checkpoint / "commits" / "0").write_text(torn)
    repair_found(checkpoint, accepted=0)
    assert not (checkpoint / "offsets" / "1").exists()
    assert next_batch(checkpoint) == 0, "Spark hands the first in again, and it is known by its number"


def test_a_batch_that_was_accepted_is_named(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").write_text("")
    with pytest.raises(StoreError, match=r"offsets/1 is incomplete, as after a power cut"):
        repair_found(checkpoint, accepted=1)
    (checkpoint / "offsets" / "1").unlink()
    with pytest.raises(StoreError, match=r"up to 0, and the store has accepted batch 1"):
        repair_offsets(checkpoint, accepted=1)
    with pytest.raises(StoreError, match=r"does not say how far batch 1 of the source goes"):
        offset_of(checkpoint, 1)


def test_files_of_a_batch_that_is_logged_must_be_known(checkpoint: Path) -> None:
    (checkpoint / "sources/0" / "1").unlink()
    with pytest.raises(StoreError, match=r"does not say which files batch 1 of the source has"):
        repair_found(checkpoint, accepted=0, logged=True)
    repair_found(checkpoint, accepted=0)
    assert not (checkpoint / "offsets" / "1").exists()
