"""The files of a store: every access to them goes through this module.

Other modules have a *location*: the name of a folder or a file, which can be joined and compared, but not read or
written. It is a path on this machine (`local_files.py`) or a URL (`objects/files.py`): each function checks which it
is, and no other module needs to know (ADR 0026, ADR 0087).

What must survive a power cut is synced to the disk in order (ADR 0026). At a URL nothing is synced: a put is durable
once it returns.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePath
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from latecomer.errors import StoreError
from latecomer.objects import files as objects
from latecomer.objects.access import BrokenOff, in_words, retry_broken_off, rust_options, what_is_wrong
from latecomer.objects.locations import Url, is_url, options_of
from latecomer.objects.tagged import Tagged
from latecomer.store import local_files as local
from latecomer.store.local_files import LockFile, lock_holder

Location: TypeAlias = PurePath
_Made = TypeVar("_Made")

__all__ = ["LockFile", "Tagged", "Url", "is_url", "lock_holder"]


def url(location: Location) -> str:
    """A location in the form of delta-rs."""
    return str(location)


def uri(location: Location) -> str:
    """A location with its scheme: for a file that is not below its Delta table, and for a session that is not ours."""
    return str(location) if isinstance(location, Url) else f"file://{location}"


def storage_options(location: Location) -> dict[str, str] | None:
    """The options that delta-rs needs for a location, secrets among them; None on this machine."""
    return rust_options(location, options_of(location)) if isinstance(location, Url) else None


def retry_reads(location: Location, work: Callable[[], _Made]) -> _Made:
    """The result of another library's read of a location: it is retried where an answer breaks off."""

    def attempt() -> _Made:
        try:
            return work()
        except Exception as error:
            if isinstance(location, Url) and isinstance(broken := what_is_wrong(location, error), BrokenOff):
                raise broken from error
            raise

    return retry_broken_off(attempt)


def outage(location: Location, error: Exception) -> StoreError | None:
    """The error of the object store behind another library's error; None where that is not about an object store."""
    if not isinstance(location, Url) or in_words(str(error)) is None:
        return None
    return what_is_wrong(location, error)


# Looking


def exists(location: Location) -> bool:
    return objects.exists(location) if isinstance(location, Url) else local.exists(location)


def is_file(location: Location) -> bool:
    return objects.is_file(location) if isinstance(location, Url) else local.is_file(location)


def is_folder(location: Location) -> bool:
    return objects.is_folder(location) if isinstance(location, Url) else local.is_folder(location)


def is_link(location: Location) -> bool:
    """Whether it is a symbolic link."""
    return not isinstance(location, Url) and local.is_link(location)


def names(folder: Location) -> list[str]:
    """The names in a folder, sorted; none where there is no folder."""
    return objects.names(folder) if isinstance(folder, Url) else local.names(folder)


def sizes(folder: Location, ending: str) -> dict[str, int]:
    """The sizes of the files in a folder with this ending, in order of name."""
    return objects.sizes(folder, ending) if isinstance(folder, Url) else local.sizes(folder, ending)


def files_below(folder: Location) -> list[Location]:
    """Every file in a folder and in those below it, in order of name. Links to folders are not followed."""
    return [*(objects.files_below(folder) if isinstance(folder, Url) else local.files_below(folder))]


def parquet_files(folder: Location) -> list[Location]:
    """The Parquet files below a folder, in order of name."""
    return [
        file
        for file in files_below(folder)
        if file.name.endswith(".parquet") and not file.name.startswith(("_", "."))
    ]


def size(file: Location) -> int:
    return objects.size(file) if isinstance(file, Url) else local.size(file)


def written_at(location: Location) -> float:
    """When a file was last written, or a folder's list of names; in seconds since the epoch."""
    return objects.written_at(location) if isinstance(location, Url) else local.written_at(location)


def folder_identity(folder: Location) -> tuple[int, int] | None:
    """What tells a folder on this machine from a later one of the same name; None where there is no folder."""
    return None if isinstance(folder, Url) else local.folder_identity(folder)


def is_writable(folder: Location) -> bool:
    """Whether files can be made in a folder that exists. For a bucket only a write can show that: True."""
    return isinstance(folder, Url) or local.is_writable(folder)


# Small files


def read_text(file: Location) -> str:
    return read_bytes(file).decode("utf-8")


def read_bytes(file: Location) -> bytes:
    return objects.read_bytes(file) if isinstance(file, Url) else local.read_bytes(file)


def read_end(file: Location, count: int) -> bytes:
    """The last bytes of a file."""
    return objects.read_end(file, count) if isinstance(file, Url) else local.read_end(file, count)


def replace_text(file: Location, text: str) -> None:
    """Write a text into a file: whole or not at all, and durable once this returns."""
    replace_bytes(file, text.encode("utf-8"))


def replace_bytes(file: Location, content: bytes) -> None:
    """Write bytes into a file: whole or not at all, and durable once this returns."""
    return (
        objects.replace_bytes(file, content) if isinstance(file, Url) else local.replace_bytes(file, content)
    )


def read_tagged(file: Location) -> Tagged | None:
    """The content of a small file, and a tag; writing another content changes the tag. None where there is no file."""
    return objects.read_tagged(file) if isinstance(file, Url) else local.read_tagged(file)


def put_new(file: Location, content: bytes) -> str | None:
    """Write a new file: its tag, or None where the file exists. Of several writers, one succeeds."""
    return objects.put_new(file, content) if isinstance(file, Url) else local.put_new(file, content)


def put_over(file: Location, content: bytes, tag: str) -> str | None:
    """Replace a file that still has this tag: the new tag, or None where it has another one, or does not exist."""
    return (
        objects.put_over(file, content, tag) if isinstance(file, Url) else local.put_over(file, content, tag)
    )


def require_conditional_puts(root: Location) -> None:
    """Refuse an object store that cannot do these two; every folder can."""
    if isinstance(root, Url):
        objects.require_conditional_puts(root)


# Removing and moving


def remove(file: Location) -> None:
    """Remove a file, if it exists."""
    return objects.remove(file) if isinstance(file, Url) else local.remove(file)


def remove_all(folder: Location) -> None:
    """Remove a folder with all its content, as far as possible."""
    return objects.remove_all(folder) if isinstance(folder, Url) else local.remove_all(folder)


def remove_drafts(folder: Location, before: float) -> None:
    """Remove what a process had begun to write to a URL before a moment, and was killed."""
    if isinstance(folder, Url):
        objects.remove_drafts(folder, before)


def remove_empty(folder: Location, within: Location) -> None:
    """Remove an empty folder, and then the empty folders above it, up to `within`, which stays."""
    if not isinstance(folder, Url):
        local.remove_empty(folder, within)
    elif isinstance(within, Url):
        objects.remove_empty(folder, within)


def move(file: Location, to: Location) -> Location:
    """Move a file to another location."""
    if isinstance(file, Url) and isinstance(to, Url):
        return objects.move(file, to)
    if is_url(file) or is_url(to):
        copy(file, to)
        remove(file)
        return to
    return local.move(file, to)


def copy(file: Location, to: Location) -> Location:
    if isinstance(file, Url) and isinstance(to, Url):
        return objects.copy(file, to)
    if is_url(file) or is_url(to):
        make_folder(to.parent)
        replace_bytes(to, read_bytes(file))
        return to
    return local.copy(file, to)


# Rows


def footer(file: Location) -> pq.FileMetaData:
    """The metadata of a Parquet file."""
    return pq.read_metadata(_name(file), filesystem=_system(file))


def footer_and_size(file: Location) -> tuple[pq.FileMetaData, int]:
    """The metadata of a Parquet file, and its size."""
    if isinstance(file, Url):
        opened = objects.open_object(file)
        return pq.read_metadata(pa.PythonFile(opened, mode="r")), opened.size()
    return footer(file), size(file)


def read_table(file: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file, or of a folder of them; names of folders add no columns."""
    return pq.read_table(
        _name(file), columns=columns and list(columns), partitioning=None, filesystem=_system(file)
    )


def open_parquet(file: Location) -> pq.ParquetFile:
    """A Parquet file, to read a part at a time, and to close."""
    return pq.ParquetFile(_name(file), filesystem=_system(file))


def dataset(files: Iterable[Location], schema: pa.Schema | None = None) -> ds.Dataset:
    """Parquet files of one store as a dataset, with the columns of a schema, or those of the first file."""
    listed = list(files)
    system = _system(listed[0]) if listed else None
    return ds.dataset([_name(file) for file in listed], schema=schema, format="parquet", filesystem=system)


def write_table(
    rows: pa.Table, file: Location, row_group_size: int | None = None, unique: Collection[str] = ()
) -> Location:
    """Write rows into a new file, in a folder that need not exist yet. It is not synced: a commit does that.

    The `unique` columns hardly repeat a value: they get no dictionary, which would only cost time.
    """
    with_dictionary = [name for name in rows.column_names if name not in unique]
    if isinstance(file, Url):
        memory = pa.BufferOutputStream()
        pq.write_table(rows, memory, row_group_size=row_group_size, use_dictionary=with_dictionary)
        objects.put_buffer(file, memory.getvalue())
    else:
        local.make_folders(file.parent)
        pq.write_table(rows, file, row_group_size=row_group_size, use_dictionary=with_dictionary)
    return file


def write_small_table(rows: pa.Table, file: Location) -> tuple[pq.FileMetaData, int]:
    """Write a few rows likewise. Gives the metadata of the file, and its size, without reading it."""
    memory = pa.BufferOutputStream()
    pq.write_table(rows, memory)
    content = memory.getvalue()
    if isinstance(file, Url):
        objects.put_buffer(file, content)
    else:
        local.make_folders(file.parent)
        Path(file).write_bytes(content)
    return pq.read_metadata(pa.BufferReader(content)), content.size


def new_parquet(file: Location, schema: pa.Schema) -> pq.ParquetWriter:
    """A new file, to write a part at a time, and to close; otherwise as `write_table`."""
    if not isinstance(file, Url):
        local.make_folders(file.parent)
    return pq.ParquetWriter(_name(file), schema, filesystem=_system(file))


def _name(file: Location) -> str:
    """A location as Arrow names it within its file system (`_system`)."""
    return objects.arrow_name(file) if isinstance(file, Url) else str(file)


def _system(file: Location) -> pa.fs.FileSystem | None:
    return objects.arrow_system(file) if isinstance(file, Url) else None


def new_arrow(file: Location, schema: pa.Schema) -> AbstractContextManager[pa.ipc.RecordBatchFileWriter]:
    """A new Arrow file. It gets its name once it is complete and synced. A power cut may lose the name."""
    return objects.new_arrow(file, schema) if isinstance(file, Url) else local.new_arrow(file, schema)


def open_arrow(file: Location) -> pa.ipc.RecordBatchFileReader:
    """An Arrow file. Only the needed parts are read."""
    return objects.open_arrow(file) if isinstance(file, Url) else local.open_arrow(file)


def on_this_machine(root: Location) -> Path:
    """The folder for files of a store that only this machine uses, such as logs: the store's own folder; for a store at
    a URL, a folder of the user's (`XDG_STATE_HOME`)."""
    if not isinstance(root, Url):
        return Path(root)
    base = os.environ.get("XDG_STATE_HOME")
    name = f"{root.name}-{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"
    return (Path(base) if base else Path.home() / ".local" / "state") / "latecomer" / name


def log_file(root: Location, name: str) -> Path:
    """A log of a store, on this machine."""
    return on_this_machine(root) / "logs" / name


def new_token() -> str:
    """A random token that tells attempts apart, in names of folders."""
    return uuid.uuid4().hex[:12]


class KeptScratch:
    """A private temporary folder, removed with this object or with the process."""

    def __init__(self, prefix: str = "latecomer-") -> None:
        self.folder: Location = Path(tempfile.mkdtemp(prefix=prefix))
        weakref.finalize(self, remove_all, self.folder)


@contextmanager
def scratch(prefix: str = "latecomer-") -> Iterator[Path]:
    """A temporary folder. Spark writes there, too."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder)


# Syncing to the disk, in order: at a URL there is nothing to do


def sync(location: Location) -> None:
    """Sync a file's bytes, or a folder's list of names, to the disk."""
    if not isinstance(location, Url):
        local.sync(location)


def sync_files(files: Iterable[Location], root: Location) -> None:
    """Sync files, and every folder between `root` and them once."""
    if not isinstance(root, Url):
        local.sync_files(files, root)


def sync_folder(folder: Location) -> None:
    """Sync a folder's list of names, where that is possible: some file systems need no sync, and a folder that may not
    be opened is not ours."""
    if not isinstance(folder, Url):
        local.sync_folder(folder)


def make_folder(folder: Location) -> None:
    """Make a folder that survives a power cut."""
    if not isinstance(folder, Url):
        local.make_folder(folder)


def require_room(folder: Location, count: int) -> None:
    """Raise an error if the disk has no room for so many bytes, as far as that is known without writing them."""
    if not isinstance(folder, Url):
        local.require_room(folder, count)


def keep_to_user(location: Location) -> None:
    """Let only the owner read a file with those that SQLite and DuckDB keep beside it, or a folder with all its
    content. Links are not followed. An error names the file. Access to a bucket is left to the bucket."""
    if not isinstance(location, Url):
        local.keep_to_user(location)
