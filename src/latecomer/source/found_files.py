"""Files as a source, and what is known of them before any is decoded.

What was found is written down before it is read: a batch knows exactly which files it is made of, with the modification
time and size of each, and can set aside a file that cannot be read.
"""

from __future__ import annotations

import os
import re
import stat
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.paths import SourcePath, fits, special_kind
from latecomer.decode.choose import decoder_settings
from latecomer.decode.columns import CORRUPT, KEPT
from latecomer.decode.decimals import number
from latecomer.decode.files import SourceFile
from latecomer.decode.limits import LongLine
from latecomer.decode.retrying import State, reading
from latecomer.fast import MOST_READ, MOST_ROWS, Declined
from latecomer.model.types import is_decimal, is_nested
from latecomer.source.base import Clock, FollowedSource, Loaded, Slice, beside, together
from latecomer.source.columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN, POSITION
from latecomer.source.finding import Finder
from latecomer.store.sql import quoted

_FOLDER = f"{PRIVATE}folder_"
"""Before the name of a column: what a file's folders say of it."""
_PLAIN_PATH = re.compile("[A-Za-z0-9._/=-]+")
"""Paths that Spark writes as they are."""


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
        return replace(self, files=[file for part in parts for file in files_of(part)])

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """The log names a file by its path, or by the end of it."""
        paths = [(file.local.parts[1:], file.landed) for file in self.files]
        landed = {"/".join(parts[nth:]): at for parts, at in paths for nth in range(len(parts))}
        return {origin: landed.get(_plain(origin), 0) for origin in origins}


@dataclass(frozen=True)
class Aside:
    """What is a dead letter before Spark reads anything: a file, with the reason, or a line of it."""

    file: SourceFile
    reason: str
    line: LongLine | None = None


@dataclass(frozen=True)
class FoundFiles(FollowedSource):
    """The pipeline's files, however they are decoded."""

    @cached_property
    def path(self) -> SourcePath:
        return SourcePath(self.pipeline.source_path)

    def session(self) -> Mapping[str, str]:
        return decoder_settings(self.pipeline)

    def require(self) -> None:
        self.path.require_folder()

    @cached_property
    def _finders(self) -> dict[Path, Finder]:
        """By the source's folder in the store."""
        return {}

    def _finder(self, home: Path) -> Finder:
        if home not in self._finders:
            self._finders[home] = Finder(home, self.path, self.pipeline.files.max_files_per_batch)
        return self._finders[home]

    def resume(self, home: Path, accepted: int, logged: bool, parts: int = 1) -> None:
        self._finder(home).resume(accepted, logged, parts)

    def ask_for_all(self, home: Path, number: int) -> None:
        self._finder(home).look(number - 1)

    def has_answered(self, home: Path, number: int) -> bool:
        return number <= self._finder(home).log.last

    def answered(self, home: Path, number: int) -> FileSlice | None:
        files = self._finder(home).files(number)
        return FileSlice.of(files) if files else None

    def news(self, home: Path, number: int) -> FileSlice | None:
        self._finder(home).look_patiently(number - 1)
        return self.answered(home, number)

    @property
    def clock(self) -> Clock:
        """What says when a row came."""
        return Clock.FILE if self.pipeline.order_by is None else Clock.COLUMN

    @abstractmethod
    def load_file(self, file: SourceFile) -> tuple[pa.Table, pa.Array]:
        """The source's columns in this process, with SCHEMA_ID and KEPT where there are any, and the position of each
        row; `Declined` where Spark has to read the file."""

    def load(self, piece: Slice) -> Loaded:
        """Files that are plain, in folders and under names that need no escaping."""
        self.require_fast()
        files = files_of(piece)
        if not files or piece.size > MOST_READ:
            raise Declined("a large batch, or none")
        if not all(_PLAIN_PATH.fullmatch(str(file.local)) for file in files):
            raise Declined("paths that have to be escaped")
        if any(self.folder_values(file) for file in files):
            raise Declined("folders that say something of the rows")
        try:
            before = {file.local: _state(file.local) for file in files}
            parts = list(self._loaded(files))
            after = {file.local: _state(file.local) for file in files}
        except OSError:
            raise Declined("a file that cannot be read") from None
        if before != after:
            raise Declined("a file that was changed while it was read")
        return Loaded(together(parts), self.clock)

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
        rows, positions = self.load_file(file)
        if not path.startswith(f"{self.path.base.rstrip('/')}/"):
            raise Declined("a file beside the folder of the source")
        count, origin = rows.num_rows, self.origin(file, f"file://{path}")
        landed = status.st_mtime_ns // 1_000_000 * 1000
        where = {
            ORIGIN: pa.repeat(pa.scalar(origin, pa.string()), count),
            POSITION: positions,
            LANDED: pa.repeat(pa.scalar(landed, pa.int64()), count),
        }
        named = {name: rows.column(self.pipeline.source_name(name)) for name in self.columns}
        return pa.table({**named, **where, **beside(rows)})

    def origin(self, file: SourceFile, full: str) -> str:
        """The name that the log has for a file, of its path as Spark writes it: what follows the folder of the source.
        What is called otherwise is known by its own name if it lies in that folder, and by the whole path if not."""
        start = f"file://{self.path.base.rstrip('/')}/"
        if self.path.many_folders:
            return full
        if full.startswith(start):
            return full[len(start) :]
        return full.rpartition("/")[2] if str(file.local.parent) == self.path.base else full

    def with_folders(self, rows: DataFrame, files: Sequence[SourceFile]) -> DataFrame:
        """Fill in what the folders of a file say (`day=2013-01-01`) where the row itself says nothing."""
        of_files = {file: self.folder_values(file) for file in files}
        keys = set().union(*of_files.values())
        columns = {
            column: key for column in self.columns if (key := self.pipeline.source_name(column)) in keys
        }
        if not columns:
            return rows
        places = {FULL_ORIGIN: pa.array([encoded_path(rows.sparkSession, file) for file in of_files])}
        values = {
            f"{_FOLDER}{column}": pa.array([each.get(key) for each in of_files.values()], pa.string())
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

    def folder_values(self, file: SourceFile) -> dict[str, str | None]:
        return self.path.folder_values(str(file.local))

    @property
    def gives_landing(self) -> bool:
        """Whether each row says when its file landed: as its arrival, or to order it among equals."""
        pipeline = self.pipeline
        return pipeline.order_by is None or pipeline.watermark.every == "event"

    def misplaced(self, file: SourceFile) -> str | None:
        """Why a file cannot be read, as far as that can be seen without opening it."""
        if (kind := special_kind(file.local)) is not None:
            return f"it is {kind}, not a file"
        for key, value in self.folder_values(file).items():
            if not fits(value, self.read_columns.get(key, "string")):
                return f"its folder says {key}={value}, and {key} is {self.read_columns[key]}"
        return None

    def set_aside(self, spark: SparkSession, aside: Sequence[Aside]) -> DataFrame:
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


def _of_folder(text: str, kind: str) -> str:
    """What a folder says, in the column's type."""
    if is_nested(kind):
        return f"cast(null as {kind})"
    return number(text, kind) if is_decimal(kind) else f"try_cast({text} as {kind})"


def require_present(file: SourceFile) -> None:
    """What is damaged can be set aside; what is not there may come back, and is waited for. What is no file is not
    opened: a pipe would keep us waiting."""
    with reading(file.local):
        if stat.S_ISREG(file.local.stat().st_mode):
            os.close(os.open(file.local, os.O_RDONLY | os.O_NONBLOCK))


def encoded_path(spark: SparkSession, file: SourceFile) -> str:
    """The path of a file as Spark writes it in rows."""
    paths: Any = spark._jvm.org.apache.spark.paths.SparkPath  # type: ignore[union-attr]
    return str(paths.fromPathString(file.path).urlEncoded())


def files_of(piece: Slice) -> Sequence[SourceFile]:
    return piece.files if isinstance(piece, FileSlice) else ()


def _state(file: Path) -> State:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _plain(origin: str) -> str:
    """A path as the source has it: Spark writes paths as URLs."""
    return unquote(origin).removeprefix("file:").lstrip("/")
