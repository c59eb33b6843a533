"""Parquet files, and their columns that Spark does not hand over as they are meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.damage import DamagedFile
from latecomer.config.parquet import ParquetColumns, parquet_columns
from latecomer.config.sources import UnknownFields
from latecomer.decode.base import CORRUPT, KEPT, FileDecoder, NewReader
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.nested import flattened, read_ddl
from latecomer.decode.retrying import reading
from latecomer.decode.unknown import kept_values
from latecomer.store.sql import quoted

SETTINGS = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
"""What the session that reads needs."""
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDENINGS = {("float", "double"), *combinations(_INTEGERS, 2)}


@dataclass(frozen=True)
class ParquetFiles(FileDecoder):
    """Parquet files with the columns that were pinned, or narrower ones."""

    columns: Mapping[str, str]
    unknown_fields: UnknownFields = "ignore"

    def misfit(self, file: SourceFile) -> str | None:
        try:
            with reading(file.local):
                found = _columns_of(file)
        except DamagedFile as error:
            return f"not a readable Parquet file: {error}"
        return next(self._misfits(found), None)

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """Files grouped by the columns that hold nanoseconds, which Spark hands over as numbers, and by those that are
        unknown fields."""

        def nanoseconds(file: SourceFile) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
            extra = self._extra(file)
            return _columns_of(file).nanoseconds & {*self.columns, *extra}, tuple(extra.items())

        parts = []
        for (in_nanos, extra), group in grouped(files, nanoseconds).items():
            every = {**self.columns, **dict(extra)}
            stored = {name: "bigint" if name in in_nanos else kind for name, kind in every.items()}
            converted = {name: F.expr(from_nanos(name, every[name])) for name in sorted(in_nanos)}
            for paths in together(group):
                read = reader().schema(read_ddl(stored)).parquet(*paths)
                part = flattened(read, stored).withColumns(converted)
                part = part.withColumn(CORRUPT, F.expr(not_text(every)))
                parts.append(self._with_kept(part, every))
        return parts

    def _extra(self, file: SourceFile) -> dict[str, str]:
        """The columns of a file that are unknown fields. Spark takes names for the same that differ only in case."""
        if self.unknown_fields == "ignore":
            return {}
        seen = {name.lower() for name in self.columns}
        extra: dict[str, str] = {}
        for name, kind in _columns_of(file).kinds.items():
            if name.lower() not in seen:
                seen.add(name.lower())
                extra[name] = kind
        return extra

    def _with_kept(self, part: DataFrame, every: Mapping[str, str]) -> DataFrame:
        if self.unknown_fields == "ignore":
            return part
        extra = {name: quoted(name) for name in every if name not in self.columns}
        kept = part.withColumn(KEPT, F.when(F.col(CORRUPT).isNull(), kept_values(extra)))
        if self.unknown_fields == "keep":
            return kept
        whole = kept_values({name: quoted(name) for name in every})
        return kept.withColumn(CORRUPT, F.when(F.col(KEPT).isNotNull(), whole).otherwise(F.col(CORRUPT)))

    @property
    def numbers_rows(self) -> bool:
        return True

    def _misfits(self, found: ParquetColumns) -> Iterator[str]:
        for column, pinned in self.columns.items():
            kind = found.kinds.get(column) or found.left_out.get(column)
            if column in found.int96 and pinned == "timestamp_ntz":
                continue
            if kind is not None and kind != pinned and (kind, pinned) not in _WIDENINGS:
                yield f"column {column} is {kind}, pinned as {pinned}"


@lru_cache(maxsize=4096)
def _columns_of(file: SourceFile) -> ParquetColumns:
    return parquet_columns(file.local)


def forget_parquet_files() -> None:
    _columns_of.cache_clear()


def from_nanos(column: str, kind: str) -> str:
    """A time, from nanoseconds: cut to the microsecond that it lies in."""
    name = quoted(column)
    return f"cast(timestamp_micros(({name} - pmod({name}, 1000L)) div 1000L) as {kind})"


def not_text(columns: Mapping[str, str]) -> str:
    """The row as JSON, with the bytes that it has, where a text of it is not UTF-8; else null."""
    texts = [name for name, kind in columns.items() if kind == "string"]
    if not texts:
        return "cast(null as string)"
    valid = " and ".join(f"is_valid_utf8({quoted(name)})" for name in texts)
    # In ISO-8859-1 every byte is a character, so no byte is lost on the way through JSON.
    fields = ", ".join(
        f"decode(cast({quoted(name)} as binary), 'ISO-8859-1')"
        f" as {quoted(name.encode().decode('iso-8859-1'))}"
        if kind == "string"
        else f"{quoted(name)} as {quoted(name.encode().decode('iso-8859-1'))}"
        for name, kind in columns.items()
    )
    whole = f"to_json(struct({fields}), map('ignoreNullFields', 'false'))"
    return f"case when not coalesce({valid}, true) then cast(encode({whole}, 'ISO-8859-1') as string) end"
