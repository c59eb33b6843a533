"""Files as a source: Structured Streaming finds them, latecomer reads them.

The stream carries a manifest, not the data: path, modification time and size of each new file. So a
batch knows exactly which files it is made of, reads them with the plain batch reader (columns pruned,
positions kept), and can set aside a file that cannot be read.
"""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.columns import arrow_columns, open_text
from latecomer.config.models import Pipeline
from latecomer.config.paths import SourcePath, fits
from latecomer.errors import SourceError
from latecomer.spark_errors import SPARK_ERRORS, root_cause
from latecomer.store.sql import ddl, quoted, some_bytes

CORRUPT = f"{PRIVATE}corrupt"
ORIGIN = f"{PRIVATE}origin"
FULL_ORIGIN = f"{PRIVATE}full_origin"
POSITION = f"{PRIVATE}position"
LANDED = f"{PRIVATE}landed"
BROKEN = f"{PRIVATE}broken"
READ = f"{PRIVATE}read"
_FOLDER = f"{PRIVATE}folder_"
"""Before the name of a column: what a file's folders say of it."""
METADATA = f"{PRIVATE}metadata"
_METADATA = "_metadata"

_ROW_BITS = (1 << 33) - 1
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDENINGS = {("float", "double"), *combinations(_INTEGERS, 2)}
_PATTERN = set("*?[]{}\\")
_FOREVER = "100000d"
_PATH = "input_file_name()"


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as the stream found it."""

    path: str
    landed: int
    size: int

    @property
    def local(self) -> Path:
        return Path("/" + self.path.removeprefix("file:").lstrip("/"))


NONE: Mapping[SourceFile, str] = MappingProxyType({})


@dataclass(frozen=True)
class Rows:
    """The rows of a batch, and how many were read: counted where they come in, before anything is done."""

    frame: DataFrame
    counts: Sequence[Observation]
    broken: int

    def counted(self) -> int:
        """How many rows there were, once they have been read; a file set aside is one."""
        return self.broken + sum(int(count.get[READ]) for count in self.counts)


@dataclass(frozen=True)
class FileSource:
    """The pipeline's files, with the columns pinned for them."""

    pipeline: Pipeline
    columns: Mapping[str, str]

    @cached_property
    def path(self) -> SourcePath:
        return SourcePath(self.pipeline.source_path)

    @cached_property
    def read_columns(self) -> dict[str, str]:
        """The columns under the names that the source has for them."""
        return {self.pipeline.source_name(column): kind for column, kind in self.columns.items()}

    def stream(self, spark: SparkSession) -> DataFrame:
        """The stream that finds new files. No file is ever too old to be found; `promised` tells which ones
        a batch has, and `parts_of` which of them are read, and in which order."""
        self.path.require_folder()
        reader = (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("maxFileAge", _FOREVER)
            .option("recursiveFileLookup", True)
        )
        if self.path.name_filter is not None:
            reader = reader.option("pathGlobFilter", self.path.name_filter)
        return reader.load(self.path.listed).select("path")

    def read(
        self, spark: SparkSession, files: Sequence[SourceFile], aside: Mapping[SourceFile, str] = NONE
    ) -> Rows:
        """The rows of a batch's files: the source's columns, and where each row stands.

        A file that is set `aside`, with the reason, is one row; so is one that can be seen not to fit.
        """
        for file in files:
            _require_present(file)
        readable, broken = self._sorted_out(files, aside)
        counts, parts = [], []
        for part in self._parts(spark, readable):
            counts.append(Observation())
            counted = part.observe(counts[-1], F.count(F.lit(1)).alias(READ))
            parts.append(self._numbered(counted, readable))
        if broken or not parts:
            parts.append(self._unreadable(spark, broken))
        frame = reduce(lambda left, right: left.unionByName(right), parts)
        return Rows(frame, counts, len(broken))

    def unreadable(self, spark: SparkSession, files: Sequence[SourceFile]) -> dict[SourceFile, str]:
        """The files that Spark cannot read to the end, with the reason, found by halving."""
        try:
            self.read(spark, files).frame.write.format("noop").mode("overwrite").save()
        except SPARK_ERRORS as error:
            if len(files) == 1:
                return {files[0]: f"Spark cannot read it to the end: {root_cause(error)}"}
            half = len(files) // 2
            return self.unreadable(spark, files[:half]) | self.unreadable(spark, files[half:])
        return {}

    def _parts(self, spark: SparkSession, files: Sequence[SourceFile]) -> list[DataFrame]:
        if not files:
            return []
        reader = _reader(spark).option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
        declared = ddl({**self.read_columns, CORRUPT: "string"})
        match self.pipeline.source.files.format:
            case "json":
                return [reader.schema(declared).json(paths) for paths in _together(files)]
            case "parquet":
                plain = [
                    _reader(spark).schema(ddl(self.read_columns)).parquet(*paths)
                    for paths in _together(files)
                ]
                return [part.withColumn(CORRUPT, F.lit(None).cast("string")) for part in plain]
        return self._csv_parts(spark, files)

    def _csv_parts(self, spark: SparkSession, files: Sequence[SourceFile]) -> list[DataFrame]:
        """Files grouped by header: a column is found by its name, wherever it stands."""
        settings, columns = self.pipeline.source.files, self.read_columns
        groups: dict[tuple[str, ...], list[SourceFile]] = {}
        for file in files:
            header = self._header(file) if settings.header else self._headless(file)
            if header:  # else there is nothing but blank lines
                groups.setdefault(header, []).append(file)
        parts = []
        for header, paths in (
            (header, paths) for header, group in groups.items() for paths in _together(group)
        ):
            # A column that is not pinned is read as text, under a name that clashes with none, and left out.
            layout = {
                name if name in columns else f"{PRIVATE}extra_{nth}": columns.get(name, "string")
                for nth, name in enumerate(header)
            }
            part = (
                _reader(spark)
                .schema(ddl({**layout, CORRUPT: "string"}))
                .option("columnNameOfCorruptRecord", CORRUPT)
                .option("mode", "PERMISSIVE")
                .option("header", settings.header)
                .option("sep", settings.delimiter)
                .option("escape", '"')  # a quote within quotes is doubled
                .option("columnPruning", False)  # or a row too short or too long would pass
                .csv(paths)
            )
            missing = [F.lit(None).cast(kind).alias(n) for n, kind in columns.items() if n not in layout]
            kept = ["*", part.metadataColumn(_METADATA).alias(METADATA)] if self.tells_landing else ["*"]
            parts.append(part.select(*kept, *missing))
        return parts

    def _headless(self, file: SourceFile) -> tuple[str, ...]:
        """The columns of a file without a header: those that its folders do not say, as declared."""
        said = self.path.folder_values(str(file.local))
        return tuple(column for column in self.read_columns if column not in said)

    def _header(self, file: SourceFile) -> tuple[str, ...]:
        delimiter = self.pipeline.source.files.delimiter
        try:
            with open_text(file.local, encoding="utf-8-sig", errors="replace", newline="") as lines:
                return tuple(next(filter(None, csv.reader(lines, delimiter=delimiter)), ()))
        except (OSError, EOFError, zlib.error):
            return tuple(self.read_columns)  # Spark trips over it too, and then it is set aside

    def _numbered(self, part: DataFrame, files: Sequence[SourceFile]) -> DataFrame:
        """Add where each row stands: file, position in it, and, if asked for, when the file landed. Columns
        get the names that the pipeline has for them.

        A row's number within its part of the file plus the byte at which that part starts is unique
        and ascending; in a file that was not split it is the row's number. Spark's metadata are avoided
        where they can be: a single column of them makes Spark copy every row once more.
        """
        position = F.expr(f"input_file_block_start() + (monotonically_increasing_id() & {_ROW_BITS}L)")
        about = F.col(METADATA) if METADATA in part.columns else part.metadataColumn(_METADATA)
        if self.pipeline.source.files.format == "parquet":
            position = about.getField("row_index")
        named = self.pipeline.source_name
        origin = _PATH if self.path.many_folders else _below_base(files, self.path.base)
        numbered = part.select(
            *(F.col(quoted(named(column))).alias(column) for column in self.columns),
            CORRUPT,
            F.lit(None).cast("string").alias(BROKEN),
            F.expr(origin).alias(ORIGIN),
            F.expr(_PATH).alias(FULL_ORIGIN),
            position.alias(POSITION),
            *([about.getField("file_modification_time").alias(LANDED)] if self.tells_landing else []),
        )
        return self._with_folders(numbered, files)

    def _with_folders(self, rows: DataFrame, files: Sequence[SourceFile]) -> DataFrame:
        """Fill in what the folders of a file say (`day=2013-01-01`) where the row itself says nothing."""
        said = {file: self.path.folder_values(str(file.local)) for file in files}
        keys = set().union(*said.values())
        columns = {
            column: key for column in self.columns if (key := self.pipeline.source_name(column)) in keys
        }
        if not columns:
            return rows
        encoded: Any = rows.sparkSession._jvm.org.apache.spark.paths.SparkPath  # type: ignore[union-attr]
        places = {FULL_ORIGIN: pa.array([encoded.fromPathString(file.path).urlEncoded() for file in said])}
        values = {
            f"{_FOLDER}{column}": pa.array([each.get(key) for each in said.values()], pa.string())
            for column, key in columns.items()
        }
        folders = rows.sparkSession.createDataFrame(pa.table({**places, **values}))
        filled = {
            column: f"coalesce({quoted(column)}, try_cast({quoted(_FOLDER + column)} as {self.columns[column]}))"
            for column in columns
        }
        return rows.join(F.broadcast(folders), FULL_ORIGIN, "left").select(
            *(F.expr(filled.get(name, quoted(name))).alias(name) for name in rows.columns)
        )

    @property
    def tells_landing(self) -> bool:
        """Whether each row says when its file landed: as its arrival, or to order it among equals."""
        pipeline = self.pipeline
        return pipeline.source.files.order_by is None or pipeline.watermark.every == "event"

    def _sorted_out(
        self, files: Sequence[SourceFile], aside: Mapping[SourceFile, str]
    ) -> tuple[list[SourceFile], list[tuple[SourceFile, str]]]:
        """The files that Spark can read, and those it cannot, with the reason."""
        readable, broken = [], []
        for file in files:
            reason = aside.get(file) or self._misfit(file)
            if reason is None:
                readable.append(file)
            else:
                broken.append((file, reason))
        return readable, broken

    def _misfit(self, file: SourceFile) -> str | None:
        settings = self.pipeline.source.files
        for key, value in self.path.folder_values(str(file.local)).items():
            if not fits(value, self.read_columns.get(key, "string")):
                return f"its folder says {key}={value}, and {key} is {self.read_columns[key]}"
        if settings.format == "parquet":
            return self._misshapen(file)
        return self._misled(file) if settings.format == "csv" and settings.header else None

    def _misled(self, file: SourceFile) -> str | None:
        """Why a CSV file's header cannot be followed."""
        try:
            header = self._header(file)
        except csv.Error as error:
            return f"the header cannot be read: {error}"
        known = [name for name in header if name in self.read_columns]
        if len(known) > len(set(known)):
            return f"the header names a column twice: {', '.join(known)}"
        if header and not known:
            return f"the header names none of the columns {', '.join(self.read_columns)}"
        return None

    def _misshapen(self, file: SourceFile) -> str | None:
        """Why Spark could not read a Parquet file as pinned."""
        try:
            schema = pq.read_schema(file.local)
        except (OSError, pa.ArrowInvalid) as error:
            return f"not a readable Parquet file: {error}"
        found = arrow_columns(schema)
        for column, pinned in self.read_columns.items():
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
        told = list(broken)
        columns = {
            BROKEN: pa.array([reason for _, reason in told], pa.string()),
            ORIGIN: pa.array([file.path for file, _ in told], pa.string()),
            POSITION: pa.array([0] * len(told), pa.int64()),
            "landed": pa.array([file.landed for file, _ in told], pa.int64()),
        }
        reasons = spark.createDataFrame(pa.table(columns))
        return reasons.select(
            *(F.lit(None).cast(kind).alias(column) for column, kind in self.columns.items()),
            F.lit(None).cast("string").alias(CORRUPT),
            BROKEN,
            ORIGIN,
            F.col(ORIGIN).alias(FULL_ORIGIN),
            POSITION,
            *([F.timestamp_micros("landed").alias(LANDED)] if self.tells_landing else []),
        )


def promised(checkpoint: Path, batch: int) -> list[SourceFile]:
    """The files that Spark's checkpoint names for a batch of the stream.

    A file that is gone by the time a batch is run, or run again, is left out of it without a word.
    The checkpoint still names it.
    """
    log = checkpoint / "sources" / "0"
    found = []
    for number in range(_offset(checkpoint, batch - 1) + 1, _offset(checkpoint, batch) + 1):
        plain = log / str(number)
        lines = (plain if plain.exists() else log / f"{number}.compact").read_text("utf-8").splitlines()
        found += [json.loads(line) for line in lines if line.endswith(f'"batchId":{number}}}')]
    named = [(unquote(entry["path"]), entry["timestamp"] * 1000) for entry in found]
    return [SourceFile(path, landed, _size(path)) for path, landed in named]


def _size(path: str) -> int:
    """A file's size; 0 where it is gone."""
    try:
        return SourceFile(path, 0, 0).local.stat().st_size
    except OSError:
        return 0


def _offset(checkpoint: Path, batch: int) -> int:
    if batch < 0:
        return -1
    last_line = (checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()[-1]
    return int(json.loads(last_line)["logOffset"])


def _reader(spark: SparkSession) -> DataFrameReader:
    """A reader that takes a path for what it is, not for a pattern."""
    return spark.read.option("__globPaths__", "false")


def _together(files: Sequence[SourceFile]) -> list[list[str]]:
    """Paths that may be read in one go. Spark reads files more than once if one looks like a pattern."""
    odd = [[file.path] for file in files if _PATTERN & set(file.path)]
    plain = [file.path for file in files if not _PATTERN & set(file.path)]
    return [plain, *odd] if plain else odd


def _below_base(files: Sequence[SourceFile], base: str) -> str:
    """The path of a row's file below the folder of the source, in SQL. To cut it off by its length is much
    faster than looking for the last slash in every row; where Spark may write it otherwise, names that lie in
    the folder itself are looked for, and others left whole."""
    start = f"file://{base.rstrip('/')}/"
    flat = all(str(file.local.parent) == base for file in files)
    name = f"substring_index({_PATH}, '/', -1)" if flat else _PATH
    if any(mark in start for mark in "'\\"):
        return name
    return f"if(startswith({_PATH}, '{start}'), {some_bytes(_PATH, len(start.encode()) + 1)}, {name})"


def _require_present(file: SourceFile) -> None:
    """What is damaged can be set aside; what is not there may come back, and is waited for."""
    try:
        with open(file.local, "rb"):
            return
    except OSError as error:
        raise SourceError(
            f"{file.local} was found, and now it cannot be opened ({error.strerror}); bring it back and run "
            "again, or put an empty file in its place to go on without it"
        ) from None
