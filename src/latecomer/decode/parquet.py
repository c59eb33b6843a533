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
from latecomer.decode.base import CORRUPT, FileDecoder, NewReader
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.nested import flattened, read_ddl
from latecomer.decode.retrying import reading
from latecomer.store.sql import quoted

SETTINGS = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
"""What the session that reads needs."""
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDENINGS = {("float", "double"), *combinations(_INTEGERS, 2)}


@dataclass(frozen=True)
class ParquetFiles(FileDecoder):
    """Parquet files with the columns that were pinned, or narrower ones."""

    columns: Mapping[str, str]

    def misfit(self, file: SourceFile) -> str | None:
        try:
            with reading(file.local):
                found = _columns_of(file)
        except DamagedFile as error:
            return f"not a readable Parquet file: {error}"
        return next(self._misfits(found), None)

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """Files grouped by the columns that hold nanoseconds, which Spark hands over as numbers."""

        def nanoseconds(file: SourceFile) -> frozenset[str]:
            return _columns_of(file).nanoseconds & set(self.columns)

        parts = []
        for in_nanos, group in grouped(files, nanoseconds).items():
            stored = {name: "bigint" if name in in_nanos else kind for name, kind in self.columns.items()}
            converted = {name: F.expr(from_nanos(name, self.columns[name])) for name in sorted(in_nanos)}
            for paths in together(group):
                read = reader().schema(read_ddl(stored)).parquet(*paths)
                part = flattened(read, stored).withColumns(converted)
                parts.append(part.withColumn(CORRUPT, F.expr(not_text(self.columns))))
        return parts

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
