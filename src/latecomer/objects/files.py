"""Files in an object store: what `store/files.py` offers, for locations that are URLs.

A put is whole and lasting once it returns, so nothing is synced. There are no folders: a folder exists while the name
of an object begins with it. HDFS (`hdfs.py`) has folders, and empty ones are removed.
"""

from __future__ import annotations

import errno
import io
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import PurePath
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import obstore
import pyarrow as pa
import pyarrow.fs
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError

from latecomer.errors import StoreError, StoreOutage
from latecomer.objects.access import Store, first_wait, opened_store, retry_broken_off, what_is_wrong
from latecomer.objects.hdfs import HdfsStore
from latecomer.objects.locations import Storage, Url, options_of

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")
_END = 1 << 20
"""How many bytes at the end of an object are read when it is opened: all of most objects, the footer of the others. An
object that is no larger is always read whole."""
AHEAD = 256 << 10
"""The least bytes of a range that is read: another request would take longer than these bytes do."""
_PART = 8 << 20
"""The size of the parts in which a large object is sent."""


@contextmanager
def _asked(location: Url) -> Iterator[tuple[Store, str]]:
    """The store that a location is in, and its key there. Errors become one sentence."""
    try:
        yield _store(location.scheme, location.bucket, options_of(location)), location.key
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise what_is_wrong(location, error) from None
        raise FileNotFoundError(2, "there is no such object", str(location)) from None
    except (AlreadyExistsError, PreconditionError):
        raise
    except BaseError as error:
        raise what_is_wrong(location, error) from None


@lru_cache(maxsize=64)
def _store(scheme: str, bucket: str, options: Storage) -> Store:
    return opened_store(scheme, bucket, options)


def _twice(ask: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """Retry a function where an answer breaks off. It must have the same effect if it is called twice."""

    @wraps(ask)
    def asking(*given: _Given.args, **named: _Given.kwargs) -> _Answer:
        return retry_broken_off(lambda: ask(*given, **named))

    return asking


# Looking


def exists(location: Url) -> bool:
    return is_file(location) or is_folder(location)


def is_file(location: Url) -> bool:
    try:
        _head(location)
    except FileNotFoundError:
        return False
    return True


@_twice
def is_folder(location: Url) -> bool:
    with _asked(location) as (store, key):
        return any(True for _ in store.list(key or None, chunk_size=1))


@_twice
def names(folder: Url) -> list[str]:
    with _asked(folder) as (store, key):
        listed = store.list_with_delimiter(key or None)
        paths = [*listed["common_prefixes"], *(each["path"] for each in listed["objects"])]
        return sorted({_last(path) for path in paths})


@_twice
def sizes(folder: Url, ending: str) -> dict[str, int]:
    with _asked(folder) as (store, key):
        listed = store.list_with_delimiter(key or None)["objects"]
        sizes = {_last(each["path"]): each["size"] for each in listed if each["path"].endswith(ending)}
        return dict(sorted(sizes.items()))


def files_below(folder: Url) -> list[PurePath]:
    return sorted(folder.joinpath(key) for key, _ in below(folder))


@_twice
def below(folder: Url) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects below a folder: the name of each in it, and its metadata."""
    with _asked(folder) as (store, key):
        start = len(key) + 1 if key else 0
        pages = store.list(key or None, chunk_size=1000)
        return [(each["path"][start:], cast(Mapping[str, Any], each)) for page in pages for each in page]


class Fingerprint(NamedTuple):
    """What tells an object from another one that replaces it."""

    size: int
    tag: str
    written: float


def fingerprint(file: Url) -> Fingerprint:
    return _fingerprint(_head(file))


def _fingerprint(metadata: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(int(metadata["size"]), _tag(metadata), float(metadata["last_modified"].timestamp()))


class Replaced(StoreOutage):
    """An object was replaced while it was read."""


def size(file: Url) -> int:
    return fingerprint(file).size


def written_at(location: Url) -> float:
    """When an object was last written; for a folder, its newest object."""
    try:
        return fingerprint(location).written
    except FileNotFoundError:
        moments = [each["last_modified"].timestamp() for _, each in below(location)]
        if not moments:
            raise
        return float(max(moments))


def _head(file: Url) -> Mapping[str, Any]:
    if not file.key:
        raise FileNotFoundError(2, "there is no such object", str(file))
    with _asked(file) as (store, key):
        return cast(Mapping[str, Any], store.head(key))


def _last(key: str) -> str:
    return key.rstrip("/").rpartition("/")[2]


# Small files


class Tagged(NamedTuple):
    """The content of a small file that several writers may want to replace, and a tag. Writing another content changes
    the tag."""

    content: bytes
    tag: str


@_twice
def read_bytes(file: Url) -> bytes:
    with _asked(file) as (store, key):
        return bytes(store.get(key).bytes())


def read_end(file: Url, count: int) -> bytes:
    with open_object(file) as opened:
        opened.seek(-count, io.SEEK_END)
        return opened.read()


@_twice
def replace_bytes(file: Url, content: bytes) -> None:
    with _asked(file) as (store, key):
        store.put(key, content)


@_twice
def read_tagged(file: Url) -> Tagged | None:
    try:
        with _asked(file) as (store, key):
            got = store.get(key)
            return Tagged(bytes(got.bytes()), _tag(got.meta))
    except FileNotFoundError:
        return None


def put_if(file: Url, content: bytes, tag: str | None) -> str | None:
    """A put whose answer was lost may have succeeded: then the next try is refused because of what this one wrote
    itself."""
    mode: Any = "create" if tag is None else json.loads(tag)
    lost = False
    for wait in (*_WAITS, None):
        began = time.monotonic()
        try:
            with _asked(file) as (store, key):
                return _tag(store.put(key, content, mode=mode))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            lost = lost or time.monotonic() - began > first_wait()
            break
        except StoreOutage:  # the library does not retry a put that may have had an effect
            if wait is None:
                raise
            lost = True
            time.sleep(wait)
    stored = read_tagged(file) if lost else None
    return stored.tag if stored is not None and stored.content == content else None


_WAITS = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""Seconds before each retry of such a put."""


def _tag(metadata: Mapping[str, Any]) -> str:
    return json.dumps({name: metadata[name] for name in ("e_tag", "version") if metadata[name] is not None})


def require_conditional_puts(folder: Url) -> None:
    """Refuse a store that would let two engines write the same file. This is tried out with a file that is removed."""
    probe = folder / f".latecomer-probe-{uuid.uuid4().hex[:12]}"
    try:
        first = put_if(probe, b"1", None)
        keeps_first = first is not None and put_if(probe, b"2", None) is None
        replaces = first is not None and put_if(probe, b"3", first) is not None
        keeps_changed = replaces and put_if(probe, b"4", first) is None
        if not (keeps_first and keeps_changed):
            missing = (
                "replace a file only if it is unchanged"
                if keeps_first
                else "write a file only if it is not there"
            )
            raise StoreError(
                f"{folder} cannot hold a store: {folder.scheme}://{folder.bucket} does not {missing} (If-None-Match, "
                "If-Match), so two runs could overwrite each other; use a store that does, or a folder"
            )
    finally:
        remove(probe)


# Removing and moving


@_twice
def remove(file: Url) -> None:
    try:
        with _asked(file) as (store, key):
            store.delete(key)
    except FileNotFoundError:
        return


def remove_all(folder: Url) -> None:
    with _asked(folder) as (store, key):
        if isinstance(store, HdfsStore):
            store.delete_folder(key)
            return
        paths = [(folder / name).key for name, _ in below(folder)]
        if paths:
            store.delete(paths)


def remove_empty(folder: Url, within: Url) -> None:
    """Only HDFS has folders that are empty."""
    while folder != within:
        with _asked(folder) as (store, key):
            if not isinstance(store, HdfsStore) or not store.delete_empty(key):
                return
        folder = folder.parent


def remove_drafts(folder: Url, before: float) -> None:
    """Remove what a killed process had begun to write: elsewhere than in HDFS, nothing of an object is there before
    all of it is."""
    with _asked(folder) as (store, key):
        if isinstance(store, HdfsStore):
            store.delete_drafts(key, before)


def move(file: Url, to: Url) -> Url:
    copy(file, to)
    remove(file)
    return to


@_twice
def copy(file: Url, to: Url) -> Url:
    if file.parts[:2] != to.parts[:2]:
        replace_bytes(to, read_bytes(file))
        return to
    with _asked(file) as (store, key):
        store.copy(key, to.key)
    return to


# Rows


@_twice
def open_object(file: Url, known: Fingerprint | None = None, ahead: int = AHEAD) -> _Object:
    """An object, to be read by ranges of at least `ahead` bytes. Unless it is `known`, its end is read at once: most
    objects need no other request. A read raises `Replaced` where the object was replaced since."""
    if known is not None:
        return _Object(file, known, memoryview(b""), ahead)
    with _asked(file) as (store, key):
        try:
            got = store.get(key, options={"range": {"suffix": _END}})
        except BaseError as error:
            # Azure has no ranges from the end, and an empty object (416) has none at all.
            if not isinstance(error, NotSupportedError) and "416" not in str(error):
                raise
            return _Object(file, _fingerprint(store.head(key)), memoryview(b""), ahead)
        return _Object(file, _fingerprint(got.meta), memoryview(got.bytes()), ahead)


@_twice
def _range(file: Url, known: Fingerprint, start: int, stop: int) -> bytes:
    try:
        with _asked(file) as (store, key):
            got = store.get(key, options={"range": (start, stop)})
            if _fingerprint(got.meta) == known:
                return bytes(got.bytes())
    except StoreOutage:
        raise
    except StoreError:  # it may have become shorter
        if fingerprint(file) == known:
            raise
    raise Replaced(f"{file} was replaced while it was read")


_outer_range = lru_cache(maxsize=8)(_range)
"""The head, the footer or all of a small object: each part of it that is read needs them."""


class _Object(io.RawIOBase):
    """An object as an open file."""

    def __init__(self, file: Url, known: Fingerprint, end: memoryview, ahead: int) -> None:
        super().__init__()
        self._file, self._known, self._ahead, self._at = file, known, ahead, 0
        self._cached = [(known.size - len(end), end)]
        """Bytes in memory, and where each part begins: the end, and what was read last."""

    def size(self) -> int:
        return self._known.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._known.size}[whence]
        if at < 0:  # as a file does: a damaged footer may ask for it
            raise OSError(errno.EINVAL, "Invalid argument", str(self._file))
        self._at = at
        return at

    def read(self, size: int | None = -1) -> bytes:
        start, whole = self._at, self._known.size
        stop = whole if size is None or size < 0 else min(start + size, whole)
        if stop <= start:
            return b""
        self._at = stop
        for begin, part in self._cached:
            if begin <= start and stop <= begin + len(part):
                return bytes(part[start - begin : stop - begin])
        first, last = (0, whole) if whole <= _END else (start, min(max(stop, start + self._ahead), whole))
        is_kept = last - first <= _END and (first == 0 or last == whole)
        content = (_outer_range if is_kept else _range)(self._file, self._known, first, last)
        if (first, last) == (start, stop):
            return content
        self._cached[1:] = [(first, memoryview(content))]
        return content[start - first : stop - first]

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class _NewObject(io.RawIOBase):
    """A new object as an open file. It exists once this is closed, and never if this is not closed."""

    def __init__(self, file: Url) -> None:
        super().__init__()
        self._file = file
        with _asked(file) as (store, key):
            if isinstance(store, HdfsStore):
                self._sent: Any = store.open_writer(key)
            else:
                self._sent = obstore.open_writer(store, key, buffer_size=_PART)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with _asked(self._file):
            return int(self._sent.write(memoryview(content).cast("B")))

    def close(self) -> None:
        if not self.closed:
            with _asked(self._file):
                self._sent.close()
            super().close()

    def __del__(self) -> None:
        """Do nothing: closing would finish the object."""


@contextmanager
def new_arrow(file: Url, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchFileWriter]:
    # After an error the object stays open: what was sent never gets its name.
    sent = _NewObject(file)
    with pa.ipc.new_file(pa.PythonFile(sent, mode="w"), schema) as writer:
        yield writer
    sent.close()


def open_arrow(file: Url) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(pa.PythonFile(open_object(file), mode="r"))


@_twice
def put_buffer(file: Url, content: pa.Buffer) -> None:
    """Write a buffer into an object; a large one is sent in several parts at once."""
    with _asked(file) as (store, key):
        store.put(key, memoryview(content).cast("B"))


def arrow_system(file: Url) -> pa.fs.FileSystem:
    """Arrow's file system for an object."""
    return pa.fs.PyFileSystem(_Files(file.scheme))


def arrow_name(file: Url) -> str:
    """An object's name in Arrow's file system."""
    return f"{file.bucket}/{file.key}"


class _Files(pa.fs.FileSystemHandler):  # type: ignore[misc]
    """Objects as a file system for Arrow, which reads rows from it and writes new files."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    def _url(self, path: str) -> Url:
        return Url(f"{self._scheme}:/{path}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and other._scheme == self._scheme

    def __hash__(self) -> int:
        return hash(self._scheme)

    def get_type_name(self) -> str:
        return f"latecomer-{self._scheme}"

    def normalize_path(self, path: str) -> str:
        return path.rstrip("/")

    def get_file_info(self, paths: Sequence[str]) -> list[pa.fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pa.fs.FileInfo:
        try:
            return pa.fs.FileInfo(path, pa.fs.FileType.File, size=size(self._url(path)))
        except FileNotFoundError:
            kind = pa.fs.FileType.Directory if is_folder(self._url(path)) else pa.fs.FileType.NotFound
            return pa.fs.FileInfo(path, kind)

    def get_file_info_selector(self, selector: pa.fs.FileSelector) -> list[pa.fs.FileInfo]:
        return [
            pa.fs.FileInfo(f"{selector.base_dir}/{name}", pa.fs.FileType.File, size=metadata["size"])
            for name, metadata in below(self._url(selector.base_dir))
        ]

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(open_object(self._url(path)), mode="r")

    def open_output_stream(self, path: str, metadata: Mapping[str, str]) -> pa.NativeFile:
        return pa.PythonFile(_NewObject(self._url(path)), mode="w")

    def _not_offered(self, *_: object) -> Any:
        raise NotImplementedError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _not_offered
    delete_file = move = copy_file = open_append_stream = _not_offered
