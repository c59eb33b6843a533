"""The files of a store: the one door to them.

Everybody else has a *location*: the name of a folder or a file, to be joined and compared, which nothing can be
read or written through. Here is what can be done with it. A location is a path on this machine (`local_files.py`) or
a URL (`objects/files.py`): each function looks which it is, and nobody else needs to know (ADR 0026, ADR 0087).

What must outlast a power cut is brought to the disk in order (ADR 0026). At a URL nothing has to be: a put is there for
good once it returns.
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
from latecomer.objects.access import BrokenOff, again, in_words, rust_options, what_is_wrong
from latecomer.objects.locations import Url, is_url, options_of
from latecomer.objects.tagged import Tagged
from latecomer.store import local_files as local
from latecomer.store.local_files import LockFile, lock_holder

Location: TypeAlias = PurePath
_Made = TypeVar("_Made")

__all__ = ["LockFile", "Tagged", "Url", "is_url", "lock_holder"]


def url(location: Location) -> str:
    """A location as delta-rs is given it."""
    return str(location)


def uri(location: Location) -> str:
    """A location that nobody takes for one of another file system: as Delta names a file that is not below its table,
    and as a session is given it that is not ours."""
    return str(location) if isinstance(location, Url) else f"file://{location}"


def storage_options(location: Location) -> dict[str, str] | None:
    """What delta-rs needs besides, to get at a location: nothing, on this machine. Secrets are among it."""
    return rust_options(location, options_of(location)) if isinstance(location, Url) else None


def patiently(location: Location, work: Callable[[], _Made]) -> _Made:
    """What another library's question about a location comes to: it is asked again where an answer breaks off."""

    def asked() -> _Made:
        try:
            return work()
        except Exception as error:
            if isinstance(location, Url) and isinstance(broken := what_is_wrong(location, error), BrokenOff):
                raise broken from error
            raise

    return again(asked)


def outage(location: Location, error: Exception) -> StoreError | None:
    """What an error of another library's about a location says of its object store; None where it is about neither."""
    if not isinstance(location, Url) or in_words(str(error)) is None:
        return None
    return what_is_wrong(location, error)


# What is there


def exists(location: Location) -> bool:
    return objects.exists(location) if isinstance(location, Url) else local.exists(location)


def is_file(location: Location) -> bool:
    return objects.is_file(location) if isinstance(location, Url) else local.is_file(location)


def is_folder(location: Location) -> bool:
    return objects.is_folder(location) if isinstance(location, Url) else local.is_folder(location)


def is_link(location: Location) -> bool:
    """Whether it only leads to what is somewhere else."""
    return not isinstance(location, Url) and local.is_link(location)


def names(folder: Location) -> list[str]:
    """What is in a folder, in order; nothing where there is none."""
    return objects.names(folder) if isinstance(folder, Url) else local.names(folder)


def sizes(folder: Location, ending: str) -> dict[str, int]:
    """The sizes of the files in a folder whose names end so, in order of name."""
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


def made(folder: Location) -> tuple[int, int] | None:
    """What tells a folder on this machine from another that took its name; None where there is none."""
    return None if isinstance(folder, Url) else local.made(folder)


def is_writable(folder: Location) -> bool:
    """Whether files can be made in a folder that is there; a bucket says so when it is written to."""
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
    """Put a text into a file: whole or not at all, and for good once this returns."""
    replace_bytes(file, text.encode("utf-8"))


def replace_bytes(file: Location, content: bytes) -> None:
    """Put bytes into a file: whole or not at all, and for good once this returns."""
    return (
        objects.replace_bytes(file, content) if isinstance(file, Url) else local.replace_bytes(file, content)
    )


def read_tagged(file: Location) -> Tagged | None:
    """The content of a small file, and a tag that every write of another content changes; None where there is none."""
    return objects.read_tagged(file) if isinstance(file, Url) else local.read_tagged(file)


def put_new(file: Location, content: bytes) -> str | None:
    """Write a file that is not there: its tag, or None where it is there already. Of several writers, one has it."""
    return objects.put_new(file, content) if isinstance(file, Url) else local.put_new(file, content)


def put_over(file: Location, content: bytes, tag: str) -> str | None:
    """Replace a file that still has this tag: the new tag, or None where it has another one, or is gone."""
    return (
        objects.put_over(file, content, tag) if isinstance(file, Url) else local.put_over(file, content, tag)
    )


def require_conditional_puts(root: Location) -> None:
    """Refuse a store at a URL that cannot do these two; every folder can."""
    if isinstance(root, Url):
        objects.require_conditional_puts(root)


# What goes, and what moves


def remove(file: Location) -> None:
    """Remove a file, if it is there."""
    return objects.remove(file) if isinstance(file, Url) else local.remove(file)


def remove_all(folder: Location) -> None:
    """Remove a folder with all that is in it, as far as that can be done."""
    return objects.remove_all(folder) if isinstance(folder, Url) else local.remove_all(folder)


def remove_drafts(folder: Location, before: float) -> None:
    """Remove what a process had begun to write to a URL before a moment, and was killed."""
    if isinstance(folder, Url):
        objects.remove_drafts(folder, before)


def remove_empty(folder: Location, within: Location) -> None:
    """Remove a folder if it is empty, and those above it that are empty then, as long as they are within another."""
    if not isinstance(folder, Url):
        local.remove_empty(folder, within)
    elif isinstance(within, Url):
        objects.remove_empty(folder, within)


def move(file: Location, to: Location) -> Location:
    """Have a file in another location, and no longer in this one."""
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
    """What a Parquet file says of itself."""
    return pq.read_metadata(_name(file), filesystem=_system(file))


def described(file: Location) -> tuple[pq.FileMetaData, int]:
    """What a Parquet file says of itself, and its size."""
    if isinstance(file, Url):
        opened = objects.open_object(file)
        return pq.read_metadata(pa.PythonFile(opened, mode="r")), opened.size()
    return footer(file), size(file)


def read_table(file: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or a folder of them, without what the folders on the way are called."""
    return pq.read_table(
        _name(file), columns=columns and list(columns), partitioning=None, filesystem=_system(file)
    )


def open_parquet(file: Location) -> pq.ParquetFile:
    """A Parquet file, to be read a part at a time and closed."""
    return pq.ParquetFile(_name(file), filesystem=_system(file))


def dataset(files: Iterable[Location], schema: pa.Schema | None = None) -> ds.Dataset:
    """Parquet files as one, with the columns of a schema; else with those of the first. They are in one store."""
    every = list(files)
    system = _system(every[0]) if every else None
    return ds.dataset([_name(file) for file in every], schema=schema, format="parquet", filesystem=system)


def write_table(
    rows: pa.Table, file: Location, row_group_size: int | None = None, unique: Collection[str] = ()
) -> Location:
    """Write rows into a new file, in a folder that need not be there yet. It is not synced: a commit does that.

    Columns that are said to be `unique` hold hardly a value twice: they get no dictionary, which would only cost time.
    """
    often = [name for name in rows.column_names if name not in unique]
    if isinstance(file, Url):
        memory = pa.BufferOutputStream()
        pq.write_table(rows, memory, row_group_size=row_group_size, use_dictionary=often)
        objects.put_buffer(file, memory.getvalue())
    else:
        local.make_folders(file.parent)
        pq.write_table(rows, file, row_group_size=row_group_size, use_dictionary=often)
    return file


def write_small_table(rows: pa.Table, file: Location) -> tuple[pq.FileMetaData, int]:
    """Write a few rows likewise; what the file says of itself, and its size, without another look."""
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
    """A new file, to be written a part at a time and closed; else as `write_table`."""
    if not isinstance(file, Url):
        local.make_folders(file.parent)
    return pq.ParquetWriter(_name(file), schema, filesystem=_system(file))


def _name(file: Location) -> str:
    """A location as Arrow is given it, with the file system that it is in."""
    return objects.arrow_name(file) if isinstance(file, Url) else str(file)


def _system(file: Location) -> pa.fs.FileSystem | None:
    return objects.arrow_system(file) if isinstance(file, Url) else None


def new_arrow(file: Location, schema: pa.Schema) -> AbstractContextManager[pa.ipc.RecordBatchFileWriter]:
    """A new Arrow file, which gets its name once it is whole and on the disk. The name may be lost in a power cut."""
    return objects.new_arrow(file, schema) if isinstance(file, Url) else local.new_arrow(file, schema)


def open_arrow(file: Location) -> pa.ipc.RecordBatchFileReader:
    """An Arrow file. What is not asked for stays where it is."""
    return objects.open_arrow(file) if isinstance(file, Url) else local.open_arrow(file)


def on_this_machine(root: Location) -> Path:
    """Where on this machine is kept what only it can use of a store, such as logs: the store's own
    folder; of a store at a URL, a folder of the user's (`XDG_STATE_HOME`)."""
    if not isinstance(root, Url):
        return Path(root)
    base = os.environ.get("XDG_STATE_HOME")
    named = f"{root.name}-{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"
    return (Path(base) if base else Path.home() / ".local" / "state") / "latecomer" / named


def log_file(root: Location, name: str) -> Path:
    """A log of a store's, on this machine."""
    return on_this_machine(root) / "logs" / name


def new_token() -> str:
    """What tells one attempt from another, in the name of a folder."""
    return uuid.uuid4().hex[:12]


class KeptScratch:
    """A folder for its user alone, gone with this object or with the process."""

    def __init__(self, prefix: str = "latecomer-") -> None:
        self.folder: Location = Path(tempfile.mkdtemp(prefix=prefix))
        weakref.finalize(self, remove_all, self.folder)


@contextmanager
def scratch(prefix: str = "latecomer-") -> Iterator[Path]:
    """A folder that is gone afterwards, for what is only needed meanwhile. Spark writes there, too."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder)


# On the disk, in order: at a URL there is nothing to do


def sync(location: Location) -> None:
    """Bring a file's bytes, or a folder's list of names, to the disk."""
    if not isinstance(location, Url):
        local.sync(location)


def sync_files(files: Iterable[Location], root: Location) -> None:
    """Bring files to the disk, and every folder on the way to them from `root`, each once."""
    if not isinstance(root, Url):
        local.sync_files(files, root)


def sync_folder(folder: Location) -> None:
    """Bring a folder's list of names to the disk, where that can be asked for: some file systems keep it
    by themselves, and a folder that may not be opened is not ours to keep."""
    if not isinstance(folder, Url):
        local.sync_folder(folder)


def make_folder(folder: Location) -> None:
    """Make a folder that is still there after a power cut."""
    if not isinstance(folder, Url):
        local.make_folder(folder)


def require_room(folder: Location, count: int) -> None:
    """Refuse to begin what the disk has no room for, as far as it can be asked without writing."""
    if not isinstance(folder, Url):
        local.require_room(folder, count)


def keep_to_user(location: Location) -> None:
    """Let nobody but their owner read a file with those that SQLite and DuckDB keep beside it, or a folder with all
    that is in it. Links are not followed. An error says which file it was. Who may read a bucket is the bucket's."""
    if not isinstance(location, Url):
        local.keep_to_user(location)
