from __future__ import annotations

import pytest

from cli.cli_kit import Cli, calling


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call the command line: `cli("check", file)`."""
    return calling(capsys)
