"""Files as a source: Structured Streaming finds them, latecomer reads them.

The stream carries a manifest, not the data: path, modification time and size of each new file. So a
batch knows exactly which files it is made of, reads them with the plain batch reader (columns pruned,
positions kept), and can set aside a file that cannot be read.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.columns import csv_row
from latecomer.config.damage import DamagedFile, damage_found
from latecomer.config.encodings import UTF8, file_encoding, is_text, open_text, other_encoding
from latecomer.config.models import Pipeline
from latecomer.config.parquet import ParquetColumns, parquet_columns
from latecomer.config.paths import SourcePath, fits, special_kind
from latecomer.errors.system import refusal_of
from latecomer.model.types import is_decimal
from latecomer.source import lines
from latecomer.source.decimals import decimals_as_text, misfits, number, numbers
from latecomer.source.limits import Limits, LongLine
from latecomer.source.lines import METADATA
from latecomer.source.parquet import from_nanos, not_text
from latecomer.source.retrying import (
    State,
    cannot_be_opened,
    may_pass,
    reading,
    require_readable,
    require_unchanged,
    states_of,
)
from latecomer.spark.errors import SPARK_ERRORS, causes, root_cause
from latecomer.store.sql import ddl, quoted, some_bytes

LOG = logging.getLogger(__name__)
CORRUPT = f"{PRIVATE}corrupt"
ORIGIN = f"{PRIVATE}origin"
FULL_ORIGIN = f"{PRIVATE}full_origin"
POSITION = f"{PRIVATE}position"
LANDED = f"{PRIVATE}landed"
BROKEN = f"{PRIVATE}broken"
READ = f"{PRIVATE}read"
DOUBTFUL = f"{PRIVATE}doubtful"

SETTINGS = {**lines.SETTINGS, "spark.sql.legacy.parquet.nanosAsLong": "true"}
"""What the session that reads needs."""
_FOLDER = f"{PRIVATE}folder_"
"""Before the name of a column: what a file's folders say of it."""
_METADATA = "_metadata"

_ROW_BITS = (1 << 33) - 1
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDENINGS = {("float", "double"), *combinations(_INTEGERS, 2)}
_PATTERN = set("*?[]{}\\")
_FOREVER = "100000d"
_PATH = "input_file_name()"
_LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength"
"""Lines of so many bytes or more are passed over by Hadoop. It is right only in files that are read in one piece."""
_LONGEST_HEADER, _BYTES_OF_A_CHARACTER = 1 << 20, 4
_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as the stream found it."""

    path: str
    landed: int
    size: int

    @property
    def local(self) -> Path:
        return Path("/" + self.path.removeprefix("file:").lstrip("/"))


NewReader = Callable[[], DataFrameReader]
"""Makes a reader: whatever is set on one stays set on it."""
NONE: Mapping[SourceFile, str] = MappingProxyType({})


@dataclass(frozen=True)
class _Aside:
    """What is a dead letter before Spark reads anything: a file, with the reason, or a line of it."""

    file: SourceFile
    reason: str
    line: LongLine | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a batch, and how many were read: counted where they come in, before anything is done."""

    frame: DataFrame
    counts: Sequence[Observation]
    broken: int
    in_one_piece: bool = False
    """Whether files must not be split among tasks: a line that is passed over would leave a piece of it."""

    def counted(self) -> int:
        """How many rows there were, once they have been read; a file set aside is one."""
        return self.broken + sum(int(count.get[READ]) for count in self.counts)

    def doubtful(self) -> bool:
        """Whether any row's bytes are needed after all: once they have been read."""
        return any(count.get.get(DOUBTFUL) for count in self.counts)


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
        """The stream that finds new files. No file is ever too old to be found; `files_of_batch` tells which ones
        a batch has, and `parts_of` which of them are read, and in which order."""
        self.path.require_folder()
        self.path.require_end()
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
        self,
        spark: SparkSession,
        files: Sequence[SourceFile],
        aside: Mapping[SourceFile, str] = NONE,
        by_line: bool = False,
    ) -> Rows:
        """The rows of a batch's files: the source's columns, and where each row stands.

        A file that is set `aside`, with the reason, is one row; so is one that can be seen not to fit.
        `by_line` reads text with the bytes of each line at hand, for a batch that was doubtful.
        """
        for file in files:
            _require_present(file)
        readable, broken = self.sorted_out(files, aside)
        counts, parts = [], []
        by_line = by_line or self.pipeline.source.files.encoding != UTF8
        for limited, group in _grouped(readable, lambda file: bool(self.long_lines(file))).items():
            longest = self.pipeline.source.files.max_line if limited else None
            for part in self._parts(partial(_reader, spark, longest), group, by_line):
                counts.append(Observation())
                counted = self._counted(part, counts[-1], by_line)
                parts.append(self._numbered(counted, readable, by_line))
        set_aside = [_Aside(file, reason) for file, reason in broken]
        set_aside += [_Aside(file, "", line) for file in readable for line in self.long_lines(file)]
        if set_aside or not parts:
            parts.append(self._unreadable(spark, set_aside))
        frame = reduce(lambda left, right: left.unionByName(right), parts)
        return Rows(frame, counts, len(set_aside), any(each.line for each in set_aside))

    def long_lines(self, file: SourceFile) -> tuple[LongLine, ...]:
        """The lines of a text file that are longer than the pipeline allows; `DamagedFile` if it cannot be told."""
        settings = self.pipeline.source.files
        if settings.format == "parquet":
            return ()
        limits = Limits(settings.max_line, settings.max_unpacked)
        with reading(file.local):
            found = _long_lines_of(file, limits, self.encoding_of(file))
        if isinstance(found, str):
            raise DamagedFile(found)
        return found

    def unreadable(self, spark: SparkSession, files: Sequence[SourceFile]) -> dict[SourceFile, str]:
        """The files that Spark cannot read to the end, with the reason, found by halving.

        A `PassingError` where it is not the bytes of a file that are to blame.
        """
        before = states_of(file.local for file in files)
        try:
            self.read(spark, files).frame.write.format("noop").mode("overwrite").save()
        except SPARK_ERRORS as error:
            if len(files) == 1:
                _require_format_error(files[0].local, error, before)
                return {files[0]: _told(root_cause(error))}
            half = len(files) // 2
            return self.unreadable(spark, files[:half]) | self.unreadable(spark, files[half:])
        return {}

    def _counted(self, part: DataFrame, counts: Observation, by_line: bool) -> DataFrame:
        """Note in passing how many rows there are, and how many of them are doubtful."""
        rows, doubt = F.count(F.lit(1)).alias(READ), self._doubt(part)
        if doubt is None or by_line:
            return part.observe(counts, rows)
        # As a column it is part of the generated code, which an observation by itself is not.
        marked = part.withColumn(DOUBTFUL, doubt)
        return marked.observe(counts, rows, F.count_if(DOUBTFUL).alias(DOUBTFUL))

    def _doubt(self, part: DataFrame) -> Column | None:
        """Whether the bytes of a row are needed, which Spark's readers do not keep: for text in CSV that may not
        be UTF-8, and for a number that its decimal column does not take."""
        kind, doubt = self.pipeline.source.files.format, None
        if kind != "parquet" and self._decimals:
            doubt = F.expr(misfits(self._decimals))
        if kind == "csv":
            replaced = lines.holds_replacement(part)
            doubt = replaced if doubt is None else replaced | doubt
        return doubt

    @cached_property
    def _decimals(self) -> dict[str, str]:
        """The decimal columns under the source's names for them."""
        return {name: kind for name, kind in self.read_columns.items() if is_decimal(kind)}

    def _parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        if not files:
            return []
        match self.pipeline.source.files.format:
            case "parquet":
                return self._parquet_parts(reader, files)
            case "json" if not by_line:
                columns = ddl({**decimals_as_text(self.read_columns), CORRUPT: "string"})
                return [
                    reader().options(**_PERMISSIVE).schema(columns).json(paths) for paths in _together(files)
                ]
            case "json":
                return [
                    lines.json_lines(reader(), paths, encoding, self.read_columns, CORRUPT, _PERMISSIVE)
                    for encoding, group in _grouped(files, self.encoding_of).items()
                    for paths in _together(group)
                ]
        return self._csv_parts(reader, files, by_line)

    def encoding_of(self, file: SourceFile) -> str:
        with reading(file.local):
            return file_encoding(file.local, self.pipeline.source.files.encoding)

    def _parquet_parts(self, reader: NewReader, files: Sequence[SourceFile]) -> list[DataFrame]:
        """Files grouped by the columns that hold nanoseconds, which Spark hands over as numbers."""

        def nanoseconds(file: SourceFile) -> frozenset[str]:
            return _columns_of(file).nanoseconds & set(self.read_columns)

        parts = []
        for in_nanos, group in _grouped(files, nanoseconds).items():
            stored = {
                name: "bigint" if name in in_nanos else kind for name, kind in self.read_columns.items()
            }
            converted = {name: F.expr(from_nanos(name, self.read_columns[name])) for name in sorted(in_nanos)}
            for paths in _together(group):
                part = reader().schema(ddl(stored)).parquet(*paths).withColumns(converted)
                parts.append(part.withColumn(CORRUPT, F.expr(not_text(self.read_columns))))
        return parts

    def _csv_parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """Files grouped by header and encoding: a column is found by its name, wherever it stands."""
        settings, columns = self.pipeline.source.files, self.read_columns
        options = {
            **_PERMISSIVE,
            "sep": settings.delimiter,
            "escape": '"',  # a quote within quotes is doubled
        }
        parts = []
        for (header, encoding), group in _grouped(
            files, lambda file: (self.header(file), self.encoding_of(file))
        ).items():
            if not header:  # there is nothing but blank lines
                continue
            # A column that is not pinned is read as text, under a name that clashes with none, and left out.
            layout = {
                name if name in columns else f"{PRIVATE}extra_{nth}": columns.get(name, "string")
                for nth, name in enumerate(header)
            }
            for paths in _together(group):
                if by_line:
                    part = lines.csv_lines(
                        reader(), paths, encoding, layout, CORRUPT, options, settings.header
                    )
                else:
                    part = (
                        reader()
                        .schema(ddl({**decimals_as_text(layout), CORRUPT: "string"}))
                        .options(**options)
                        .option("header", settings.header)
                        .option("columnPruning", False)  # or a row too short or too long would pass
                        .csv(paths)
                    )
                    if self.tells_landing:
                        part = part.select("*", part.metadataColumn(_METADATA).alias(METADATA))
                missing = [F.lit(None).cast(kind).alias(n) for n, kind in columns.items() if n not in layout]
                parts.append(part.select("*", *missing))
        return parts

    def _headless(self, file: SourceFile) -> tuple[str, ...]:
        """The columns of a file without a header: those that its folders do not say, as declared."""
        said = self.path.folder_values(str(file.local))
        return tuple(column for column in self.read_columns if column not in said)

    def header(self, file: SourceFile) -> tuple[str, ...]:
        """The names of a CSV file's columns, in their order; none where it has only blank lines. `DamagedFile`
        where they cannot be read."""
        settings = self.pipeline.source.files
        if not settings.header:
            return self._headless(file)
        with (
            reading(file.local),
            damage_found("csv"),
            open_text(file.local, settings.encoding, newline="") as text,
        ):
            left = longest = min(settings.max_line // _BYTES_OF_A_CHARACTER, _LONGEST_HEADER)
            while line := text.readline(left):
                left -= len(line)
                if left == 0:
                    raise DamagedFile(f"it is not in the first {longest} characters")
                if row := csv_row(line.rstrip("\r\n"), settings.delimiter):
                    return tuple(row)
        return ()

    def _numbered(self, part: DataFrame, files: Sequence[SourceFile], by_line: bool) -> DataFrame:
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
        # By line they are numbers already, as in Parquet.
        in_text = {} if by_line or self.pipeline.source.files.format == "parquet" else numbers(self._decimals)
        origin = _PATH if self.path.many_folders else _below_base(files, self.path.base)
        numbered = part.select(
            *(
                F.expr(in_text.get(named(column), quoted(named(column)))).alias(column)
                for column in self.columns
            ),
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
            column: f"coalesce({quoted(column)}, {_of_folder(quoted(_FOLDER + column), self.columns[column])})"
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

    def sorted_out(
        self, files: Sequence[SourceFile], aside: Mapping[SourceFile, str]
    ) -> tuple[list[SourceFile], list[tuple[SourceFile, str]]]:
        """The files that Spark can read, and those it cannot, with the reason."""
        readable, broken = [], []
        with ThreadPoolExecutor(os.cpu_count(), "latecomer-files") as pool:
            # Compressed files are unpacked for it, which leaves the cores to others.
            reasons = list(pool.map(lambda file: aside.get(file) or self._misfit(file), files))
        for file, reason in zip(files, reasons, strict=True):
            if reason is None:
                readable.append(file)
            else:
                broken.append((file, reason))
        return readable, broken

    def _misfit(self, file: SourceFile) -> str | None:
        settings = self.pipeline.source.files
        if (kind := special_kind(file.local)) is not None:
            return f"it is {kind}, not a file"
        for key, value in self.path.folder_values(str(file.local)).items():
            if not fits(value, self.read_columns.get(key, "string")):
                return f"its folder says {key}={value}, and {key} is {self.read_columns[key]}"
        if settings.format == "parquet":
            return self._misshapen(file)
        try:
            self.long_lines(file)
        except DamagedFile as error:
            return str(error)
        return self._misled(file) if settings.format == "csv" and settings.header else None

    def _misled(self, file: SourceFile) -> str | None:
        """Why a CSV file's header cannot be followed."""
        encoding = self.pipeline.source.files.encoding
        try:
            header = self.header(file)
        except DamagedFile as error:
            return f"the header cannot be read: {error}"
        if not all(is_text(name, encoding) for name in header):
            return f"the header is not {encoding}; {other_encoding(encoding)}"
        known = [name for name in header if name in self.read_columns]
        if len(known) > len(set(known)):
            return f"the header names a column twice: {', '.join(known)}"
        if header and not known:
            return f"the header names none of the columns {', '.join(self.read_columns)}"
        return None

    def _misshapen(self, file: SourceFile) -> str | None:
        """Why Spark could not read a Parquet file as pinned."""
        try:
            with reading(file.local):
                found = _columns_of(file)
        except DamagedFile as error:
            return f"not a readable Parquet file: {error}"
        return next(self._misfits(found), None)

    def _misfits(self, found: ParquetColumns) -> Iterator[str]:
        for column, pinned in self.read_columns.items():
            kind = found.kinds.get(column) or found.left_out.get(column)
            if column in found.int96 and pinned == "timestamp_ntz":
                continue
            if kind is not None and kind != pinned and (kind, pinned) not in _WIDENINGS:
                yield f"column {column} is {kind}, pinned as {pinned}"

    def _unreadable(self, spark: SparkSession, aside: Sequence[_Aside]) -> DataFrame:
        """One row for each file that cannot be read, and each line that is too long, to be filed as a dead letter."""
        columns = {
            BROKEN: pa.array([each.reason for each in aside], pa.string()),
            CORRUPT: pa.array([each.line and each.line.first for each in aside], pa.binary()),
            ORIGIN: pa.array([each.file.path for each in aside], pa.string()),
            POSITION: pa.array([each.line.start if each.line else 0 for each in aside], pa.int64()),
            "landed": pa.array([each.file.landed for each in aside], pa.int64()),
        }
        reasons = spark.createDataFrame(pa.table(columns))
        return reasons.select(
            *(F.lit(None).cast(kind).alias(column) for column, kind in self.columns.items()),
            F.col(CORRUPT).cast("string"),
            BROKEN,
            ORIGIN,
            F.col(ORIGIN).alias(FULL_ORIGIN),
            POSITION,
            *([F.timestamp_micros("landed").alias(LANDED)] if self.tells_landing else []),
        )


@lru_cache(maxsize=4096)
def _columns_of(file: SourceFile) -> ParquetColumns:
    return parquet_columns(file.local)


@lru_cache(maxsize=4096)
def _long_lines_of(file: SourceFile, limits: Limits, encoding: str) -> tuple[LongLine, ...] | str:
    """The lines, or why they cannot be told: a batch may be read several times, and unpacking takes long."""
    try:
        return limits.long_lines(file.local, encoding)
    except DamagedFile as error:
        return str(error)


def _told(reason: str) -> str:
    """Why Spark gave up on a file."""
    if "OutOfMemoryError" in reason:
        return (
            "Spark runs out of memory over it: it is damaged, or too large for LATECOMER_MEMORY "
            f"({reason.partition('OutOfMemoryError: ')[2]})"
        )
    return f"Spark cannot read it to the end: {reason}"


_Group = TypeVar("_Group")


def _grouped(
    files: Sequence[SourceFile], group_of: Callable[[SourceFile], _Group]
) -> dict[_Group, list[SourceFile]]:
    groups: dict[_Group, list[SourceFile]] = {}
    for file in files:
        groups.setdefault(group_of(file), []).append(file)
    return groups


def _of_folder(text: str, kind: str) -> str:
    """What a folder says, in the column's type."""
    return number(text, kind) if is_decimal(kind) else f"try_cast({text} as {kind})"


def _reader(spark: SparkSession, longest: int | None) -> DataFrameReader:
    """A reader that takes a path for what it is, not for a pattern, and passes over lines longer than that."""
    reader = spark.read.option("__globPaths__", "false")
    return reader if longest is None else reader.option(_LONGEST_LINE, longest + 1)


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
    """What is damaged can be set aside; what is not there may come back, and is waited for. What is no file is not
    opened: a pipe would keep us waiting."""
    with reading(file.local):
        if stat.S_ISREG(os.stat(file.local).st_mode):
            os.close(os.open(file.local, os.O_RDONLY | os.O_NONBLOCK))


def _require_format_error(file: Path, error: BaseException, before: Mapping[Path, State]) -> None:
    """See that it is the bytes of a file that Spark cannot read: that it can be got at, and is what it was."""
    _columns_of.cache_clear()
    _long_lines_of.cache_clear()
    require_readable(file)
    require_unchanged(before)
    chain = list(causes(error))
    if may_pass(chain):
        raise cannot_be_opened(file, root_cause(error))
    if any(map(refusal_of, chain)):
        raise error
