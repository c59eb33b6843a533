"""References to secrets: `${env:NAME}` and `${file:PATH}` in what the pipeline file says of a server.

The pipeline keeps the reference, and so does everything that is written down. What it stands for is read when a
connection is made, and is hidden in every error from then on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from latecomer.errors import Problem
from latecomer.errors.redacting import conceal

_REFERENCE = re.compile(r"\$\{(?:(env|file):)?([^{}]*)\}")


def resolved(written: str, base: Path, encoded: Callable[[str], str] = str) -> str:
    """The text with what its references stand for; `base` is the folder of the pipeline file. `encoded` writes a
    secret as the text around it needs it."""
    return _REFERENCE.sub(lambda found: encoded(conceal(_value(found, base))), written)


def is_reference(written: str) -> bool:
    """Whether the text is a single reference and nothing else.

    >>> is_reference("${env:DATABASE_URL}"), is_reference("postgresql://ana:${env:PASSWORD}@db")
    (True, False)
    """
    return _REFERENCE.fullmatch(written) is not None


def without_references(written: str) -> str:
    """What is there in plain text.

    >>> without_references("host=db password=${env:PASSWORD}")
    'host=db password='
    """
    return _REFERENCE.sub("", written)


def reference_problem(field: str, written: str, base: Path) -> Problem | None:
    """What is wrong with the references of a text, if anything is: that it stands for a secret that is not there."""
    for found in _REFERENCE.finditer(written):
        if found[1] is None:
            return Problem(
                field,
                "a reference says neither env nor file",
                found[0],
                "write ${env:NAME} for a variable of the environment, or ${file:PATH} for the text of a file",
            )
        try:
            value = _value(found, base)
        except KeyError:
            return Problem(
                field, "the environment has no such variable", found[0], f"set {found[2]}, and start again"
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            return Problem(
                field,
                f"the file cannot be read ({reason})",
                found[0],
                "correct the path, or make the file readable",
            )
        if not value:
            return Problem(field, "stands for nothing", found[0], "set it to what should be used")
    return None


def _value(found: re.Match[str], base: Path) -> str:
    if found[1] == "env":
        return os.environ[found[2]]
    return (base / Path(found[2]).expanduser()).read_text(encoding="utf-8").strip("\r\n")
