from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sink_kit import Place, rows_of_delta, rows_of_sqlite


@pytest.fixture(params=["delta", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each sink that upserts."""
    if request.param == "delta":
        return Place("delta", tmp_path / "totals", rows_of_delta)
    return Place("sqlite", tmp_path / "results.db", rows_of_sqlite)
