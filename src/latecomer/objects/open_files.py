"""Objects as open files: read by ranges, and written a part at a time; and as a file system for Arrow."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.fs
from obstore.exceptions import BaseError, NotSupportedError

from latecomer.errors import StoreError, StoreOutage
from latecomer.objects.files import (
    Fingerprint,
    below,
    fingerprint,
    fingerprint_of,
    is_folder,
    retried,
    size,
    store_of,
)
from latecomer.objects.hdfs import HdfsStore
from latecomer.objects.locations import Url

_END = 1 << 20
"""How many bytes at the end of an object are read when it is opened: all of most objects, the footer of the others. An
object that is no larger is always read whole."""
AHEAD = 256 << 10
"""The least bytes of a range that is read: another request would take longer than these bytes do."""
_PART = 8 << 20
"""The size of the parts in which a large object is sent."""


class Replaced(StoreOutage):
    """An object was replaced while it was read."""


@retried
def open_object(file: Url, known: Fingerprint | None = None, ahead: int = AHEAD) -> _Object:
    """An object, to be read by ranges of at least `ahead` bytes. Unless it is `known`, its end is read at once: most
    objects need no other request. A read raises `Replaced` where the object was replaced since."""
    if known is not None:
        return _Object(file, known, memoryview(b""), ahead)
    with store_of(file) as (store, key):
        try:
            got = store.get(key, options={"range": {"suffix": _END}})
        except BaseError as error:
            # Azure has no ranges from the end, and an empty object (416) has none at all.
            if not isinstance(error, NotSupportedError) and "416" not in str(error):
                raise
            return _Object(file, fingerprint_of(store.head(key)), memoryview(b""), ahead)
        return _Object(file, fingerprint_of(got.meta), memoryview(got.bytes()), ahead)


def read_end(file: Url, count: int) -> bytes:
    with open_object(file) as opened:
        opened.seek(-count, io.SEEK_END)
        return opened.read()


@retried
def _range(file: Url, known: Fingerprint, start: int, stop: int) -> bytes:
    try:
        with store_of(file) as (store, key):
            got = store.get(key, options={"range": (start, stop)})
            if fingerprint_of(got.meta) == known:
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
        with store_of(file) as (store, key):
            if isinstance(store, HdfsStore):
                self._sent: Any = store.open_writer(key)
            else:
                self._sent = obstore.open_writer(store, key, buffer_size=_PART)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with store_of(self._file):
            return int(self._sent.write(memoryview(content).cast("B")))

    def close(self) -> None:
        if not self.closed:
            with store_of(self._file):
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
        raise NotImplementedError("Arrow reads and writes files here; it changes none, and needs no folders")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _not_offered
    delete_file = move = copy_file = open_append_stream = _not_offered
