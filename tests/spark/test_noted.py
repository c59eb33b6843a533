"""What Spark has done is noted for people: a note that nobody can read stops nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latecomer.spark.base import TaskTotals
from latecomer.spark.noted import WORK, NotedWork, WorkNotes, noted_work
from latecomer.store.pins import PINS

DONE = {"jobs": 1, "tasks": 2, "seconds": 0.5, "rows": 3}


@pytest.mark.parametrize("planted", [{**DONE, "jobs": "many"}, {**DONE, "rows": None}, [], "1"])
def test_a_note_that_is_none_of_ours_counts_for_nothing(tmp_path: Path, planted: object) -> None:
    (tmp_path / PINS).write_text("{}")
    (tmp_path / WORK).write_text(json.dumps({"runs": 1, "work": planted, "last": DONE}))
    assert noted_work(tmp_path) == NotedWork()
    WorkNotes(tmp_path, TaskTotals(1, 1, 0.5, 1)).write()
    assert noted_work(tmp_path) == NotedWork(1, TaskTotals(1, 1, 0.5, 1), TaskTotals(1, 1, 0.5, 1))
