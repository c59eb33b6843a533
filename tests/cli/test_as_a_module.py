"""`python -m latecomer` is the command line, too."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version


def test_it_is_the_command_line() -> None:
    asked = [sys.executable, "-m", "latecomer", "--version"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert ended.stdout == f"latecomer {version('latecomer')}\n"
