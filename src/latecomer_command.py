"""The command `latecomer`. It stands outside the package, so that Ctrl-C ends it with 130 also while the package is
imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from latecomer.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)
