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
from functools import reduce
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.columns import arrow_columns, open_text
from latecomer.config.models import Pipeline
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
            parts.append(self._numbered(counted, _file_name(readable)))
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
        declared = ddl({**self.columns, CORRUPT: "string"})
        match self.pipeline.source.files.format:
            case "json":
                return [reader.schema(declared).json(paths) for paths in _together(files)]
            case "parquet":
                plain = [
                    _reader(spark).schema(ddl(self.columns)).parquet(*paths) for paths in _together(files)
                ]
                return [part.withColumn(CORRUPT, F.lit(None).cast("string")) for part in plain]
        return self._csv_parts(spark, files)

    def _csv_parts(self, spark: SparkSession, files: Sequence[SourceFile]) -> list[DataFrame]:
        """Files grouped by header: a column is found by its name, wherever it stands."""
        settings = self.pipeline.source.files
        groups: dict[tuple[str, ...], list[SourceFile]] = {}
        for file in files:
            header = self._header(file) if settings.header else tuple(self.columns)
            if header:  # else there is nothing but blank lines
                groups.setdefault(header, []).append(file)
        parts = []
        for header, paths in (
            (header, paths) for header, group in groups.items() for paths in _together(group)
        ):
            # A column that is not pinned is read as text, under a name that clashes with none, and left out.
            layout = {
                name if name in self.columns else f"{PRIVATE}extra_{nth}": self.columns.get(name, "string")
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
            missing = [F.lit(None).cast(kind).alias(n) for n, kind in self.columns.items() if n not in layout]
            kept = ("*", "_metadata") if self.tells_landing else ("*",)
            parts.append(part.select(*kept, *missing) if missing else part)
        return parts

    def _header(self, file: SourceFile) -> tuple[str, ...]:
        delimiter = self.pipeline.source.files.delimiter
        try:
            with open_text(file.local, encoding="utf-8-sig", errors="replace", newline="") as lines:
                return tuple(next(filter(None, csv.reader(lines, delimiter=delimiter)), ()))
        except (OSError, EOFError, zlib.error):
            return tuple(self.columns)  # Spark trips over it too, and then it is set aside

    def _numbered(self, part: DataFrame, name: str) -> DataFrame:
        """Add where each row stands: file, position in it, and, if asked for, when the file landed.

        A row's number within its part of the file plus the byte at which that part starts is unique
        and ascending; in a file that was not split it is the row's number. `_metadata` is avoided where
        it can be: a single column of it makes Spark copy every row once more.
        """
        if self.pipeline.source.files.format == "parquet":
            position = "_metadata.row_index"
        else:
            position = f"input_file_block_start() + (monotonically_increasing_id() & {_ROW_BITS}L)"
        return part.selectExpr(
            *map(quoted, self.columns),
            CORRUPT,
            f"cast(null as string) as {BROKEN}",
            f"{_PATH if self._many_folders else name} as {ORIGIN}",
            f"{_PATH} as {FULL_ORIGIN}",
            f"{position} as {POSITION}",
            *([f"_metadata.file_modification_time as {LANDED}"] if self.tells_landing else []),
        )

    @property
    def tells_landing(self) -> bool:
        """Whether each row says when its file landed: as its arrival, or to order it among equals."""
        pipeline = self.pipeline
        return pipeline.source.files.order_by is None or pipeline.watermark.every == "event"

    @property
    def _many_folders(self) -> bool:
        """Whether files of several folders are read, so that a file's name alone does not tell it apart."""
        return any(mark in str(Path(self.pipeline.source_path).parent) for mark in "*?[{")

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
        if settings.format == "parquet":
            return self._misshapen(file)
        return self._misled(file) if settings.format == "csv" and settings.header else None

    def _misled(self, file: SourceFile) -> str | None:
        """Why a CSV file's header cannot be followed."""
        try:
            header = self._header(file)
        except csv.Error as error:
            return f"the header cannot be read: {error}"
        known = [name for name in header if name in self.columns]
        if len(known) > len(set(known)):
            return f"the header names a column twice: {', '.join(known)}"
        if header and not known:
            return f"the header names none of the columns {', '.join(self.columns)}"
        return None

    def _misshapen(self, file: SourceFile) -> str | None:
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
    return [SourceFile(unquote(entry["path"]), entry["timestamp"] * 1000, 0) for entry in found]


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


def _file_name(files: Sequence[SourceFile]) -> str:
    """The name of the file that a row comes from, in SQL. Where all files are in one folder it is what
    follows the folder's name, which is much faster than looking for the last slash in every row."""
    name = f"substring_index({_PATH}, '/', -1)"
    folders = {str(file.local.parent) for file in files}
    start = f"file://{folders.pop().rstrip('/')}/" if len(folders) == 1 else "'"
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
