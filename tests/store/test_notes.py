"""Notes in a store: those of earlier versions are read, and damaged ones are none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from latecomer.config.sinks import Stream
from latecomer.engine.upkeep.compacting import UpkeepNote
from latecomer.sink.status import Note
from latecomer.spark.base import TaskTotals
from latecomer.spark.noted import NotedWork
from latecomer.store.notes import read_note, write_note

SINK = (
    '[{"output": "totals", "sink": "sqlite", "target": "a.db", "reached": 3, '
    '"since": "2026-04-25T12:00:00+00:00", "reason": "the disk is full"}]'
)
DOWN = Note("totals", "sqlite", "a.db", 3, datetime(2026, 4, 25, 12, tzinfo=UTC), "the disk is full")
WORK = '{"jobs": 1, "tasks": 2, "seconds": 1, "rows": 3}'


@pytest.mark.parametrize(
    ("written", "kind", "read"),
    [
        (SINK, list[Note], [DOWN]),
        (
            f'{{"runs": 2, "work": {WORK}, "last": {WORK}}}',
            NotedWork,
            NotedWork(2, TaskTotals(1, 2, 1.0, 3), TaskTotals(1, 2, 1.0, 3)),
        ),
        ('{"at": 1777118400.5, "done": true}', UpkeepNote, UpkeepNote(1_777_118_400.5, done=True)),
    ],
)
def test_a_note_of_an_earlier_version_is_read_and_written_again(
    tmp_path: Path, written: str, kind: type[object], read: object
) -> None:
    file = tmp_path / "note.json"
    file.write_text(written, encoding="utf-8")
    assert read_note(file, kind) == read
    write_note(file, read, kind)
    assert read_note(file, kind) == read


@pytest.mark.parametrize(
    "damage", ["", "[", "[" * 100_000, "null", '{"at": "noon", "done": true}', '{"at": 1}', "\0"]
)
def test_a_damaged_note_is_none(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "note.json"
    assert read_note(file, UpkeepNote) is None
    file.write_text(damage, encoding="utf-8")
    assert read_note(file, UpkeepNote) is None


def test_the_stream_of_a_sink_was_not_always_noted() -> None:
    assert DOWN.stream is Stream.PANES


def test_a_name_that_is_not_utf_8_is_noted_with_question_marks(tmp_path: Path) -> None:
    write_note(tmp_path / "note.json", [Note("totals", "sqlite", "/data/\udcff.db", 3)], list[Note])
    assert read_note(tmp_path / "note.json", list[Note]) == [Note("totals", "sqlite", "/data/?.db", 3)]
