"""A store whose results are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from after.reconcile.reconcile_kit import lake_in
from cli.cli_kit import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)
