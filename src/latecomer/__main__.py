"""The command `latecomer`; `python -m latecomer` is the same, where its script is not on the PATH."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C ends it with 130, also while the command line itself is imported."""
    try:
        from latecomer.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
