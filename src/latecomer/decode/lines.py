"""Text files line by line, with the bytes of each line at hand.

Spark's CSV reader puts U+FFFD in the place of what it cannot decode and does not say so; and neither of its
readers takes every encoding. Here each line is decoded in sight: one that is not in the encoding is a
corrupt row with its bytes. That costs more than Spark's own readers, so it is done where it must be:
for files in another encoding than UTF-8, for CSV files in which U+FFFD has been seen, and where a number does not
fit its decimal column, so that the dead letter has the bytes of its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.encodings import UTF8, UTF16
from latecomer.config.sources import UnknownFields
from latecomer.decode.base import PERMISSIVE
from latecomer.decode.columns import CORRUPT, KEPT, METADATA, RECORD
from latecomer.decode.decimals import STALLS, decimals_as_text, misfits, numbers
from latecomer.decode.nested import read_ddl, values
from latecomer.decode.unknown import as_written, cut, kept, kept_values
from latecomer.model.types import is_decimal, leaf_types
from latecomer.store.sql import ddl, quoted

REPLACEMENT = "\ufffd"
_VALUE = "value"
_TEXT, _PARSED = f"{PRIVATE}text", f"{PRIVATE}parsed"
_NTH, _CUT = f"{PRIVATE}nth_line", f"{PRIVATE}cut"
_BLANK_IN_JSON, _BLANK_IN_CSV = r"[^ \t\r\n]", r"[^\x00-\x20]"
_MAY_RUN_ON = r"[\]\}]\s*+(?:[^\s,\]\}]|,\s*+\{)"
_TRAILING = r"(?<![\s,])[\s,]++$"
"""Each run of blanks and commas is looked at once, from its beginning: a line may have millions of them."""

SETTINGS = {
    "spark.sql.legacy.javaCharsets": "true",  # any of Java's encodings, not only the Unicode ones
    "spark.sql.legacy.codingErrorAction": "true",  # what cannot be decoded becomes U+FFFD, no error
}
"""What the session that reads needs."""


def read(reader: DataFrameReader, paths: Sequence[str], encoding: str) -> DataFrame:
    """The lines of files."""
    if not encoding.startswith(UTF16):
        # No encoding has a byte of a line's end within another character.
        lines = reader.text(list(paths))
    else:
        lines = reader.option("encoding", encoding).option("lineSep", "\n").text(list(paths))
    return lines.select(_VALUE, F.col("_metadata").alias(METADATA), _decoded(encoding).alias(_TEXT))


def as_lines(records: DataFrame) -> DataFrame:
    """Records in UTF-8, as lines."""
    text = F.col(RECORD).cast("string")
    return records.withColumns({_VALUE: text, _TEXT: text}).drop(RECORD)


def json_records(
    lines: DataFrame,
    encoding: str,
    columns: Mapping[str, str],
    blanks: bool = False,
    unknown: UnknownFields = "ignore",
    known: Mapping[str, str] | None = None,
) -> DataFrame:
    """One JSON object a line. Blank lines are none, unless `blanks` says that they should be objects, too. `unknown`
    says what is done with fields that are neither columns nor among those that are `known` besides."""
    if not blanks:
        lines = lines.where(F.col(_TEXT).rlike(_BLANK_IN_JSON))
    # As text, from_json would hand a number over as a double writes it; so decimals are parsed as such, in lines that
    # hold nothing on which that could stall.
    leaves = (leaf for kind in columns.values() for leaf in leaf_types(kind))
    stalls = F.col(_TEXT).rlike(STALLS) if any(map(is_decimal, leaves)) else F.lit(False)
    safe = F.when(~stalls, F.col(_TEXT))
    parsed = F.from_json(safe, read_ddl({**columns, CORRUPT: "string"}), dict(PERMISSIVE))
    unfit = stalls | _runs_on(F.col(_TEXT))
    if blanks:
        unfit = unfit | ~F.col(_TEXT).rlike(_BLANK_IN_JSON)
    found, typed = None, {name: F.expr(sql) for name, sql in values(columns, f"{_PARSED}.").items()}
    if unknown != "ignore":
        every = {**columns, **(known or {})}
        lines = lines.withColumn(_CUT, cut(F.col(_TEXT), every))
        found = kept(F.col(_CUT), F.col(_TEXT), every)
        for name, kind in columns.items():
            if kind == "string":
                typed[name] = as_written(F.col(_TEXT), name, typed[name])
    return _rows(lines, parsed, encoding, typed, unfit, found, unknown)


def _runs_on(text: Column) -> Column:
    """Whether more follows an object than a comma: Spark does not look at it, so it would be lost.

    Within [ ] an object must end there, or a ] follows it; and that it cannot within { }.
    """
    whole = F.regexp_replace(text, _TRAILING, "")
    listed = F.size(F.from_json(F.concat(F.lit("["), whole, F.lit("]")), "array<string>"))
    named = F.size(F.from_json(F.concat(F.lit('{"a":'), whole, F.lit("}")), "map<string,string>"))
    is_one = F.coalesce((listed == 1) & (named == 1), F.lit(False))
    return F.when(text.rlike(_MAY_RUN_ON), ~is_one).otherwise(F.lit(False))


def csv_records(
    lines: DataFrame,
    encoding: str,
    columns: Mapping[str, str],
    options: Mapping[str, str],
    header: bool,
    unknown: UnknownFields = "ignore",
    extra: Mapping[str, str] | None = None,
) -> DataFrame:
    """One row a line; with a header, the first line of a file that is not blank is none. Columns that are `extra`,
    with the names that the file has for them, are unknown fields."""
    lines = lines.where(F.col(_TEXT).rlike(_BLANK_IN_CSV))
    if header:
        # A task reads one file, or one part of one.
        first = F.expr(f"input_file_block_start() = 0 and {_NTH} % (1L << 33) = 0")
        lines = lines.withColumn(_NTH, F.monotonically_increasing_id()).where(~first)
    parsed = F.from_csv(F.col(_TEXT), ddl({**decimals_as_text(columns), CORRUPT: "string"}), dict(options))
    misfit = F.expr(misfits(columns, f"{_PARSED}."))
    plain = {name: f"{_PARSED}.{quoted(name)}" for name in columns}
    found = None
    if unknown != "ignore":
        found = kept_values({name: plain[column] for column, name in (extra or {}).items()})
    every = {**plain, **numbers(columns, f"{_PARSED}.")}
    typed = {name: F.expr(sql) for name, sql in every.items()}
    return _rows(lines, parsed, encoding, typed, misfit, found, unknown)


def holds_replacement(frame: DataFrame) -> Column:
    """Whether a row of Spark's CSV reader has U+FFFD anywhere: as written, or for what could not be decoded."""
    texts = [quoted(name) for name, kind in frame.dtypes if kind in ("string", "binary")]
    return reduce(or_, (F.contains(F.col(text).cast("string"), F.lit(REPLACEMENT)) for text in texts))


def _decoded(encoding: str) -> Column:
    if encoding == UTF8:
        return F.col(_VALUE)
    text = F.expr(f"decode(cast({_VALUE} as binary), '{encoding}')")
    if encoding.startswith(UTF16):
        text = F.regexp_replace(text, "^\ufeff|\r$", "")
    return text


def _rows(
    lines: DataFrame,
    parsed: Column,
    encoding: str,
    columns: Mapping[str, Column],
    unfit: Column,
    kept: Column | None,
    unknown: UnknownFields,
) -> DataFrame:
    """The columns of lines, from what was parsed, CORRUPT, and what is kept of unknown fields."""
    if encoding == UTF8:
        whole = F.expr(f"is_valid_utf8({_VALUE})")
    else:
        # U+FFFD may also stand there: then the same bytes come back.
        again = F.expr(f"encode(decode(cast({_VALUE} as binary), '{encoding}'), '{encoding}')")
        whole = ~F.contains(_TEXT, F.lit(REPLACEMENT)) | (again == F.col(_VALUE).cast("binary"))
    others = [quoted(name) for name in lines.columns if name not in (_VALUE, _TEXT, _NTH, _CUT)]
    found = lines.withColumn(_PARSED, parsed)
    broken = ~whole | F.col(_PARSED)[CORRUPT].isNotNull() | unfit
    if kept is not None:
        found = found.withColumn(KEPT, F.when(~broken, kept))
        others.append(KEPT)
        if unknown == "dead_letter":
            broken |= F.col(KEPT).isNotNull()
    return found.select(
        *(column.alias(name) for name, column in columns.items()),
        F.when(broken, F.col(_VALUE)).alias(CORRUPT),
        *others,
    )


def as_records(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """The lines of files that are not blank, as bytes for another decoder."""
    lines = reader.text(list(paths)).where(F.col(_VALUE).rlike(_BLANK_IN_CSV))
    return lines.select(F.col(_VALUE).cast("binary").alias(RECORD), F.col("_metadata").alias(METADATA))
