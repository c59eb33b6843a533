"""Source columns: their types, and how they are inferred from files without starting Spark.

A column's type is written as Spark writes it (`bigint`, `string`, `decimal(18,2)`). Inference reads the first lines of
a few files. The fields of an object become columns, such as `pricing.base`. A list of values of one type becomes a list
column. In JSON, a list of objects or of several types becomes JSON text. The store pins the inferred types, so a later
file cannot change them unnoticed.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from latecomer.config.damaged_files import DamagedFile, damage_found
from latecomer.config.encodings import (
    LOOKED_AT_FIRST,
    UTF8,
    bounded_lines,
    byte_outside_utf8,
    encoding_by_bytes,
    first_bytes,
    is_text,
    open_text,
    other_encoding,
)
from latecomer.config.paths import SourcePath, folder_columns, special_files
from latecomer.config.user_classes import Decoder
from latecomer.errors import SourceError, shortened
from latecomer.model.counting import counted
from latecomer.model.paths import DEEPEST
from latecomer.model.types import DEEPEST_NESTED, FLOATS, INTEGERS, holds, is_nested, widened_type
from latecomer.model.unknown_fields import MOST_NAMES
from latecomer.model.written_numbers import AS_USUAL, Numbers, Signs
from latecomer.objects.readable import Readable, readable

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline

DELIMITERS = (",", ";", "\t", "|")
"""The usual ones: one of them may be meant."""
SAMPLE_FILES = 20
SAMPLE_ROWS = 2_000
SAMPLE_LINE = 1 << 20
SAMPLE_SIZE = 32 << 20
"""How many characters of a line, and of a file, are read."""
_INTO = "\0"
"""Separates the names on the way to a field. These names may have dots."""


def view_warnings(view: Pipeline, source: SourcePath) -> list[str]:
    """The warnings of a source that reads files."""
    settings, declared = view.files, view.source.columns if view.files.header else None
    return source_warnings(source, settings.format, settings.encoding, settings.delimiter, declared or ())


def source_warnings(
    source: SourcePath,
    file_format: str | Decoder,
    encoding: str = UTF8,
    delimiter: str = ",",
    declared: Collection[str] = (),
) -> list[str]:
    """What cannot be read of the files that exist now, a sentence each: special files, names that are not UTF-8, the
    first text file in another encoding and how many others, a CSV header without any declared column, and the columns
    of Parquet that are left out."""
    sentences = [
        f"{os.fsencode(name)!r} is not read: its name is not UTF-8; rename it" for name in source.misnamed
    ]
    sentences += [
        f"{name!r} is not read: it is {kind}; remove it" for name, kind in special_files(source).items()
    ]
    if file_format in ("csv", "json") and encoding == UTF8:
        files = source.listed
        foreign = list(filter(None, map(_no_utf8, files[:SAMPLE_FILES])))
        others = len(foreign) - 1
        among = f" of the first {SAMPLE_FILES}" if len(files) > SAMPLE_FILES else ""
        more = (
            f"; {counted(others, 'other file')}{among} {'is' if others == 1 else 'are'} not in utf-8 either"
        )
        sentences += [foreign[0] + (more if others else "")] if foreign else []
    if file_format == "csv" and declared and (first := _first_header(source.listed, encoding)):
        name, line = first
        if mistake := header_mistake(line, delimiter, declared):
            sentences.append(f"{name!r} is not read: {mistake}")
    if file_format != "parquet":
        return sentences
    from latecomer.config.parquet import columns_left_out

    return sentences + [
        f"column {column} ({kind}) is left out: its type is not supported; {advice}"
        for column, (kind, advice) in columns_left_out(source.listed[:SAMPLE_FILES]).items()
    ]


def _no_utf8(name: str) -> str | None:
    """Why a file is not in UTF-8, and which encoding to set."""
    head = first_bytes(readable(name))
    if other := encoding_by_bytes(head):
        return f"{name!r} is in {other}, by its first bytes: set source.files.encoding: {other}"
    if (place := byte_outside_utf8(head)) is None:
        return None
    return (
        f"{name!r} is not in utf-8, first at byte {place}: rows with such bytes are dead letters; "
        f"{other_encoding(UTF8)}"
    )


def columns_without_field(view: Pipeline, files: Sequence[str]) -> tuple[str, list[str]]:
    """The first CSV file with a header, and the declared columns that it does not name where it names others."""
    settings, declared = view.source.files, view.source.columns
    if settings is None or settings.format != "csv" or not settings.header or not declared:
        return "", []
    name, line = _first_header(files, settings.encoding) or ("", "")
    if header_mistake(line, settings.delimiter, declared):
        return name, []
    given = {*csv_row(line, settings.delimiter), *folder_columns(view.source_path, files)}
    return name, [column for column in declared if column not in given]


def _first_header(files: Sequence[str], encoding: str) -> tuple[str, str] | None:
    """The first file with a header, and the header; None if none of a few files has one that can be read."""
    for name in files[:SAMPLE_FILES]:
        with suppress(DamagedFile, OSError), damage_found("csv"):
            line = next(filter(str.strip, _sample(readable(name), encoding)), None)
            if line is not None and is_text(line, encoding) and "\0" not in line:
                return name, line
    return None


def header_mistake(line: str, delimiter: str, columns: Collection[str]) -> str | None:
    """Why the first line of a CSV file cannot be its header: it names none of the columns.

    >>> print(header_mistake("at;paise", ",", ["paise", "at"]))
    the header 'at;paise' names none of the columns paise, at; set source.files.delimiter: ";"
    """
    if _names(line, delimiter, columns):
        return None
    fix = "correct source.schema or, if the file has no header, set source.files.header: false"
    if other := next((each for each in DELIMITERS if _names(line, each, columns)), None):
        fix = f"set source.files.delimiter: {json.dumps(other)}"
    shown = shortened(", ".join(columns), 200)
    return f"the header {shortened(line, 200)!r} names none of the columns {shown}; {fix}"


def _names(line: str, delimiter: str, columns: Collection[str]) -> bool:
    try:
        return any(name in columns for name in csv_row(line, delimiter))
    except csv.Error:  # a field may be too long
        return False


def infer_columns(
    files: Sequence[str],
    file_format: str,
    delimiter: str = ",",
    encoding: str = UTF8,
    numbers: Numbers = AS_USUAL,
) -> dict[str, str]:
    """Column names and types from the first rows of a few files."""
    columns: dict[str, str] = {}
    seen_in: dict[str, str] = {}
    for name in files[:SAMPLE_FILES]:
        file = readable(name)
        is_text_in_utf8 = file_format in ("csv", "json") and encoding == UTF8
        if is_text_in_utf8 and encoding_by_bytes(first_bytes(file, LOOKED_AT_FIRST)):
            raise SourceError(f"no columns could be inferred: {_no_utf8(name)}")
        try:
            with damage_found(file_format):
                inferred = _INFER[file_format](file, delimiter, encoding, numbers)
        except (DamagedFile, OSError):
            continue  # a file that cannot be read gives no columns
        for column, kind in inferred.items():
            if column:  # a column without a name is left out: nothing can refer to it
                before = columns.get(column)
                columns[column] = common = _common(before, kind)
                if file_format == "parquet" and before is not None and not _both_fit(common, before, kind):
                    raise _disagreeing(column, before, seen_in[column], kind, name)
                if common != before:
                    seen_in[column] = name
    if not columns:
        raise SourceError(
            "no columns could be inferred: none of the files has a readable row; declare source.schema"
            + ("" if file_format == "parquet" else f", or another source.files.encoding than {encoding}")
        )
    return {
        column: kind.replace("null", "string") if _is_empty(kind) else kind
        for column, kind in _named(columns).items()
    }


def _both_fit(common: str, *kinds: str) -> bool:
    """Whether the common type of Parquet columns takes all of them: text takes text, and lists and maps as JSON."""
    return common != "string" or all(each in ("null", "string") or is_nested(each) for each in kinds)


def _disagreeing(column: str, kind: str, file: str, other_kind: str, other: str) -> SourceError:
    return SourceError(
        f"column {column} is {kind} in {file} and {other_kind} in {other}: no type holds both; write these files "
        "with one type, or declare source.schema, and files that do not fit become dead letters"
    )


def unknown_in_files(
    columns: Iterable[str], files: Sequence[str], file_format: str, delimiter: str, encoding: str
) -> list[str]:
    """The fields of the first rows of a few files that are not among these columns, at most twenty."""
    known = set(columns)
    try:
        fields = infer_columns(files, file_format, delimiter, encoding)
    except SourceError:
        return []
    return [name for name in fields if known.isdisjoint(_on_the_way(name))][:MOST_NAMES]


def _on_the_way(name: str) -> Iterator[str]:
    """A field, and the objects that it is in: each of these may be a column.

    >>> list(_on_the_way("attrs.k"))
    ['attrs', 'attrs.k']
    """
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _infer_json(file: Readable, _: str, encoding: str, __: Numbers) -> dict[str, str]:
    columns: dict[str, str] = {}
    for line in _sample(file, encoding):
        try:
            row = json.loads(line) if is_text(line, encoding) else None
        except (ValueError, RecursionError):  # not JSON, or nested too deeply for Python and Spark
            continue
        if isinstance(row, dict):
            for column, value in _leaves(row):
                columns[column] = _common(columns.get(column), _kind_of(value))
    return columns


def _leaves(row: dict[str, object], around: str = "", depth: int = 1) -> Iterator[tuple[str, object]]:
    """The fields of a row. An object is replaced by its fields, under the names on the way to them. An empty object
    gives none."""
    for name, value in row.items():
        if not is_text(name):  # JSON may escape half of a surrogate pair
            continue
        if isinstance(value, dict) and name and "." not in name and depth < DEEPEST:
            yield from _leaves(value, f"{around}{name}{_INTO}", depth + 1)
        else:
            yield f"{around}{name}", value


def _named(columns: dict[str, str]) -> dict[str, str]:
    r"""The columns with dots in their names. A field that is an object in one row and a value in another is text.

    >>> _named({"a\0b": "bigint", "a": "null", "c\0d": "bigint", "c": "double", "e.f": "string"})
    {'a.b': 'bigint', 'c': 'string', 'e.f': 'string'}
    """
    ways = [tuple(name.split(_INTO)) for name in columns]
    objects = {way[:length] for way in ways for length in range(1, len(way))}
    values = {way for way in ways if columns[_INTO.join(way)] != "null"}
    named: dict[str, str] = {}
    for way in ways:
        if way in objects and way not in values:
            continue  # in every other row it was null
        outermost = next((way[:length] for length in range(1, len(way)) if way[:length] in values), way)
        name, kind = ".".join(outermost), columns[_INTO.join(way)]
        named[name] = "string" if outermost in objects else _common(named.get(name), kind)
    return named


def _infer_csv(file: Readable, delimiter: str, encoding: str, numbers: Numbers) -> dict[str, str]:
    lines = _sample(file, encoding)
    header = csv_row(next(lines, ""), delimiter)
    if not header or not all(is_text(column, encoding) for column in header):
        return {}
    columns = dict.fromkeys(header, "null")
    for line in lines:
        try:
            row = csv_row(line, delimiter)
        except csv.Error:
            continue  # that line becomes a dead letter
        if len(row) == len(header) and all(is_text(text, encoding) for text in row):
            for column, text in zip(header, row, strict=True):
                columns[column] = _common(columns[column], _kind_of_text(text, numbers.of(column)))
    return columns


def _sample(file: Readable, encoding: str) -> Iterator[str]:
    """The first lines of a file, within the limits of a sample."""
    with open_text(file, encoding) as text:
        yield from islice(bounded_lines(text, SAMPLE_LINE, SAMPLE_SIZE), SAMPLE_ROWS + 1)


def csv_row(line: str, delimiter: str) -> list[str]:
    """The fields of a line, as Spark reads them: a quote that is never closed ends with its line.

    >>> csv_row('a,"b,c', ",")
    ['a', 'b,c']
    """
    return next(csv.reader([line], delimiter=delimiter), [])


def _infer_parquet(file: Readable, _: str, __: str, ___: Numbers) -> dict[str, str]:
    from latecomer.config.parquet import parquet_columns  # Arrow is loaded only where it is needed

    columns = parquet_columns(file)
    return {**columns.kinds, **columns.lists}


_INFER = {"json": _infer_json, "csv": _infer_csv, "parquet": _infer_parquet}


_ARRAY = "array<"


def _is_empty(kind: str) -> bool:
    """Whether it is the type of a column of nulls, or of lists of nulls."""
    return kind.replace(_ARRAY, "").rstrip(">") == "null"


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if holds("bigint", value) else "decimal(38,0)"
    if isinstance(value, float):
        return "double"
    return _kind_of_list(value) if isinstance(value, list) else "string"


def _kind_of_list(values: list[object], most: int = DEEPEST_NESTED) -> str:
    """The type of a list: text where it holds objects or values of several types.

    >>> _kind_of_list([1, None, 2.5]), _kind_of_list([["a"], []]), _kind_of_list([1, "a"]), _kind_of_list([{"a": 1}])
    ('array<double>', 'array<array<string>>', 'string', 'string')
    """
    kind = "null"
    for value in values:
        nested = isinstance(value, list)
        other = _kind_of_list(value, most - 1) if isinstance(value, list) else _kind_of(value)
        if most == 1 or isinstance(value, dict) or (nested and other == "string"):
            return "string"
        if (kind := _common_in_list(kind, other)) == "":
            return "string"
    return f"{_ARRAY}{kind}>"


def _common_in_list(first: str, second: str) -> str:
    """The type of a list's values that holds both types; empty where only text does."""
    both = _common(first, second)
    return "" if both == "string" and {first, second} - {"null", "string"} else both


def _kind_of_text(text: str, signs: Signs) -> str:
    if text == "":
        return "null"
    number = signs.plain(text) or ""
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", number):
        return "bigint"
    if re.fullmatch(r"-?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?", number):
        return "double"
    return "boolean" if text.lower() in ("true", "false") else "string"


def _common(first: str | None, second: str) -> str:
    """The type that holds both: numbers widen, anything else becomes text."""
    if first is None or first == "null" or first == second:
        return second
    if second == "null":
        return first
    kinds = {first, second}
    if kinds <= INTEGERS | FLOATS:
        return widened_type(first, second) or widened_type(second, first) or "double"
    if kinds == {"bigint", "decimal(38,0)"}:
        return "decimal(38,0)"
    if all(kind.startswith(_ARRAY) for kind in kinds):
        inner = _common_in_list(*(kind.removeprefix(_ARRAY)[:-1] for kind in (first, second)))
        return f"{_ARRAY}{inner}>" if inner else "string"
    return "string"


def clashing_names(columns: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of columns that differ only in case by Spark's rule: a table cannot hold both."""
    seen: dict[str, str] = {}
    pairs = []
    for column in columns:
        other = next((seen[key] for key in _without_case(column) if key in seen), column)
        seen |= dict.fromkeys(_without_case(column), other)
        if other != column:
            pairs.append((other, column))
    return pairs


def _without_case(name: str) -> tuple[str, str]:
    """A name as Spark compares it: in lower case, and with each letter in upper case first (so `ſ` equals `s`)."""

    def one(letter: str, other: str) -> str:
        return other if len(other) == 1 else letter

    capitals = (one(letter, letter.upper()) for letter in name)
    return name.lower(), "".join(one(letter, letter.lower()) for letter in capitals)
