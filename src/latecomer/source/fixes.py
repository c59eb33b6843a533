"""Fixes that turn dead letters into events: checked wherever they come from, and applied by Spark.

An expression sees every column of a record as text, because the record may be a dead letter for a value that does not
have the type of its column. The result of an expression is cast to the type of the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.models import Pipeline
from latecomer.config.sources import Unit
from latecomer.errors import PipelineError, Problem, StoreMismatch, did_you_mean
from latecomer.model.predicates import check_fix, check_where, column_mistake, with_names_quoted
from latecomer.model.types import is_decimal, is_nested
from latecomer.model.written_numbers import LONGEST, PATTERN, POINT, Signs
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.spark.errors import first_line
from latecomer.spark.predicates import may_change
from latecomer.spark.session import no_rows
from latecomer.store.sql import ddl, quoted

UNITS: tuple[Unit, ...] = get_args(Unit)
_IN_MICROS: dict[Unit, str] = {
    "s": "try_multiply({}, 1000000)",
    "ms": "try_multiply({}, 1000)",
    "us": "try_multiply({}, 1)",
    "ns": "try_divide({}, 1000)",
}
"""SQL that makes microseconds of a number."""
_ZONED = re.compile(r"[VzOXxZ]")
_QUOTED = re.compile("'[^']*'")


@dataclass(frozen=True)
class Fix:
    """How the event time is written, and columns that SQL expressions compute."""

    time_format: str | None = None
    """A pattern of Spark's, such as dd/MM/yyyy HH:mm."""
    time_unit: Unit | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", {name: _quoted(sql) for name, sql in self.columns.items()})

    @classmethod
    def restored(cls, written: Mapping[str, Any], pipeline: Pipeline, columns: Mapping[str, str]) -> Fix:
        """A fix from a store, checked like any other: a store may come from elsewhere."""
        try:
            fix = cls(**written)
            mistakes = [*fix.mistakes(pipeline, columns)]
        except (TypeError, AttributeError):
            mistakes = [Problem("fix", "is not what latecomer wrote")]
        if mistakes:
            raise StoreMismatch(
                f"store {pipeline.store_path}: a replay of dead letters that was interrupted has a fix that cannot be "
                f"used: {mistakes[0].field} {mistakes[0].message}; restore the store from a backup"
            )
        return fix

    def written(self) -> dict[str, Any]:
        return asdict(self)

    def mistakes(self, pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
        """What is wrong with it, as far as Spark is not needed to see it."""
        if self.time_unit is not None and self.time_unit not in UNITS:
            yield Problem("unit", "is not a unit of time", self.time_unit, f"write one of {', '.join(UNITS)}")
        if self.time_format is not None and not self.time_format.strip():
            yield Problem(
                "format", "is empty", self.time_format, "write a pattern such as dd/MM/yyyy HH:mm:ss"
            )
        if self.time_format is not None and self.time_unit is not None:
            yield Problem(
                "unit",
                "cannot be beside format: a time is written in one way",
                self.time_unit,
                "leave one of them out, and replay the others with --where",
            )
        for column, expression in self.columns.items():
            if column not in columns:
                yield Problem(f"column:{column}", "is no column", column, did_you_mean(column, columns))
                continue
            if column == pipeline.event.time and (self.time_format or self.time_unit):
                yield Problem(
                    f"column:{column}",
                    "is the event time, and how that is written is given too",
                    expression,
                    "leave one of them out",
                )
            yield from _mistakes(f"column:{column}", expression, columns)

    def check(self, rows: DataFrame, pipeline: Pipeline, columns: Mapping[str, str]) -> None:
        """Refuse what Spark does not understand; `rows` has all columns as text."""
        if self.time_format is not None:
            _require(
                "format",
                self.time_format,
                rows,
                F.try_to_timestamp(F.lit("x"), F.lit(self.time_format)),
                "write a pattern of Spark's, such as dd/MM/yyyy HH:mm:ss",
            )
        for column, expression in self.columns.items():
            fix = f"write an SQL expression over {', '.join(rows.columns)}, each of them text"
            _require(f"column:{column}", expression, rows, F.expr(f"({expression})"), fix)
            if not self._is_moment(column, pipeline, rows):
                made = F.expr(self.value(column, columns[column]))
                _require(f"column:{column}", expression, rows, made, f"make it a {columns[column]}")

    def time(self, pipeline: Pipeline, rows: DataFrame) -> Column:
        """The event time that the fix computes, in microseconds; null where it computes none."""
        column, zone = pipeline.event.time, pipeline.event.zone
        text = F.trim(F.col(quoted(column)))
        if self.time_format is not None:
            moment = F.try_to_timestamp(text, F.lit(self.time_format))
            if not _ZONED.search(_QUOTED.sub("", self.time_format)):
                moment = F.to_utc_timestamp(moment, F.lit(zone))
            return F.unix_micros(moment)
        if self.time_unit is not None:
            written = number(f"trim({quoted(column)})", "decimal(38,9)")
            return F.expr(f"try_cast(floor({_IN_MICROS[self.time_unit].format(written)}) as bigint)")
        expression = self.columns.get(column)
        kind = None if expression is None else _type_of(rows, expression)
        if kind == "timestamp":
            return F.expr(f"unix_micros({expression})")
        if kind in ("timestamp_ntz", "date"):
            return F.expr(f"unix_micros(to_utc_timestamp(cast(({expression}) as timestamp), '{zone}'))")
        return F.lit(None).cast("bigint")

    def _is_moment(self, column: str, pipeline: Pipeline, rows: DataFrame) -> bool:
        """Whether the expression computes the event time as a date or timestamp, whatever the type of its column."""
        return column == pipeline.event.time and _type_of(rows, self.columns[column]) in _MOMENTS

    @property
    def not_read(self) -> str | None:
        """What is wrong with an event time that the fix does not read; None if it does not say how it is written."""
        if self.time_format is not None:
            return (
                f"is not a time of the format {self.time_format}: it differs, or there is no such day or hour"
            )
        return None if self.time_unit is None else f"is not a time as a number in {self.time_unit}"

    def value(self, column: str, kind: str) -> str:
        """The SQL of a computed column in its own type; null where the value does not fit."""
        made = f"({self.columns[column]})"
        if is_nested(kind):
            return list_of(text_of(made), kind)
        return (
            number(f"trim(cast({made} as string))", kind)
            if is_decimal(kind)
            else f"try_cast({made} as {kind})"
        )

    def misfit(self, pipeline: Pipeline, columns: Mapping[str, str], rows: DataFrame) -> Column:
        """Which column does not take what the fix computes, in words; null if all do."""
        wrong = [
            F.expr(
                f"case when ({expression}) is not null and ({self.value(column, columns[column])}) is null then "
                f"concat('column ', {literal(column)}, ': the fix makes \"', "
                f"left({_shown(expression, columns[column])}, 60), '\", which is not a {columns[column]}') end"
            )
            for column, expression in self.columns.items()
            if not self._is_moment(column, pipeline, rows)
        ]
        time = pipeline.event.time
        if (self.time_format or self.time_unit) and columns[time] != "string":
            text, own = F.col(quoted(time)), F.expr(f"try_cast({quoted(time)} as {columns[time]})")
            unread = text.isNotNull() & self.time(pipeline, rows).isNull() & own.isNull()
            words = F.concat(F.lit(f'column {time}: "'), F.left(text, F.lit(60)), F.lit(f'" {self.not_read}'))
            wrong.append(F.when(unread, words))
        return F.coalesce(*wrong) if wrong else F.lit(None).cast("string")


def _quoted(expression: str) -> str:
    """An expression with its dotted names in backticks; `mistakes` reports one that cannot be parsed."""
    try:
        return with_names_quoted(expression)
    except (ValueError, TypeError):
        return expression


_MOMENTS = ("timestamp", "timestamp_ntz", "date")


def check_expression(option: str, written: str, columns: Mapping[str, str]) -> None:
    """Refuse an expression or condition that must not be given to Spark, or that names an unknown column."""
    if problems := [*_mistakes(option, written, columns)]:
        raise PipelineError(problems)


def check_on_spark(option: str, written: str, rows: DataFrame, kind: str) -> None:
    """Refuse an expression that Spark does not understand, or that has another type."""
    fix = f"write SQL over {', '.join(rows.columns)}"
    _require(option, written, rows, F.expr(f"({written})"), fix)
    if (found := _type_of(rows, written)) != kind:
        raise PipelineError([Problem(option, f"yields {found}, not {kind}", written, fix)])


def _mistakes(option: str, written: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    try:
        check_where(written) if option == "where" else check_fix(written)
    except ValueError as error:
        reason, _, fix = str(error).partition("; ")
        yield Problem(option, reason, written, fix)
        return
    if (mistake := column_mistake(written, columns)) is not None:
        reason, _, fix = mistake.partition("; ")
        yield Problem(option, reason.replace("the source has no column", "there is no column"), written, fix)


def _require(option: str, written: str, rows: DataFrame, column: Column, fix: str) -> None:
    """Compute the column for one row of nulls: Spark checks a pattern only when it uses it."""
    spark = rows.sparkSession
    one = spark.range(1).select(*(F.lit(None).cast(kind).alias(name) for name, kind in rows.dtypes))
    try:
        frame = one.select(column.alias("made"))
        changes = may_change(frame, written)
        frame.toArrow()
    except PySparkException as error:
        raise PipelineError(
            [Problem(option, f"Spark cannot use it: {first_line(error)}", written, fix)]
        ) from None
    if changes:
        raise PipelineError(
            [Problem(option, "may have another value each time it is computed", written, fix)]
        )


def _type_of(rows: DataFrame, expression: str) -> str:
    return rows.select(F.expr(f"({expression})").alias("made")).dtypes[0][1]


def _shown(expression: str, kind: str) -> str:
    return text_of(expression) if is_nested(kind) else f"cast(({expression}) as string)"


def empty_texts(spark: Any, columns: Mapping[str, str]) -> DataFrame:
    """No rows, with all columns as text: as an expression sees them."""
    return no_rows(spark, dict.fromkeys(columns, "string"))


# Texts as values of a type, in SQL


def number(text: str, kind: str, signs: Signs = POINT) -> str:
    """The number that a text means; null where a column of this type does not take it. A text that
    `model/written_numbers.py` refuses is never cast: a cast of `1e3000000` takes seconds."""
    plain = text
    written = f"octet_length({text}) <= {LONGEST}"
    if signs != POINT:
        thousands = _escaped(signs.thousands_sign or "")
        plain = f"replace(replace({text}, '{thousands}', ''), '{signs.decimal_sign}', '.')"
        written += f" and {text} rlike '^{_escaped(signs.pattern())}$'"
    return f"case when {written} and {plain} rlike '^{PATTERN}$' then try_cast({plain} as {kind}) end"


def _escaped(text: str) -> str:
    return text.replace("'", "\\'")


def list_of(text: str, kind: str) -> str:
    """The list or map that a JSON text means; null where a column of this type does not take it."""
    record = f"""concat('{{"v":', {text}, '}}')"""
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    schema = literal(ddl({"v": kind, CORRUPT: "string"}))
    parsed = f"from_json({record}, {schema}, {options})"
    return f"if({parsed}.{CORRUPT} is null, {parsed}.v, null)"


def text_of(sql: str) -> str:
    """A value as text: a list or a map as JSON, a text as it is."""
    return f"from_json(to_json(struct({sql} as v)), 'v string').v"


def literal(text: str) -> str:
    r"""A text by Spark's rule, by which a backslash escapes.

    >>> print(literal("it's \\d"))
    'it\'s \\d'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
