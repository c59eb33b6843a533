"""The pipeline's `columns`: columns of the source under new names, and derived columns, computed from the log.

`columns: {net_amount: "`net amount`"}` gives a column of the source another name; everything else in the pipeline
uses the new name. `columns: {rupees: "paise / 100"}` is an SQL expression that makes a derived column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from latecomer.config.spark_columns import as_sql
from latecomer.model.base import Model
from latecomer.model.predicates import check_fix, is_names_alone, with_names_quoted
from latecomer.model.words import QUOTED, in_backticks, without_backticks

_QUOTED = re.compile(QUOTED)
_PLAIN = re.compile(r"[^\W\d]\w*")
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


class SourceColumn(Model):
    """The column of the source that a new name stands for."""

    name: str

    def __str__(self) -> str:
        return written_column(self.name)


class DerivedColumn(Model):
    """The SQL expression of a derived column."""

    sql: str

    def __str__(self) -> str:
        return self.sql


def written_column(name: str) -> str:
    """A column as SQL writes it: in backticks unless it is a plain word.

    >>> written_column("net_amount"), written_column("net amount")
    ('net_amount', '`net amount`')
    """
    return name if _PLAIN.fullmatch(name) else in_backticks(name)


def parse_column(written: object) -> SourceColumn:
    """Read a column.

    >>> parse_column("`net amount`").name
    'net amount'
    """
    if isinstance(written, SourceColumn):
        return written
    if isinstance(written, str):
        text = written.strip()
        if _QUOTED.fullmatch(text):
            return SourceColumn(name=without_backticks(text))
        if _PLAIN.fullmatch(text) or _PATH.fullmatch(text):
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


def parse_expression(written: object) -> DerivedColumn:
    """Read an expression.

    >>> parse_expression("pricing.base / 100").sql
    '`pricing.base` / 100'
    """
    if isinstance(written, DerivedColumn):
        return written
    written = as_sql(written)
    if not isinstance(written, str):
        raise ValueError('is not an expression; write SQL over the source\'s columns: "paise / 100"')
    check_fix(written, "column")
    return DerivedColumn(sql=with_names_quoted(written.strip()))


def parse_either(written: object) -> SourceColumn | DerivedColumn:
    """Read a column of the source, or an expression.

    >>> type(parse_either("pricing.base")).__name__, type(parse_either("paise / 100")).__name__
    ('SourceColumn', 'DerivedColumn')
    """
    if isinstance(written, SourceColumn | DerivedColumn):
        return written
    written = as_sql(written)
    text = written.strip() if isinstance(written, str) else ""
    is_column = not text or any(rule.fullmatch(text) for rule in (_QUOTED, _PLAIN, _PATH))
    return parse_column(written) if is_column or is_names_alone(text) else parse_expression(written)


WrittenExpression = Annotated[
    DerivedColumn,
    BeforeValidator(parse_expression),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["paise / 100", "hour(at)"]}),
]
WrittenEither = Annotated[
    SourceColumn | DerivedColumn,
    BeforeValidator(parse_either),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["net_amount", "`net amount`", "paise / 100"]}),
]
Derived = Mapping[str, DerivedColumn]


def source_name(column: str, renames: Renames) -> str:
    """The source's name for a column of the pipeline."""
    return renames[column].name if column in renames else column


def seen_columns(columns: Mapping[str, str], renames: Renames) -> dict[str, str]:
    """The source's columns as the pipeline sees them: renamed ones under their new names. A new name for a column that
    the source does not have is left out."""
    names: dict[str, list[str]] = {}
    for new, made_from in renames.items():
        names.setdefault(made_from.name, []).append(new)
    return {name: kind for column, kind in columns.items() for name in names.get(column, [column])}


def fix_by_renaming(column: str, taken: Mapping[str, str] | None = None) -> str:
    """The fix for a column whose name cannot be used: rename it.

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
