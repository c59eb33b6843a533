"""Files as a source: Structured Streaming finds them, latecomer reads them.

The stream carries a manifest, not the data: path, modification time and size of each new file. So a
batch knows exactly which files it is made of, reads them with the plain batch reader (columns pruned,
positions kept), and can set aside a file that cannot be read before Spark trips over it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.columns import arrow_columns
from latecomer.config.models import Pipeline
from latecomer.errors import SourceError
from latecomer.store.sql import ddl, quoted

CORRUPT = f"{PRIVATE}corrupt"
ORIGIN = f"{PRIVATE}origin"
FULL_ORIGIN = f"{PRIVATE}full_origin"
POSITION = f"{PRIVATE}position"
LANDED = f"{PRIVATE}landed"
BROKEN = f"{PRIVATE}broken"

_ROW_BITS = (1 << 33) - 1
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDENINGS = {("float", "double"), *combinations(_INTEGERS, 2)}
_FOREVER = "100000d"


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as the stream found it."""

    path: str
    landed: int
    size: int

    @property
    def local(self) -> Path:
        return Path(unquote(urlparse(self.path).path))


@dataclass(frozen=True)
class FileSource:
    """The pipeline's files, with the columns pinned for them."""

    pipeline: Pipeline
    columns: Mapping[str, str]

    def manifest(self, spark: SparkSession) -> DataFrame:
        """The stream of newly found files. No file is ever too old to be found."""
        files = self.pipeline.source.files
        folder, pattern = _split(self.pipeline.source_path)
        reader = (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("maxFilesPerTrigger", files.max_files_per_batch)
            .option("maxFileAge", _FOREVER)
        )
        if pattern:
            reader = reader.option("pathGlobFilter", pattern)
        return reader.load(folder).select(
            "path", F.unix_micros("modificationTime").alias("landed"), F.col("length").alias("size")
        )

    def read(self, spark: SparkSession, files: Sequence[SourceFile]) -> DataFrame:
        """The rows of a batch's files: the source's columns, and where each row stands."""
        readable, broken = self._sorted_out(files)
        parts = [self._numbered(part) for part in self._parts(spark, readable)]
        if broken or not parts:
            parts.append(self._unreadable(spark, broken))
        return reduce(lambda left, right: left.unionByName(right), parts)

    def _parts(self, spark: SparkSession, files: Sequence[SourceFile]) -> list[DataFrame]:
        if not files:
            return []
        reader = spark.read.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
        declared = ddl({**self.columns, CORRUPT: "string"})
        match self.pipeline.source.files.format:
            case "json":
                return [reader.schema(declared).json([file.path for file in files])]
            case "parquet":
                plain = spark.read.schema(ddl(self.columns)).parquet(*(file.path for file in files))
                return [plain.withColumn(CORRUPT, F.lit(None).cast("string"))]
        return self._csv_parts(spark, files)

    def _csv_parts(self, spark: SparkSession, files: Sequence[SourceFile]) -> list[DataFrame]:
        """Files grouped by header: a column is found by its name, wherever it stands."""
        settings = self.pipeline.source.files
        groups: dict[tuple[str, ...], list[str]] = {}
        for file in files:
            header = self._header(file) if settings.header else tuple(self.columns)
            if header:  # else there is nothing but blank lines
                groups.setdefault(header, []).append(file.path)
        parts = []
        for header, paths in groups.items():
            # A column that is not pinned is read as text, under a name that clashes with none, and left out.
            layout = {
                name if name in self.columns else f"{PRIVATE}extra_{nth}": self.columns.get(name, "string")
                for nth, name in enumerate(header)
            }
            part = (
                spark.read.schema(ddl({**layout, CORRUPT: "string"}))
                .option("columnNameOfCorruptRecord", CORRUPT)
                .option("mode", "PERMISSIVE")
                .option("header", settings.header)
                .option("sep", settings.delimiter)
                .option("escape", '"')  # a quote within quotes is doubled
                .option("columnPruning", False)  # or a row too short or too long would pass
                .csv(paths)
            )
            missing = [F.lit(None).cast(kind).alias(n) for n, kind in self.columns.items() if n not in layout]
            parts.append(part.select("*", "_metadata", *missing) if missing else part)
        return parts

    def _header(self, file: SourceFile) -> tuple[str, ...]:
        delimiter = self.pipeline.source.files.delimiter
        try:
            with open(file.local, encoding="utf-8-sig", newline="") as lines:
                return tuple(next(filter(None, csv.reader(lines, delimiter=delimiter)), ()))
        except (OSError, UnicodeDecodeError):
            return tuple(self.columns)

    def _numbered(self, part: DataFrame) -> DataFrame:
        """Add where each row stands: file, position in it, and when the file landed.

        A row's number within its part of the file plus the byte at which that part starts is unique
        and ascending; in a file that was not split it is the row's number.
        """
        if self.pipeline.source.files.format == "parquet":
            position = F.col("_metadata.row_index")
        else:
            row = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_BITS))
            position = F.col("_metadata.file_block_start") + row
        return part.select(
            *(F.col(quoted(column)) for column in self.columns),
            F.col(CORRUPT),
            F.lit(None).cast("string").alias(BROKEN),
            F.col("_metadata.file_path" if self._many_folders else "_metadata.file_name").alias(ORIGIN),
            F.col("_metadata.file_path").alias(FULL_ORIGIN),
            position.alias(POSITION),
            F.col("_metadata.file_modification_time").alias(LANDED),
        )

    @property
    def _many_folders(self) -> bool:
        """Whether files of several folders are read, so that a file's name alone does not tell it apart."""
        return any(mark in str(Path(self.pipeline.source_path).parent) for mark in "*?[{")

    def _sorted_out(
        self, files: Sequence[SourceFile]
    ) -> tuple[list[SourceFile], list[tuple[SourceFile, str]]]:
        """The files that Spark can read, and those it cannot, with the reason."""
        settings = self.pipeline.source.files
        if settings.format == "parquet":
            misfit = self._misfit
        elif settings.format == "csv" and settings.header:
            misfit = self._misled
        else:
            return list(files), []
        readable, broken = [], []
        for file in files:
            reason = misfit(file)
            if reason is None:
                readable.append(file)
            else:
                broken.append((file, reason))
        return readable, broken

    def _misled(self, file: SourceFile) -> str | None:
        """Why a CSV file's header cannot be followed."""
        known = [name for name in self._header(file) if name in self.columns]
        if len(known) > len(set(known)):
            return f"the header names a column twice: {', '.join(known)}"
        if not known and self._header(file):
            return f"the header names none of the columns {', '.join(self.columns)}"
        return None

    def _misfit(self, file: SourceFile) -> str | None:
        """Why Spark could not read a Parquet file as pinned."""
        try:
            schema = pq.read_schema(file.local)
        except (OSError, pa.ArrowInvalid) as error:
            return f"not a readable Parquet file: {error}"
        found = arrow_columns(schema)
        for column, pinned in self.columns.items():
            if column not in schema.names or pa.types.is_null(schema.field(column).type):
                continue
            stored = schema.field(column).type
            kind = found.get(column, str(stored))
            if kind != pinned and (kind, pinned) not in _WIDENINGS:
                return f"column {column} is {kind}, pinned as {pinned}"
            if pa.types.is_timestamp(stored) and stored.unit == "ns":
                return f"column {column} holds nanoseconds, which Spark cannot read: write microseconds"
        return None

    def _unreadable(self, spark: SparkSession, broken: Iterable[tuple[SourceFile, str]]) -> DataFrame:
        """One row for each file that cannot be read, to be filed as a dead letter."""
        rows = [(reason, file.path, 0, file.landed) for file, reason in broken]
        reasons = spark.createDataFrame(
            rows, f"{BROKEN} string, {ORIGIN} string, {POSITION} bigint, landed bigint"
        )
        return reasons.select(
            *(F.lit(None).cast(kind).alias(column) for column, kind in self.columns.items()),
            F.lit(None).cast("string").alias(CORRUPT),
            BROKEN,
            ORIGIN,
            F.col(ORIGIN).alias(FULL_ORIGIN),
            POSITION,
            F.timestamp_micros("landed").alias(LANDED),
        )


def _split(pattern: str) -> tuple[str, str | None]:
    """A folder and the pattern of file names in it."""
    path = Path(pattern)
    if path.is_dir():
        return str(path), None
    folder = path.parent
    if not any(mark in str(folder) for mark in "*?[{") and not folder.is_dir():
        raise SourceError(
            f"source folder {folder} does not exist; create it, or correct source.files.path ({pattern})"
        )
    return str(folder), path.name
