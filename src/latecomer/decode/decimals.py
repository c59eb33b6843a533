"""Decimals in text files: read as text, looked at, and only then cast.

Spark's readers write a number out before they see whether it fits, and `1e3000000` takes them seconds. What
`model/written_numbers.py` does not take never reaches a cast: it is a misfit, and its row a dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.model import types
from latecomer.model.written_numbers import LONGEST, PATTERN
from latecomer.store.sql import quoted

_E = r"(?:[eE]|\\u00[46]5)"
STALLS = (
    rf'(?:[:\["\s][+-]?|,[+-]|(?<![0-9.,])[0-9.]*+,)[0-9.,]++{_E}[+-]?[0-9][0-9,]{{2,}}[0-9]\s*[,\]}}"]'
    rf"|(?<![0-9,])[0-9,]{{{LONGEST + 1}}}"
)
"""In a line of JSON: a number, or a text that is nothing else, with an exponent of more than three digits; or one that
is too long. The `e` may be written as an escape. Digits are looked at from where they begin, and once: a long line of
them takes no longer than any other."""


def decimals_as_text(columns: Mapping[str, str]) -> dict[str, str]:
    """The columns as a text file is read: decimals are text at first."""
    return {name: "string" if types.is_decimal(kind) else kind for name, kind in columns.items()}


def number(text: str, kind: str) -> str:
    """The number that a text means, in SQL; null where a column of this type does not take it."""
    written = f"octet_length({text}) <= {LONGEST} and {text} rlike '^{PATTERN}$'"
    return f"case when {written} then try_cast(replace({text}, ',', '') as {kind}) end"


def numbers(columns: Mapping[str, str], within: str = "") -> dict[str, str]:
    """The decimal columns and the SQL of their numbers; `within` is the struct that has the texts."""
    return {
        name: number(within + quoted(name), kind) for name, kind in columns.items() if types.is_decimal(kind)
    }


def misfits(columns: Mapping[str, str], within: str = "") -> str:
    """Whether a row has a text that its decimal column does not take, in SQL."""
    wrong = [
        f"({within + quoted(name)} is not null and ({sql}) is null)"
        for name, sql in numbers(columns, within).items()
    ]
    return " or ".join(wrong) or "false"
