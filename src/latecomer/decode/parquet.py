"""Parquet files, and their columns that Spark does not hand over as they are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.decode.arrow_parquet import parquet_rows, require_plain_parquet
from latecomer.decode.base import NewReader
from latecomer.decode.columns import CORRUPT, KEPT
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.nested import changed_in, flattened, holds_in, read_ddl
from latecomer.decode.parquet_reading import ParquetReading, columns_of
from latecomer.decode.unknown import as_json, kept_values
from latecomer.model.types import is_nested, with_fields_of
from latecomer.store.sql import quoted

SETTINGS = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
"""What the session that reads needs."""
_WHOLE = f"{PRIVATE}whole_"
"""Before the name of a column: the same with all fields that are stored."""


@dataclass(frozen=True)
class _Shape:
    """What tells files apart that cannot be read together."""

    nanoseconds: frozenset[str]
    nested: tuple[tuple[str, str], ...]
    extra: tuple[tuple[str, str], ...]
    wider: tuple[tuple[str, str], ...]
    """Lists and maps whose objects have fields that are not declared, and the types with these fields."""


@dataclass(frozen=True)
class ParquetFiles(ParquetReading):
    """Parquet files, as Spark's own reader reads them, too."""

    def in_tasks(self) -> ParquetReading:
        """What decodes files in a task."""
        return ParquetReading(self.columns, self.unknown_fields)

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """Files grouped by the columns that hold nanoseconds, which Spark hands over as numbers, by lists and maps,
        where they become text, and by columns and fields that are unknown."""
        parts = []
        for shape, group in grouped(files, self._shape).items():
            every = {**self.columns, **dict(shape.extra)}
            stored = {name: "bigint" if name in shape.nanoseconds else kind for name, kind in every.items()}
            stored |= {**dict(shape.nested), **dict(shape.wider)}
            converted = {name: F.expr(from_nanos(name, every[name])) for name in sorted(shape.nanoseconds)}
            converted |= {
                name: F.expr(as_json(quoted(name))) for name, _ in shape.nested if name in self.columns
            }
            converted |= {
                name: F.expr(
                    changed_in(quoted(name), self.columns[name], self.columns[name], lambda sql, *_: sql)
                )
                for name, _ in shape.wider
            }
            whole = {f"{_WHOLE}{name}": F.col(quoted(name)) for name, _ in shape.wider}
            every |= {name: kind for name, kind in shape.nested if name not in self.columns}
            kept = {name: quoted(name) for name in every if name not in self.columns}
            kept |= {name: quoted(f"{_WHOLE}{name}") for name, _ in shape.wider}
            for paths in together(group):
                read = reader().schema(read_ddl(stored)).parquet(*paths)
                part = flattened(read, stored).withColumns(whole).withColumns(converted)
                part = part.withColumn(CORRUPT, F.expr(not_text(every)))
                parts.append(self._with_kept(part, every, kept))
        return parts

    def require_fast(self) -> None:
        require_plain_parquet(self.columns)

    def load(self, file: SourceFile) -> pa.Table:
        return parquet_rows(file.local, self.columns, self.unknown_fields)

    def _shape(self, file: SourceFile) -> _Shape:
        found, extra = columns_of(file), self._extra(file)
        read = {**self.columns, **extra}
        nested = {name: kind for name, kind in found.nested.items() if read.get(name) == "string"}
        wider = {
            name: kind
            for name, stored in found.lists.items()
            if self.unknown_fields == "keep" and is_nested(pinned := self.columns.get(name, ""))
            if (kind := with_fields_of(pinned, stored)) != pinned
        }
        return _Shape(
            found.nanoseconds & set(read), tuple(nested.items()), tuple(extra.items()), tuple(wider.items())
        )

    def _extra(self, file: SourceFile) -> dict[str, str]:
        """The columns of a file that are unknown fields. Spark takes names for the same that differ only in case."""
        if self.unknown_fields == "ignore":
            return {}
        seen = {name.lower() for name in self.columns}
        extra: dict[str, str] = {}
        for name, kind in columns_of(file).kinds.items():
            if name.lower() not in seen:
                seen.add(name.lower())
                extra[name] = kind
        return extra

    def _with_kept(self, part: DataFrame, every: Mapping[str, str], sql: Mapping[str, str]) -> DataFrame:
        if self.unknown_fields == "ignore":
            return part
        kept = part.withColumn(KEPT, F.when(F.col(CORRUPT).isNull(), kept_values(sql)))
        if self.unknown_fields == "keep":
            return kept
        whole = kept_values({name: quoted(name) for name in every})
        return kept.withColumn(CORRUPT, F.when(F.col(KEPT).isNotNull(), whole).otherwise(F.col(CORRUPT)))


def from_nanos(column: str, kind: str) -> str:
    """A time, from nanoseconds: cut to the microsecond that it lies in."""
    name = quoted(column)
    return f"cast(timestamp_micros(({name} - pmod({name}, 1000L)) div 1000L) as {kind})"


def not_text(columns: Mapping[str, str]) -> str:
    """The row as JSON, with the bytes that it has, where a text of it is not UTF-8; else null."""
    texts = [sql for name, kind in columns.items() if (sql := valid_text(quoted(name), kind))]
    return misread(columns, texts, {name: quoted(name) for name in columns})


def misread(columns: Mapping[str, str], rules: Sequence[str], values: Mapping[str, str]) -> str:
    """The row as JSON, with the bytes that it has, where one of the `rules` does not hold; else null. `values` has the
    SQL of the columns."""
    if not rules:
        return "cast(null as string)"
    # In ISO-8859-1 every byte is a character, so no byte is lost on the way through JSON.
    fields = ", ".join(
        f"{_latin(values[name], kind)} as {quoted(_latin_text(name))}" for name, kind in columns.items()
    )
    whole = f"to_json(struct({fields}), map('ignoreNullFields', 'false'))"
    return f"case when not ({' and '.join(rules)}) then cast(encode({whole}, 'ISO-8859-1') as string) end"


def valid_text(sql: str, kind: str) -> str:
    """Whether a value is UTF-8, in SQL: its text, or all texts in it. Empty where it has none."""
    return holds_in(
        sql,
        kind,
        kind,
        lambda sql, kind, _: f"coalesce(is_valid_utf8({sql}), true)" if kind == "string" else "",
    )


def _latin(sql: str, kind: str) -> str:
    """A value whose texts have a character for each of their bytes."""
    return changed_in(
        sql,
        kind,
        _latin_text(kind),
        lambda sql, kind, _: f"decode(cast({sql} as binary), 'ISO-8859-1')" if kind == "string" else sql,
    )


def _latin_text(text: str) -> str:
    """Names, also those in a type, with a character for each of their bytes."""
    return text.encode().decode("iso-8859-1")
