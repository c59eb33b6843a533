"""Files as a source: Structured Streaming finds them, latecomer reads them.

The stream carries a manifest, not the data: path, modification time and size of each new file. So a
batch knows exactly which files it is made of, reads them with the plain batch reader (columns pruned,
positions kept), and can set aside a file that cannot be read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.paths import SourcePath, fits, special_kind
from latecomer.decode import lines, parquet
from latecomer.decode.avro import forget_avro_files
from latecomer.decode.base import FileDecoder
from latecomer.decode.choose import decoder_settings, file_decoder
from latecomer.decode.columns import CORRUPT, KEPT, METADATA
from latecomer.decode.decimals import number
from latecomer.decode.files import SourceFile, grouped
from latecomer.decode.limits import LongLine
from latecomer.decode.parquet import forget_parquet_files
from latecomer.decode.retrying import (
    State,
    cannot_be_opened,
    may_pass,
    patiently,
    reading,
    require_readable,
    require_unchanged,
    states_of,
)
from latecomer.decode.text import forget_text_files
from latecomer.errors import SourceOutage
from latecomer.errors.system import refusal_of
from latecomer.fast import MOST_READ, MOST_ROWS, Declined
from latecomer.model.types import is_decimal, is_nested
from latecomer.source.base import Clock, Letters, Loaded, Rows, Slice, StreamedSource, beside, together
from latecomer.source.checkpoint import files_of_batch, repair_found, sync_found
from latecomer.source.columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN, POSITION, READ
from latecomer.source.letters import FileLetters
from latecomer.source.parts import parts_of, require_next
from latecomer.spark.errors import SPARK_ERRORS, causes, in_words, root_cause
from latecomer.store.sql import quoted, some_bytes

_DOUBTFUL = f"{PRIVATE}doubtful"
_FOLDER = f"{PRIVATE}folder_"
"""Before the name of a column: what a file's folders say of it."""
_METADATA = "_metadata"

_ROW_BITS = (1 << 33) - 1
_FOREVER = "100000d"
_PATH = "input_file_name()"
_LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength"
"""Lines of so many bytes or more are passed over by Hadoop. It is right only in files that are read in one piece."""
LEAST_BYTES, MOST_BYTES = 4 << 20, 128 << 20
BIG = 64 << 20
"""Beyond this many bytes a batch is written by more tasks than there are cores, so that what completes
the batch before need not wait for a core as long."""

_PLAIN_PATH = re.compile("[A-Za-z0-9._/=-]+")
"""Paths that Spark writes as they are."""

NONE: Mapping[SourceFile, str] = MappingProxyType({})
_Written = TypeVar("_Written")


@dataclass(frozen=True)
class FileSlice(Slice):
    """Some files."""

    files: Sequence[SourceFile]

    @classmethod
    def of(cls, files: Sequence[SourceFile]) -> FileSlice:
        return cls(max(file.landed for file in files), files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def parts(self) -> Sequence[FileSlice]:
        """A file each."""
        return [replace(self, files=[file]) for file in self.files]

    def of_parts(self, parts: Sequence[Slice]) -> FileSlice:
        return replace(self, files=[file for part in parts for file in _files_of(part)])

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """The log names a file by its path, or by the end of it."""
        paths = [(file.local.parts[1:], file.landed) for file in self.files]
        landed = {"/".join(parts[nth:]): at for parts, at in paths for nth in range(len(parts))}
        return {origin: landed.get(_plain(origin), 0) for origin in origins}


@dataclass(frozen=True)
class _Aside:
    """What is a dead letter before Spark reads anything: a file, with the reason, or a line of it."""

    file: SourceFile
    reason: str
    line: LongLine | None = None


@dataclass(frozen=True)
class FileRows(Rows):
    """The rows of files."""

    def doubtful(self) -> bool:
        """Whether any row's bytes are needed after all: once they have been read."""
        return any(count.get.get(_DOUBTFUL) for count in self.counts)


@dataclass(frozen=True)
class FileSource(StreamedSource):
    """The pipeline's files."""

    settings: ClassVar[Mapping[str, str]] = MappingProxyType({**lines.SETTINGS, **parquet.SETTINGS})

    @cached_property
    def path(self) -> SourcePath:
        return SourcePath(self.pipeline.source_path)

    @cached_property
    def decoder(self) -> FileDecoder:
        return file_decoder(self.pipeline, self.read_columns, self._folder_values, self.gives_landing)

    def session(self) -> Mapping[str, str]:
        return decoder_settings(self.pipeline)

    def require(self) -> None:
        self.path.require_folder()

    def stream(self, spark: SparkSession) -> DataFrame:
        """The stream that finds new files. No file is ever too old to be found; `slices` tells which
        of them a batch reads, and in which order."""
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

    def slices(self, checkpoint: Path, root: Path, source_batch: int) -> list[FileSlice]:
        """The checkpoint names a batch's files, those too that have gone since; Spark's own frame would not."""
        files, most = files_of_batch(checkpoint, source_batch), self.pipeline.files.max_files_per_batch
        return [
            FileSlice.of(part)
            for part in parts_of(root, source_batch, files, self.pipeline.source_path, most)
        ]

    def repair(self, checkpoint: Path, accepted: int, logged: bool) -> None:
        repair_found(checkpoint, accepted, logged)

    def sync(self, checkpoint: Path, source_batch: int) -> None:
        sync_found(checkpoint, source_batch)

    def require_next(self, root: Path, source_batch: int, last: int, parts: int) -> None:
        require_next(root, source_batch, last, parts)

    def letters(self, piece: Slice) -> Letters:
        return FileLetters(self.pipeline, self.read_columns, self.decoder, _files_of(piece))

    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        """A file that cannot be read to the end is set aside, and one that cannot be got at is tried again."""
        files = _files_of(piece)

        def attempt() -> _Written:
            before = states_of(file.local for file in files)
            try:
                written = self._poured(spark, files, write)
            except SPARK_ERRORS as error:
                aside = self.unreadable(spark, files)
                if not aside:
                    if may_pass(list(causes(error))):  # and it has passed: all of them can be read now
                        raise SourceOutage(in_words(error, ())) from error
                    raise
                written = self._poured(spark, files, write, aside)
            require_unchanged(before)
            return written

        return patiently(attempt)

    def require_fast(self) -> None:
        self.decoder.require_fast()

    def load(self, piece: Slice) -> Loaded:
        """Files that are plain, in folders and under names that need no escaping."""
        self.require_fast()
        files = _files_of(piece)
        if not files or piece.size > MOST_READ:
            raise Declined("a large batch, or none")
        if not all(_PLAIN_PATH.fullmatch(str(file.local)) for file in files):
            raise Declined("paths that have to be escaped")
        if any(self._folder_values(file) for file in files):
            raise Declined("folders that say something of the rows")
        try:
            before = {file.local: _state(file.local) for file in files}
            parts = list(self._loaded(files))
            after = {file.local: _state(file.local) for file in files}
        except OSError:
            raise Declined("a file that cannot be read") from None
        if before != after:
            raise Declined("a file that was changed while it was read")
        clock = Clock.FILE if self.pipeline.order_by is None else Clock.COLUMN
        return Loaded(together(parts), clock)

    def _loaded(self, files: Sequence[SourceFile]) -> Iterator[pa.Table]:
        left = MOST_ROWS
        for file in files:
            rows = self._load(file)
            left -= rows.num_rows
            if left < 0:
                raise Declined("a large batch")
            yield rows

    def _load(self, file: SourceFile) -> pa.Table:
        path, status = str(file.local), file.local.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Declined("what is no file")
        rows = self.decoder.load(file)
        count, base = rows.num_rows, f"{self.path.base.rstrip('/')}/"
        if not path.startswith(base):
            raise Declined("a file beside the folder of the source")
        origin = f"file://{path}" if self.path.many_folders else path[len(base) :]
        landed = status.st_mtime_ns // 1_000_000 * 1000
        where = {
            ORIGIN: pa.repeat(pa.scalar(origin, pa.string()), count),
            POSITION: pa.array(np.arange(count, dtype=np.int64)),
            LANDED: pa.repeat(pa.scalar(landed, pa.int64()), count),
        }
        named = {name: rows.column(self.pipeline.source_name(name)) for name in self.columns}
        return pa.table({**named, **where, **beside(rows)})

    def _poured(
        self,
        spark: SparkSession,
        files: Sequence[SourceFile],
        write: Callable[[Rows], _Written],
        aside: Mapping[SourceFile, str] = NONE,
    ) -> _Written:
        """What `write` makes of the rows; of a batch that was doubtful, with the bytes of each line at hand."""
        rows = self.rows(spark, files, aside)
        written = write(rows)
        return write(self.rows(spark, files, aside, by_line=True)) if rows.doubtful() else written

    def rows(
        self,
        spark: SparkSession,
        files: Sequence[SourceFile],
        aside: Mapping[SourceFile, str] = NONE,
        by_line: bool = False,
    ) -> FileRows:
        """The rows of files: the source's columns, and where each row stands.

        A file that is set `aside`, with the reason, is one row; so is one that can be seen not to fit.
        `by_line` reads text with the bytes of each line at hand.
        """
        for file in files:
            _require_present(file)
        readable, broken = self.sorted_out(files, aside)
        counts, parts = [], []
        by_line = by_line or self.decoder.needs_lines(readable)
        for limited, group in grouped(readable, lambda file: bool(self.decoder.long_lines(file))).items():
            longest = self.pipeline.files.max_line if limited else None
            for part in self.decoder.parts(partial(_reader, spark, longest), group, by_line):
                counts.append(Observation())
                counted = self._counted(part, counts[-1], by_line)
                parts.append(self._numbered(counted, readable, by_line))
        set_aside = [_Aside(file, reason) for file, reason in broken]
        set_aside += [_Aside(file, "", line) for file in readable for line in self.decoder.long_lines(file)]
        if set_aside or not parts:
            parts.append(self._unreadable(spark, set_aside))
        frame = reduce(lambda left, right: left.unionByName(right), parts)
        # A line that is passed over would leave a piece of it in the next task.
        tasks = _share_out(spark, files, in_one_piece=any(each.line for each in set_aside))
        clock = Clock.FILE if self.pipeline.order_by is None else Clock.COLUMN
        return FileRows(frame, counts, len(set_aside), tasks if len(files) > tasks else None, clock)

    def unreadable(self, spark: SparkSession, files: Sequence[SourceFile]) -> dict[SourceFile, str]:
        """The files that Spark cannot read to the end, with the reason, found by halving.

        A `SourceOutage` where it is not the bytes of a file that are to blame.
        """
        before = states_of(file.local for file in files)
        try:
            self.rows(spark, files).frame.write.format("noop").mode("overwrite").save()
        except SPARK_ERRORS as error:
            if len(files) == 1:
                _require_format_error(files[0].local, error, before)
                return {files[0]: _why_spark_gave_up(root_cause(error))}
            half = len(files) // 2
            return self.unreadable(spark, files[:half]) | self.unreadable(spark, files[half:])
        return {}

    def _counted(self, part: DataFrame, counts: Observation, by_line: bool) -> DataFrame:
        """Note in passing how many rows there are, and how many of them are doubtful."""
        rows, doubt = F.count(F.lit(1)).alias(READ), self.decoder.doubt(part)
        if doubt is None or by_line:
            return part.observe(counts, rows)
        # As a column it is part of the generated code, which an observation by itself is not.
        marked = part.withColumn(_DOUBTFUL, doubt)
        return marked.observe(counts, rows, F.count_if(_DOUBTFUL).alias(_DOUBTFUL))

    def _numbered(self, part: DataFrame, files: Sequence[SourceFile], by_line: bool) -> DataFrame:
        """Add where each row stands: file, position in it, and, if asked for, when the file landed. Columns
        get the names that the pipeline has for them.

        A row's number within its part of the file plus the byte at which that part starts is unique
        and ascending; in a file that was not split it is the row's number. Spark's metadata are avoided
        where they can be: a single column of them makes Spark copy every row once more.
        """
        rows = self.decoder.rows_a_byte
        position = F.expr(
            f"input_file_block_start() * {rows}L + (monotonically_increasing_id() & {_ROW_BITS}L)"
        )
        about = F.col(METADATA) if METADATA in part.columns else part.metadataColumn(_METADATA)
        if self.decoder.numbers_rows:
            position = about.getField("row_index")
        named = self.pipeline.source_name
        origin = _PATH if self.path.many_folders else _below_base(files, self.path.base)
        numbered = part.select(
            *(F.expr(self.decoder.value(named(column), by_line)).alias(column) for column in self.columns),
            CORRUPT,
            *([F.col(KEPT)] if self.looks_for_unknown else []),
            F.lit(None).cast("string").alias(BROKEN),
            F.expr(origin).alias(ORIGIN),
            F.expr(_PATH).alias(FULL_ORIGIN),
            position.alias(POSITION),
            *([about.getField("file_modification_time").alias(LANDED)] if self.gives_landing else []),
        )
        return self._with_folders(numbered, files)

    def _with_folders(self, rows: DataFrame, files: Sequence[SourceFile]) -> DataFrame:
        """Fill in what the folders of a file say (`day=2013-01-01`) where the row itself says nothing."""
        said = {file: self._folder_values(file) for file in files}
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

    def _folder_values(self, file: SourceFile) -> dict[str, str | None]:
        return self.path.folder_values(str(file.local))

    @property
    def gives_landing(self) -> bool:
        """Whether each row says when its file landed: as its arrival, or to order it among equals."""
        pipeline = self.pipeline
        return pipeline.order_by is None or pipeline.watermark.every == "event"

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
        if (kind := special_kind(file.local)) is not None:
            return f"it is {kind}, not a file"
        for key, value in self._folder_values(file).items():
            if not fits(value, self.read_columns.get(key, "string")):
                return f"its folder says {key}={value}, and {key} is {self.read_columns[key]}"
        return self.decoder.misfit(file)

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
            *([F.lit(None).cast("string").alias(KEPT)] if self.looks_for_unknown else []),
            BROKEN,
            ORIGIN,
            F.col(ORIGIN).alias(FULL_ORIGIN),
            POSITION,
            *([F.timestamp_micros("landed").alias(LANDED)] if self.gives_landing else []),
        )


def _why_spark_gave_up(reason: str) -> str:
    """Why Spark gave up on a file."""
    if "OutOfMemoryError" in reason:
        return (
            "Spark runs out of memory over it: it is damaged, or too large for LATECOMER_MEMORY "
            f"({reason.partition('OutOfMemoryError: ')[2]})"
        )
    if "StackOverflowError" in reason:
        return "Spark cannot read it to the end: it has too many records in one another"
    return f"Spark cannot read it to the end: {reason}"


def _of_folder(text: str, kind: str) -> str:
    """What a folder says, in the column's type."""
    if is_nested(kind):
        return f"cast(null as {kind})"
    return number(text, kind) if is_decimal(kind) else f"try_cast({text} as {kind})"


def _reader(spark: SparkSession, longest: int | None) -> DataFrameReader:
    """A reader that takes a path for what it is, not for a pattern, and passes over lines longer than that."""
    reader = spark.read.option("__globPaths__", "false")
    return reader if longest is None else reader.option(_LONGEST_LINE, longest + 1)


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
        if stat.S_ISREG(file.local.stat().st_mode):
            os.close(os.open(file.local, os.O_RDONLY | os.O_NONBLOCK))


def _require_format_error(file: Path, error: BaseException, before: Mapping[Path, State]) -> None:
    """See that it is the bytes of a file that Spark cannot read: that it can be got at, and is what it was."""
    forget_parquet_files()
    forget_avro_files()
    forget_text_files()
    require_readable(file)
    require_unchanged(before)
    chain = list(causes(error))
    if may_pass(chain):
        raise cannot_be_opened(file, root_cause(error))
    if any(map(refusal_of, chain)):
        raise error


def _state(file: Path) -> State:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _files_of(piece: Slice) -> Sequence[SourceFile]:
    return piece.files if isinstance(piece, FileSlice) else ()


def _share_out(spark: SparkSession, files: Sequence[SourceFile], in_one_piece: bool) -> int:
    """Set how much a task reads: one file, or one part of a large file, never two, so that a row's
    number within its task says where it stands in its file. Returns how many tasks there should be."""
    size = sum(file.size for file in files)
    cores = spark.sparkContext.defaultParallelism
    share = str(min(max(size // cores + 1, LEAST_BYTES), MOST_BYTES))
    if in_one_piece:
        share = str(size + LEAST_BYTES)
    spark.conf.set("spark.sql.files.maxPartitionBytes", share)
    spark.conf.set("spark.sql.files.openCostInBytes", share)
    least = 2 * cores if size > BIG else cores
    return max(least, size // MOST_BYTES)


def _plain(origin: str) -> str:
    """A path as the source has it: Spark writes paths as URLs."""
    return unquote(origin).removeprefix("file:").lstrip("/")
