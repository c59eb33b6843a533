"""The example of a Structured Streaming job with latecomer in it: three new lines, and no tap is lost."""

from __future__ import annotations

import difflib
import json
import os
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import Reader, load_pipeline

EXAMPLE = Path(__file__).parents[2] / "examples" / "structured-streaming"
TAPS = {
    "1": [("1", "14:00:10", "14:00:11", 100), ("2", "14:00:20", "14:00:21", 50)],
    "2": [("3", "14:03:00", "14:03:01", 20)],
    "3": [("4", "14:03:02", "14:03:03", 20)],
    "4": [("5", "14:00:50", "14:03:05", 7)],
}


def changes() -> list[str]:
    """The lines in which the two jobs differ."""
    before, after = (
        (EXAMPLE / name).read_text(encoding="utf-8").splitlines() for name in ("before.py", "after.py")
    )
    return [line for line in difflib.ndiff(before, after) if line[0] in "+-" and line[1:].strip()]


def test_three_lines_are_new_and_the_readme_shows_them() -> None:
    new = [line for line in changes() if line[0] == "+"]
    assert len(new) == 3
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```diff\n")[1].split("```")[0].splitlines()
    assert sorted(line for line in shown if line) == sorted(line[0] + line[2:] for line in changes())


def test_what_spark_drops_is_counted_and_said(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_taps(tmp_path / "taps")
    shutil.copy(EXAMPLE / "shops.yaml", tmp_path)
    monkeypatch.setattr(sys, "argv", ["job", str(tmp_path)])
    runpy.run_path(str(EXAMPLE / "before.py"), run_name="__main__")
    assert [row["paise"] for row in rows(tmp_path / "totals", "*.json")] == [150]
    shutil.rmtree(tmp_path / "totals")
    runpy.run_path(str(EXAMPLE / "after.py"), run_name="__main__")
    pipeline = load_pipeline(tmp_path / "shops.yaml")
    assert [row["paise"] for row in Reader(pipeline).results("totals").to_pylist()] == [157]
    outcome = [(row["op"], int(row["paise"])) for row in rows(tmp_path / "totals", "**/*.jsonl")]
    assert outcome == [("insert", 150), ("retract", 150), ("insert", 157)]


def write_taps(folder: Path) -> None:
    """The files of the README, which are read in the order of their names."""
    folder.mkdir()
    for nth, (name, taps) in enumerate(TAPS.items()):
        lines = [
            {
                "id": each,
                "at": f"2026-11-08T{at}Z",
                "seen": f"2026-11-08T{seen}Z",
                "shop": "tea",
                "paise": paise,
            }
            for each, at, seen, paise in taps
        ]
        file = folder / f"{name}.json"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(file, (nth + 1, nth + 1))


def rows(folder: Path, pattern: str) -> list[dict[str, object]]:
    return [
        json.loads(line) for file in sorted(folder.glob(pattern)) for line in file.read_text().splitlines()
    ]
