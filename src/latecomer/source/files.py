"""Files as a source, read whole by Spark's own readers, or in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.decode import lines, parquet
from latecomer.decode.avro import forget_avro_files
from latecomer.decode.base import FileDecoder
from latecomer.decode.choose import file_decoder
from latecomer.decode.columns import CORRUPT, KEPT, METADATA
from latecomer.decode.files import SourceFile, grouped
from latecomer.decode.parquet_reading import forget_parquet_files
from latecomer.decode.retrying import (
    State,
    cannot_be_opened,
    may_pass,
    patiently,
    require_readable,
    require_unchanged,
    states_of,
)
from latecomer.decode.text import forget_text_files
from latecomer.errors import SourceOutage
from latecomer.errors.system import refusal_of
from latecomer.source.base import Letters, Rows, Slice
from latecomer.source.columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN, POSITION, READ
from latecomer.source.found_files import Aside, FoundFiles, files_of, require_present
from latecomer.source.letters import FileLetters
from latecomer.spark.errors import SPARK_ERRORS, causes, in_words, root_cause
from latecomer.store.sql import some_bytes

_DOUBTFUL = f"{PRIVATE}doubtful"
_METADATA = "_metadata"

_ROW_BITS = (1 << 33) - 1
_PATH = "input_file_name()"
_LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength"
"""Lines of so many bytes or more are passed over by Hadoop. It is right only in files that are read in one piece."""
LEAST_BYTES, MOST_BYTES = 4 << 20, 128 << 20
BIG = 64 << 20
"""Beyond this many bytes a batch is written by more tasks than there are cores, so that what completes
the batch before need not wait for a core as long."""

NONE: Mapping[SourceFile, str] = MappingProxyType({})
_Written = TypeVar("_Written")


@dataclass(frozen=True)
class FileRows(Rows):
    """The rows of files."""

    def doubtful(self) -> bool:
        """Whether any row's bytes are needed after all: once they have been read."""
        return any(count.get.get(_DOUBTFUL) for count in self.counts)


@dataclass(frozen=True)
class FileSource(FoundFiles):
    """The pipeline's files."""

    settings: ClassVar[Mapping[str, str]] = MappingProxyType({**lines.SETTINGS, **parquet.SETTINGS})

    @cached_property
    def decoder(self) -> FileDecoder:
        return file_decoder(self.pipeline, self.read_columns, self.folder_values, self.gives_landing)

    def letters(self, piece: Slice) -> Letters:
        return FileLetters(self.pipeline, self.read_columns, self.decoder, files_of(piece))

    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        """A file that cannot be read to the end is set aside, and one that cannot be got at is tried again."""
        files = files_of(piece)

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

    def load_file(self, file: SourceFile) -> tuple[pa.Table, pa.Array]:
        rows = self.decoder.load(file)
        return rows, pa.array(np.arange(rows.num_rows, dtype=np.int64))

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
            require_present(file)
        readable, broken = self.sorted_out(files, aside)
        counts, parts = [], []
        by_line = by_line or self.decoder.needs_lines(readable)
        for limited, group in grouped(readable, lambda file: bool(self.decoder.long_lines(file))).items():
            longest = self.pipeline.files.max_line if limited else None
            for part in self.decoder.parts(partial(_reader, spark, longest), group, by_line):
                counts.append(Observation())
                counted = self._counted(part, counts[-1], by_line)
                parts.append(self._numbered(counted, readable, by_line))
        set_aside = [Aside(file, reason) for file, reason in broken]
        set_aside += [Aside(file, "", line) for file in readable for line in self.decoder.long_lines(file)]
        if set_aside or not parts:
            parts.append(self.set_aside(spark, set_aside))
        frame = reduce(lambda left, right: left.unionByName(right), parts)
        # A line that is passed over would leave a piece of it in the next task.
        tasks = _share_out(spark, files, in_one_piece=any(each.line for each in set_aside))
        return FileRows(frame, counts, len(set_aside), tasks if len(files) > tasks else None, self.clock)

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
        return self.with_folders(numbered, files)

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
        return self.misplaced(file) or self.decoder.misfit(file)


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
