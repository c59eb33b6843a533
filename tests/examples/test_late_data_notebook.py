"""The example notebook, cell by cell: what the last line of each shows."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "late-data.ipynb"


def shown(cell: dict[str, Any], names: dict[str, Any]) -> object:
    """Run a cell; gives the value of its last line, if that is an expression."""
    parts = ast.parse("".join(cell["source"])).body
    last = parts.pop() if isinstance(parts[-1], ast.Expr) else None
    exec(compile(ast.Module(parts, []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names) if last else None


def test_the_notebook_runs_and_shows_progress_and_the_correction(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = [each for each in json.loads(NOTEBOOK.read_text())["cells"] if each["cell_type"] == "code"]
    try:
        values = [shown(cell, names) for cell in cells]
    finally:
        names["query"].stop()
        names["sink"].close()
    pages = [each._repr_html_() for each in values if hasattr(each, "_repr_html_")]  # type: ignore[attr-defined]
    before, standing, late, panes, explained = pages
    assert before.startswith("<div>batch 2: 1 row in ")
    assert "watermark 2026-11-08T14:02:" in before
    assert "150" in standing
    assert late.startswith("<div>batch 3: 1 row in ")
    assert "1 late accepted" in late
    assert panes.count("150") == 2
    assert "157" in panes
    assert "157" in explained
    assert not any(cell["outputs"] for cell in cells), "clear the outputs: they are of one machine"
