"""Columns as the pipeline names them: the source's own, or renamed on the way in.

`columns: {net_amount: "`net amount`"}` gives a column of the source another name. What stands on the right is
the beginning of an SQL expression over the source's columns: today a single column, in backticks where its
name is no plain word. Everything else in the pipeline knows the new name alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from latecomer.model.base import Model

_QUOTED = re.compile(r"`((?:[^`]|``)+)`", re.DOTALL)
_PLAIN = re.compile(r"[^\W\d]\w*")


class SourceColumn(Model):
    """What a renamed column is made from."""

    name: str

    def __str__(self) -> str:
        return written_column(self.name)


def written_column(name: str) -> str:
    """A column as SQL has it: in backticks where it is no plain word.

    >>> written_column("net_amount"), written_column("net amount")
    ('net_amount', '`net amount`')
    """
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def parse_column(written: object) -> SourceColumn:
    """Read a column.

    >>> parse_column("`net amount`").name
    'net amount'
    """
    if isinstance(written, SourceColumn):
        return written
    if isinstance(written, str):
        text = written.strip()
        if quoted := _QUOTED.fullmatch(text):
            return SourceColumn(name=quoted[1].replace("``", "`"))
        if _PLAIN.fullmatch(text):
            return SourceColumn(name=text)
        if "`" not in text and text:
            raise ValueError(
                f'is not a column; write its name, in backticks where it is no plain word: "{written_column(text)}"'
            )
    raise ValueError(
        'is not a column; write its name, in backticks where it is no plain word: "`net amount`"'
    )


WrittenColumn = Annotated[
    SourceColumn,
    BeforeValidator(parse_column),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["net_amount", "`net amount`"]}),
]
Renames = Mapping[str, SourceColumn]


def source_name(column: str, renames: Renames) -> str:
    """What the source calls a column of the pipeline."""
    return renames[column].name if column in renames else column


def seen_columns(columns: Mapping[str, str], renames: Renames) -> dict[str, str]:
    """The columns that the pipeline sees, from those that the source has: each once, the renamed ones under
    their new names. A name for a column that the source does not have is left out."""
    names: dict[str, list[str]] = {}
    for new, made_from in renames.items():
        names.setdefault(made_from.name, []).append(new)
    return {name: kind for column, kind in columns.items() for name in names.get(column, [column])}


def fix_by_renaming(column: str, taken: Mapping[str, str] | None = None) -> str:
    """How to rename a column whose name cannot be used.

    >>> fix_by_renaming("net amount")
    'rename it on the way in: columns: {net_amount: "`net amount`"}'
    """
    new = re.sub(r"\W+", "_", column).strip("_").removeprefix("_lc_")[:60] or "column"
    new = f"c_{new}" if new[0].isdigit() else new
    known = {name.lower() for name in (*(taken or ()), column)}
    while new.lower() in known:
        new += "_"
    quoted = written_column(column).replace("\\", "\\\\").replace('"', '\\"')
    quoted = quoted.replace("\n", "\\n").replace("\t", "\\t")
    return f'rename it on the way in: columns: {{{new}: "{quoted}"}}'
