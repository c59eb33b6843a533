"""The files of a store: every access to them goes through this module.

Other modules have a *location*: the name of a folder or a file, which can be joined and compared, but not read or
written. It is a path on this machine (`local_files.py`, which has the promises) or a URL (`objects/files.py`): each
function checks which it is, and no other module needs to know (ADR 0026, ADR 0087).

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
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from latecomer.errors import StoreError
from latecomer.objects import files as objects
from latecomer.objects import open_files
from latecomer.objects.access import BrokenOff, in_words, retry_broken_off, rust_options, what_is_wrong
from latecomer.objects.files import Tagged
from latecomer.objects.locations import Url, is_url, options_of
from latecomer.store import local_files as local
from latecomer.store.local_files import Location, LockFile, lock_holder

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

__all__ = ["Location", "LockFile", "Tagged", "Url", "is_url", "lock_holder"]


def url(location: Location) -> str:
    """A location in the form of delta-rs."""
    return str(location)


def uri(location: Location) -> str:
    """A location with its scheme: for a file that is not below its Delta table, and for a session that is not ours."""
    return str(location) if isinstance(location, Url) else f"file://{location}"


def storage_options(location: Location) -> dict[str, str] | None:
    """The options that delta-rs needs for a location, secrets among them; None on this machine."""
    return rust_options(location, options_of(location)) if isinstance(location, Url) else None


def retry_reads(location: Location, work: Callable[[], _Result]) -> _Result:
    """The result of another library's read of a location: it is retried where an answer breaks off."""

    def attempt() -> _Result:
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


_NAMED = ("__name__", "__qualname__", "__doc__")


def _either(
    on_disk: Callable[Concatenate[Path, _Given], _Result], at_url: Callable[..., _Result]
) -> Callable[Concatenate[Location, _Given], _Result]:
    """One function for both kinds of locations: its first argument is the location, and decides which one is called.
    The promise is that of `on_disk`."""

    @wraps(on_disk, assigned=_NAMED)  # one that is named as here can be pickled
    def chosen(location: Location, /, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        if isinstance(location, Url):
            return at_url(location, *given, **named)
        return on_disk(Path(location), *given, **named)

    return chosen


def _nothing(*_: object) -> None:
    """There is nothing to do."""


# Looking

exists = _either(Path.exists, objects.exists)
is_file = _either(Path.is_file, objects.is_file)
is_folder = _either(Path.is_dir, objects.is_folder)
is_link = _either(Path.is_symlink, lambda _: False)
names = _either(local.names, objects.names)
sizes = _either(local.sizes, objects.sizes)
files_below = _either(local.files_below, objects.files_below)
size = _either(os.path.getsize, objects.size)
written_at = _either(os.path.getmtime, objects.written_at)  # in seconds since the epoch
folder_identity = _either(local.folder_identity, _nothing)
is_writable = _either(local.is_writable, lambda _: True)  # only a write can show that of a bucket


def parquet_files(folder: Location) -> list[Location]:
    """The Parquet files below a folder, in order of name."""
    return [
        file
        for file in files_below(folder)
        if file.name.endswith(".parquet") and not file.name.startswith(("_", "."))
    ]


# Small files

read_bytes = _either(local.read_bytes, objects.read_bytes)
read_end = _either(local.read_end, open_files.read_end)
replace_bytes = _either(local.replace_bytes, objects.replace_bytes)
read_tagged = _either(local.read_tagged, objects.read_tagged)
put_if = _either(local.put_if, objects.put_if)
read_lease_file = _either(local.read_numbered, objects.read_tagged)
put_lease_file = _either(local.put_numbered, objects.put_if)


def read_text(file: Location) -> str:
    return read_bytes(file).decode("utf-8")


def text_of(file: Location) -> str | None:
    """The text of a file that latecomer wrote; None where there is no file."""
    try:
        with as_written(file):
            return read_text(file)
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def as_written(file: Location | str, fix: str = "restore the store from a backup") -> Iterator[None]:
    """Within this context the content of a file of latecomer's is read. An error says that somebody else wrote or
    changed the file, and has this fix."""
    try:
        yield
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise StoreError(f"{file} cannot be read: it is not what latecomer wrote; {fix}") from None


def replace_text(file: Location, text: str) -> None:
    """Write a text into a file: whole or not at all, and durable once this returns."""
    replace_bytes(file, text.encode("utf-8"))


require_conditional_puts = _either(_nothing, objects.require_conditional_puts)  # every folder can do `put_if`


# Removing and moving


remove = _either(local.remove, objects.remove)
remove_all = _either(local.remove_all, objects.remove_all)
remove_empty = _either(local.remove_empty, objects.remove_empty)
remove_drafts = _either(_nothing, objects.remove_drafts)  # what a killed process had begun to write to a URL


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
        opened = open_files.open_object(file)
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
    return open_files.arrow_name(file) if isinstance(file, Url) else str(file)


def _system(file: Location) -> pa.fs.FileSystem | None:
    return open_files.arrow_system(file) if isinstance(file, Url) else None


new_arrow = _either(local.new_arrow, open_files.new_arrow)
open_arrow = _either(local.open_arrow, open_files.open_arrow)


def on_this_machine(root: Location) -> Path:
    """The folder for files of a store that only this machine uses, such as logs: the store's own folder; for a store at
    a URL, a folder of the user's (`XDG_STATE_HOME`)."""
    if not isinstance(root, Url):
        return Path(root)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = f"{root.name}-{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"
    return Path(base, "latecomer", name)


def log_file(root: Location, name: str) -> Path:
    """A log of a store, on this machine."""
    return on_this_machine(root) / "logs" / name


def new_token() -> str:
    """A random token that tells attempts apart, in names of folders."""
    return uuid.uuid4().hex[:12]


class KeptScratch:
    """A private temporary folder, removed with this object or with the process."""

    def __init__(self) -> None:
        self.folder: Location = Path(tempfile.mkdtemp(prefix="latecomer-"))
        weakref.finalize(self, remove_all, self.folder)


@contextmanager
def scratch(prefix: str = "latecomer-") -> Iterator[Path]:
    """A temporary folder. Spark writes there, too."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder)


# Syncing to the disk, in order

sync = _either(local.sync, _nothing)
sync_folder = _either(local.sync_folder, _nothing)
make_folder = _either(local.make_folder, _nothing)
require_room = _either(local.require_room, _nothing)
keep_to_user = _either(local.keep_to_user, _nothing)  # access to a bucket is left to the bucket


def sync_files(files: Iterable[Location], root: Location) -> None:
    """Sync files, and every folder between `root` and them once."""
    if not isinstance(root, Url):
        local.sync_files(files, root)
