"""Files as a source, and what is known of them before they are decoded.

The files of a batch are written down before they are read, with their modification times. So a batch has the same files
whenever it is read, and a file that cannot be read can be made one dead letter.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.retrying import reading
from latecomer.source.decode.typed_columns import array_of
from latecomer.source.decode.written import Misfit, value_of
from latecomer.source.finding import Finder
from latecomer.source.private_columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN
from latecomer.store.files import Location


class UnreadableFiles(SourceError):
    """Files that cannot be read to the end: each becomes one dead letter, and none of its rows an event."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons
        """By path."""

    def joined(self, others: Sequence[Exception]) -> UnreadableFiles:
        every = [each.reasons for each in (self, *others) if isinstance(each, UnreadableFiles)]
        return UnreadableFiles({path: reason for reasons in every for path, reason in reasons.items()})


@dataclass(frozen=True)
class FileSlice(Slice):
    """Some files."""

    files: Sequence[SourceFile]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """The paths of files of which nothing is read, and why."""

    @classmethod
    def of(cls, files: Sequence[SourceFile]) -> FileSlice:
        return cls(max(file.landed for file in files), files)

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """The log names a file by its path, or by the end of its path."""
        paths = [(file.named.parts[1:], file.landed) for file in self.files]
        landed = {"/".join(parts[nth:]): at for parts, at in paths for nth in range(len(parts))}
        return {origin: landed.get(_plain(origin), 0) for origin in origins}


@dataclass(frozen=True)
class FoundFiles(FollowedSource):
    """The pipeline's files, in any format."""

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

    def find_all(self, home: Location, number: int) -> None:
        self._finder(home).look(number - 1)

    def has_slice(self, home: Location, number: int) -> bool:
        return number <= self._finder(home).log.last

    def slice_of(self, home: Location, number: int) -> FileSlice | None:
        files = self._finder(home).files(number)
        return FileSlice.of(files) if files else None

    def next_slice(self, home: Location, number: int) -> FileSlice | None:
        self._finder(home).look(number - 1)
        return self.slice_of(home, number)

    @property
    def stamps_arrivals(self) -> bool:
        return True

    def arrivals(self, slice_: Slice) -> tuple[int, int] | None:
        if self.pipeline.order_by is not None or not isinstance(slice_, FileSlice):
            return None
        landed = [file.landed for file in slice_.files]
        return min(landed), max(landed)

    def present_files(self, slice_: Slice) -> Iterator[tuple[SourceFile, str | None]]:
        """The files of a slice as they are now, and why a file cannot be read, if that is known."""
        if isinstance(slice_, FileSlice):
            for file in map(present, slice_.files):
                yield file, slice_.unreadable.get(file.path) or self.misplaced(file)

    @property
    def clock(self) -> Clock:
        """The clock of the rows' arrival times."""
        return Clock.FILE if self.pipeline.order_by is None else Clock.COLUMN

    def placed(self, rows: pa.Table, file: SourceFile) -> pa.Table:
        """Decoded rows of a file under the pipeline's names, with the values of its folders, its names and its time."""
        in_folders = {key: value for key, value in self.folder_values(file).items() if value is not None}
        named = {}
        for name, kind in self.columns.items():
            key = self.pipeline.source_name(name)
            column = rows.column(key)
            if key in in_folders and not is_nested(kind):
                value = self._of_folder(key, in_folders[key], kind)
                column = column if value is None else pc.coalesce(column, value)
            named[name] = column
        others = {name: rows.column(name) for name in rows.column_names if name.startswith(PRIVATE)}
        return self.located(pa.table({**named, **others}), file)

    def located(self, rows: pa.Table, file: SourceFile) -> pa.Table:
        """Rows of a file with its names, and when it landed. A row that stands for a file, or a part of it, has the
        file's path as it is."""
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
        """The names of a file in the log and in dead letters. The log has its path as Spark writes it, below the folder
        of the source. If that path does not begin with the folder, it has the file's own name if it lies in the folder,
        and else the whole path."""
        full = origin = encoded_path(file.path)
        start = f"{'file://' if file.url is None else ''}{self.path.base.rstrip('/')}/"
        if not self.path.many_folders:
            if full.startswith(start):
                origin = full[len(start) :]
            elif str(file.named.parent) == self.path.base:
                origin = full.rpartition("/")[2]
        return {ORIGIN: origin, FULL_ORIGIN: full}

    def folder_values(self, file: SourceFile) -> dict[str, str | None]:
        return self.path.folder_values(str(file.named))

    def misplaced(self, file: SourceFile) -> str | None:
        """Why a file cannot be read, as far as that is seen without opening it."""
        if isinstance(file.named, Path) and (kind := special_kind(file.named)) is not None:
            return f"it is {kind}, not a file"
        for key, value in self.folder_values(file).items():
            kind = self.read_columns.get(key, "string")
            if value is not None and not is_nested(kind) and self._of_folder(key, value, kind) is None:
                return f"its folder says {key}={value}, and {key} is {kind}"
        return None

    def _of_folder(self, key: str, text: str, kind: str) -> pa.Scalar | None:
        """The value of a folder in the column's type; None where the column does not take it."""
        if kind == "string":
            return pa.scalar(text, pa.string())
        try:
            value = value_of(text, kind, self.pipeline.source.numbers.of(key))
        except Misfit:
            return None
        return array_of([value], kind)[0]


def present(file: SourceFile) -> SourceFile:
    """A file as it is now; `SourceOutage` if it cannot be opened: it may come back. Only regular files are opened: a
    pipe would block."""
    with reading(file):
        if isinstance(file.named, Path) and file.named.is_file():
            os.close(os.open(file.named, os.O_RDONLY | os.O_NONBLOCK))
        return file.as_it_is()


def encoded_path(path: str) -> str:
    """The path of a file as Spark writes it: characters that a URL must not have are escaped.

    >>> encoded_path("file:///a b/c%20é.json")
    'file:///a%20b/c%2520é.json'
    """
    return "".join(each if _is_in_urls(each) else quote(each) for each in path)


def _is_in_urls(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "_-!.~'()*,;:$&+=/@"
    return not (character.isspace() or unicodedata.category(character) in ("Cc", "Zs", "Zl", "Zp"))


def _plain(origin: str) -> str:
    """An origin as a plain path: Spark writes paths as URLs."""
    return unquote(origin).removeprefix("file:").lstrip("/")
