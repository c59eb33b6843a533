"""References to secrets: `${env:NAME}` and `${file:PATH}` in the settings of a server.

The pipeline keeps the reference, and so does everything that is stored. The secret is read when a connection is made.
From then on every error hides it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from latecomer.errors import Problem
from latecomer.errors.redacting import conceal
from latecomer.objects.small_files import named_file, small_text

_REFERENCE = re.compile(r"\$\{(?:(env|file):)?([^{}]*)\}")


def resolved(written: str, base: Path, encoded: Callable[[str], str] = str) -> str:
    """The text with its secrets inserted; `base` is the folder of the pipeline file. `encoded` escapes a secret for the
    text around it."""
    return _REFERENCE.sub(lambda reference: encoded(conceal(_value(reference, base))), written)


def is_reference(written: str) -> bool:
    """Whether the text is a single reference and nothing else.

    >>> is_reference("${env:DATABASE_URL}"), is_reference("postgresql://ana:${env:PASSWORD}@db")
    (True, False)
    """
    return _REFERENCE.fullmatch(written) is not None


def without_references(written: str) -> str:
    """The text without its references: what it holds in plain text.

    >>> without_references("host=db password=${env:PASSWORD}")
    'host=db password='
    """
    return _REFERENCE.sub("", written)


def reference_problems(texts: Iterable[tuple[str, str]], base: Path) -> Iterator[Problem]:
    """The first problem with the references in each of some texts, which are given with their fields."""
    found = (_reference_problem(field, written, base) for field, written in texts)
    return (problem for problem in found if problem is not None)


def _reference_problem(field: str, written: str, base: Path) -> Problem | None:
    for reference in _REFERENCE.finditer(written):
        if reference[1] is None:
            return Problem(
                field,
                "a reference says neither env nor file",
                reference[0],
                "write ${env:NAME} for a variable of the environment, or ${file:PATH} for the text of a file",
            )
        try:
            value = _value(reference, base)
        except KeyError:
            fix = f"set {reference[2]}, and start again"
            return Problem(field, "the environment has no such variable", reference[0], fix)
        except OSError as error:
            fix = "correct the path, or make the file readable"
            return Problem(field, f"the file cannot be read ({error.strerror})", reference[0], fix)
        if not value:
            return Problem(field, "stands for nothing", reference[0], "set it to what should be used")
    return None


def _value(reference: re.Match[str], base: Path) -> str:
    if reference[1] == "env":
        return os.environ[reference[2]]
    return small_text(named_file(reference[2], base)).strip("\n")
