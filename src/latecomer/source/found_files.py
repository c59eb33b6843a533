"""Files as a source, and what is known of them before any is decoded.

What was found is written down before it is read: a batch knows exactly which files it is made of, with the modification
time and size of each, and can set aside a file that cannot be read.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.config.paths import SourcePath, special_kind
from latecomer.errors import SourceError
from latecomer.model.types import is_nested
from latecomer.source.base import Clock, FollowedSource, Slice
from latecomer.source.columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN
from latecomer.source.decode.files import SourceFile
from latecomer.source.decode.retrying import reading
from latecomer.source.decode.typed_columns import array_of
from latecomer.source.decode.written import Misfit, value_of
from latecomer.source.finding import Finder
from latecomer.store.files import Location


class UnreadableFiles(SourceError):
    """Files that cannot be read to their ends: each becomes one dead letter, and none of its rows an event."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons
        """By their paths."""

    def joined(self, others: Sequence[Exception]) -> UnreadableFiles:
        found = [each.reasons for each in (self, *others) if isinstance(each, UnreadableFiles)]
        return UnreadableFiles({path: reason for reasons in found for path, reason in reasons.items()})


@dataclass(frozen=True)
class FileSlice(Slice):
    """Some files."""

    files: Sequence[SourceFile]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """The files of which none is read, by their paths, and why."""

    @classmethod
    def of(cls, files: Sequence[SourceFile]) -> FileSlice:
        return cls(max(file.landed for file in files), files)

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """The log names a file by its path, or by the end of it."""
        paths = [(file.named.parts[1:], file.landed) for file in self.files]
        landed = {"/".join(parts[nth:]): at for parts, at in paths for nth in range(len(parts))}
        return {origin: landed.get(_plain(origin), 0) for origin in origins}


@dataclass(frozen=True)
class FoundFiles(FollowedSource):
    """The pipeline's files, however they are decoded."""

    @cached_property
    def path(self) -> SourcePath:
        return SourcePath(self.pipeline.source_path)

    def require(self) -> None:
        self.path.require_folder()

    @cached_property
    def _finders(self) -> dict[Location, Finder]:
        """By the source's folder in the store."""
        return {}

    def _finder(self, home: Location) -> Finder:
        if home not in self._finders:
            self._finders[home] = Finder(home, self.path, self.pipeline.files.max_files_per_batch)
        return self._finders[home]

    def resume(self, home: Location, accepted: int, logged: bool, parts: int = 1) -> None:
        self._finder(home).resume(accepted, logged, parts)

    def ask_for_all(self, home: Location, number: int) -> None:
        self._finder(home).look(number - 1)

    def has_answered(self, home: Location, number: int) -> bool:
        return number <= self._finder(home).log.last

    def answered(self, home: Location, number: int) -> FileSlice | None:
        files = self._finder(home).files(number)
        return FileSlice.of(files) if files else None

    def news(self, home: Location, number: int) -> FileSlice | None:
        self._finder(home).look(number - 1)
        return self.answered(home, number)

    @property
    def stamps_arrivals(self) -> bool:
        return True

    def arrivals(self, slice_: Slice) -> tuple[int, int] | None:
        landed = [file.landed for file in files_of(slice_)]
        return None if self.pipeline.order_by is not None else (min(landed), max(landed))

    @property
    def clock(self) -> Clock:
        """What says when a row came."""
        return Clock.FILE if self.pipeline.order_by is None else Clock.COLUMN

    def placed(self, rows: pa.Table, file: SourceFile) -> pa.Table:
        """Decoded rows of a file under the pipeline's names, with what its folders say of them and where they stand."""
        said = {key: value for key, value in self.folder_values(file).items() if value is not None}
        named = {}
        for name, kind in self.columns.items():
            key = self.pipeline.source_name(name)
            column = rows.column(key)
            if key in said and not is_nested(kind):
                value = self._of_folder(key, said[key], kind)
                column = column if value is None else pc.coalesce(column, value)
            named[name] = column
        others = {name: rows.column(name) for name in rows.column_names if name.startswith(PRIVATE)}
        return self.located(pa.table({**named, **others}), file)

    def located(self, rows: pa.Table, file: SourceFile) -> pa.Table:
        """Rows of a file with its names, and when it landed. What stands for a file, or a part of it, has its path as
        it is."""
        where = self.where(file)
        texts = {name: pa.repeat(pa.scalar(text, pa.string()), rows.num_rows) for name, text in where.items()}
        if BROKEN in rows.column_names:
            broken = rows.column(BROKEN).is_valid()
            texts[FULL_ORIGIN] = pc.if_else(broken, file.path, texts[FULL_ORIGIN])
        texts[LANDED] = pa.repeat(pa.scalar(file.landed, pa.int64()), rows.num_rows)
        for name, column in texts.items():
            rows = rows.append_column(name, column)
        return rows

    def where(self, file: SourceFile) -> dict[str, str]:
        """What the log calls a file, and what a dead letter does."""
        full = encoded_path(file.path)
        return {ORIGIN: self.origin(file, full), FULL_ORIGIN: full}

    def origin(self, file: SourceFile, full: str) -> str:
        """The name that the log has for a file, of its path as Spark writes it: what follows the folder of the source.
        What is called otherwise is known by its own name if it lies in that folder, and by the whole path if not."""
        start = f"{self.path.base.rstrip('/')}/"
        if file.url is None:
            start = f"file://{start}"
        if self.path.many_folders:
            return full
        if full.startswith(start):
            return full[len(start) :]
        return full.rpartition("/")[2] if str(file.named.parent) == self.path.base else full

    def folder_values(self, file: SourceFile) -> dict[str, str | None]:
        return self.path.folder_values(str(file.named))

    def misplaced(self, file: SourceFile) -> str | None:
        """Why a file cannot be read, as far as that can be seen without opening it."""
        if isinstance(file.named, Path) and (kind := special_kind(file.named)) is not None:
            return f"it is {kind}, not a file"
        for key, value in self.folder_values(file).items():
            kind = self.read_columns.get(key, "string")
            if value is not None and not is_nested(kind) and self._of_folder(key, value, kind) is None:
                return f"its folder says {key}={value}, and {key} is {kind}"
        return None

    def _of_folder(self, key: str, text: str, kind: str) -> pa.Scalar | None:
        """What a folder says, in the column's type; None where that does not take it."""
        if kind == "string":
            return pa.scalar(text, pa.string())
        try:
            value = value_of(text, kind, self.pipeline.source.numbers.of(key))
        except Misfit:
            return None
        return array_of([value], kind)[0]


def present(file: SourceFile) -> SourceFile:
    """A file as it is now. What is damaged can be set aside; what is not there may come back, and is waited for. What
    is no file is not opened: a pipe would keep us waiting."""
    with reading(file):
        if isinstance(file.named, Path) and file.named.is_file():
            os.close(os.open(file.named, os.O_RDONLY | os.O_NONBLOCK))
        return file.as_it_is()


def encoded_path(path: str) -> str:
    """The path of a file as Spark writes it: what may not stand in a URL is escaped.

    >>> encoded_path("file:///a b/c%20é.json")
    'file:///a%20b/c%2520é.json'
    """
    return "".join(each if _may_stand(each) else quote(each) for each in path)


def _may_stand(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "_-!.~'()*,;:$&+=/@"
    return not (character.isspace() or unicodedata.category(character) in ("Cc", "Zs", "Zl", "Zp"))


def files_of(slice_: Slice) -> Sequence[SourceFile]:
    return slice_.files if isinstance(slice_, FileSlice) else ()


def _plain(origin: str) -> str:
    """A path as the source has it: Spark writes paths as URLs."""
    return unquote(origin).removeprefix("file:").lstrip("/")
