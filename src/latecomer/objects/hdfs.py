"""HDFS as a bucket: what `files.py` asks of an object store, done by a NameNode.

Of several processes that create a file or rename one to the same name, one succeeds. HDFS cannot replace a file under
a condition. So a file that is replaced under a condition has numbered versions beside it, in a folder that no listing
shows. A version gets its number by a rename, which succeeds for one process. The highest number is the file, and older
versions are removed. A slow process may get a number that was removed long ago. Then it sees a higher one, and nobody
ever reads its own.

A file is written under another name, and renamed once it is whole. The addresses of a name service and the user's
ticket are found as Hadoop finds them: by `HADOOP_CONF_DIR` and Kerberos.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

from latecomer.errors import StoreError

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus, FileWriter

_Answer = TypeVar("_Answer")
_HIDDEN = ".~"
"""The beginning of the names of drafts, and of folders with versions."""
_PART = 8 << 20
DISCONNECTED = "RPC listener disconnected"
"""The client's words for an answer that was lost."""
_LONGEST_WAIT = 300.0
"""Seconds for an answer of the NameNode. The client itself tries a NameNode that is down for three minutes."""


def _answer(request: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """What the NameNode answers. The client has no limit for one that keeps the connection and is silent, so the
    request waits in a thread of its own, which does not hold up the end of the process."""
    answer: Future[_Answer] = Future()

    def wait() -> None:
        try:
            answer.set_result(request(*arguments))
        except BaseException as error:  # whoever asked raises it
            answer.set_exception(error)

    Thread(target=wait, name="latecomer-namenode", daemon=True).start()
    try:
        return answer.result(_LONGEST_WAIT)
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"timed out: no answer within {_LONGEST_WAIT:g} s") from None


@contextmanager
def _obstore_errors(key: str) -> Iterator[None]:
    """Errors become those of obstore: only 'exists' and 'does not exist' have classes of their own. `key` is the file
    that they name."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(2, "there is no such file", key) from None
    except FileExistsError:
        raise AlreadyExistsError(key) from None
    except (OSError, RuntimeError, ValueError) as error:
        if "is not a directory" in str(error):  # something below a file
            raise FileNotFoundError(2, "there is no such file", key) from None
        # Without the lines of Java's trace, some of which are escaped.
        raise GenericError(str(error).split("\n", 1)[0].split("\\n", 1)[0]) from error


class Got:
    """What was read of a file, and its metadata."""

    def __init__(self, content: bytes, meta: Mapping[str, Any]) -> None:
        self._content, self.meta = content, meta

    def bytes(self) -> bytes:
        return self._content


def _tag(content: bytes, version: int) -> dict[str, Any]:
    return {"e_tag": hashlib.sha256(content).hexdigest(), "version": str(version)}


class HdfsStore:
    """The files of a NameNode or a name service; keys are paths without their first slash."""

    def __init__(self, authority: str) -> None:
        try:
            import hdfs_native
        except ImportError:
            raise StoreError(
                f"hdfs://{authority} needs the package hdfs-native; install it: pip install 'latecomer[hdfs]'"
            ) from None
        self._new_options = hdfs_native.WriteOptions
        with _obstore_errors(authority):
            self._client: Client = hdfs_native.Client(f"hdfs://{authority}")

    # Looking

    def head(self, key: str) -> Mapping[str, Any]:
        status, _ = self._ask_current(key, self._client.get_file_info)
        if status.isdir:
            raise FileNotFoundError(2, "there is no such file", key)
        return _described(key, status)

    def list(self, prefix: str | None, chunk_size: int = 1) -> Iterator[Sequence[Mapping[str, Any]]]:
        """The files below a folder, one at a time: folders are listed as they are reached."""
        for each in self._entries(prefix or ""):
            key = each.path.lstrip("/")
            if each.isdir:
                yield from self.list(key)
            else:
                yield [_described(key, each)]

    def list_with_delimiter(self, prefix: str | None) -> Mapping[str, Any]:
        entries = self._entries(prefix or "")
        return {
            "common_prefixes": [each.path.lstrip("/") for each in entries if each.isdir],
            "objects": [_described(each.path.lstrip("/"), each) for each in entries if not each.isdir],
        }

    def _entries(self, folder: str) -> Sequence[FileStatus]:
        """What is in a folder, without what is hidden; nothing where there is no folder."""
        return [each for each in self._listed(folder) if not _name(each.path).startswith(_HIDDEN)]

    def _listed(self, folder: str) -> Sequence[FileStatus]:
        try:
            with _obstore_errors(folder):
                statuses = _answer(lambda: [*self._client.list_status(f"/{folder}")])
        except FileNotFoundError:
            return []
        return [each for each in statuses if each.path.strip("/") != folder]  # a file is listed as itself

    # Reading

    def get(self, key: str, options: Mapping[str, Any] | None = None) -> Got:
        """A file, with its tag; or a range of its bytes, or its last bytes."""

        def read(path: str) -> tuple[bytes, Mapping[str, Any]]:
            about = _described(key, self._client.get_file_info(path))
            opened, size = self._client.read(path), about["size"]
            wanted = (0, size) if options is None else options["range"]
            start, stop = (max(0, size - wanted["suffix"]), size) if isinstance(wanted, Mapping) else wanted
            if stop > size:
                raise GenericError(f"{key} has only {size} bytes")
            return bytes(opened.read_range(start, stop - start)) if stop > start else b"", about

        (content, about), version = self._ask_current(key, read)
        return Got(content, {**about, **_tag(content, version)} if options is None else about)

    def _ask_current(self, key: str, ask: Callable[[str], _Answer]) -> tuple[_Answer, int]:
        """What `ask` gives for the path that has a file's content now, and the number of its version."""
        while True:
            path, version = self._current(key)
            try:
                with _obstore_errors(key):
                    return _answer(ask, path), version
            except FileNotFoundError:
                if not version:
                    raise
                # The file was replaced meanwhile.

    # Writing

    def put(self, key: str, content: Any, mode: Any = "overwrite") -> Mapping[str, Any]:
        """Write a file: always (`overwrite`), only if there is none (`create`), or only over the version with a tag."""
        written, version = bytes(content), 0
        with self._draft(key) as draft:
            with _obstore_errors(key):
                _answer(self._write, draft, written)
            if isinstance(mode, Mapping):
                version = self._replace(key, draft, mode)
            else:
                self._give_name(draft, key, mode == "overwrite")
        return _tag(written, version)

    def open_writer(self, key: str) -> HdfsWriter:
        """A file that is written a part at a time. It exists once it is closed."""
        draft = self._draft_name(key)
        with _obstore_errors(key):
            opened = _answer(self._new, draft)
        return HdfsWriter(key, opened, lambda: self._give_name(draft, key, True))

    def copy(self, key: str, to: str) -> None:
        opened, _ = self._ask_current(key, self._client.read)
        writer = self.open_writer(to)
        with _obstore_errors(key):
            while part := opened.read(_PART):
                writer.write(part)
        writer.close()

    def _write(self, path: str, content: bytes) -> None:
        with self._new(path) as opened:
            opened.write(content)

    def _new(self, path: str) -> FileWriter:
        return self._client.create(path, self._new_options(create_parent=True))

    def _give_name(self, draft: str, key: str, replacing: bool) -> None:
        """Rename a draft to the file. A file that has versions gets another version."""
        numbers = self._numbers(key)
        if numbers and not replacing:
            raise AlreadyExistsError(key)
        while numbers and not self._numbered(draft, key, numbers[-1] + 1):
            numbers = self._numbers(key)
        if not numbers:
            self._rename(draft, f"/{key}", replacing)

    def _replace(self, key: str, draft: str, tag: Mapping[str, Any]) -> int:
        """Make a draft the next version of the file with this tag; gives its number."""
        current, version = self._current(key)[1], int(tag["version"])
        if current != version:
            raise PreconditionError(key)
        if version == 0:
            if self.get(key).meta["e_tag"] != tag["e_tag"]:
                raise PreconditionError(key)
            with _obstore_errors(key):
                _answer(lambda: self._client.mkdirs(_versions_of(key), create_parent=True))
        if not self._numbered(draft, key, version + 1):
            raise PreconditionError(key)
        return version + 1

    def _numbered(self, draft: str, key: str, number: int) -> bool:
        """Make a draft the version with this number, if that is the highest. If not, the version may exist for a
        moment."""
        try:
            self._rename(draft, _version(key, number))
        except AlreadyExistsError:
            return False
        numbers = self._numbers(key)
        newest = numbers[-1:] == [number]
        for each in numbers[:-1] if newest else [number]:
            self._remove(_version(key, each))
        return newest

    def _rename(self, draft: str, path: str, replacing: bool = False) -> None:
        """Rename a draft. The client itself retries where an answer was lost: a draft that is missing may have been
        renamed."""
        try:
            with _obstore_errors(path):
                _answer(self._client.rename, draft, path, replacing)
        except FileNotFoundError:
            raise GenericError(f"{DISCONNECTED} while {path} was named") from None

    def _current(self, key: str) -> tuple[str, int]:
        """The path that has a file's content now, and the number of its version; 0 for a file without versions."""
        numbers = self._numbers(key)
        return (_version(key, numbers[-1]), numbers[-1]) if numbers else (f"/{key}", 0)

    def _numbers(self, key: str) -> Sequence[int]:
        return sorted(int(_name(each.path)) for each in self._listed(_versions_of(key).lstrip("/")))

    @contextmanager
    def _draft(self, key: str) -> Iterator[str]:
        """A name to write a file under. After an error the draft is removed."""
        draft = self._draft_name(key)
        try:
            yield draft
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                self._remove(draft)
            raise

    def _draft_name(self, key: str) -> str:
        return f"/{_folder(key)}{_HIDDEN}{uuid4().hex}"

    # Removing

    def delete(self, keys: str | Sequence[str]) -> None:
        for key in [keys] if isinstance(keys, str) else keys:
            self._remove(_versions_of(key), recursive=True)
            self._remove(f"/{key}")

    def delete_folder(self, key: str) -> None:
        """Remove a folder with all that is in it."""
        self._remove(f"/{key}", recursive=True)

    def delete_drafts(self, folder: str, before: float) -> None:
        """Remove drafts below a folder that were begun before a moment: whoever wrote them was killed."""
        for each in self._listed(folder):
            is_hidden = _name(each.path).startswith(_HIDDEN)
            if is_hidden and not each.isdir and each.modification_time / 1000 < before:
                self._remove(each.path)
            elif each.isdir and not is_hidden:
                self.delete_drafts(each.path.strip("/"), before)

    def delete_empty(self, key: str) -> bool:
        """Remove a folder if it is empty; whether it was."""
        try:
            return self._remove(f"/{key}")
        except GenericError as error:
            if "PathIsNotEmptyDirectory" in str(error):
                return False
            raise

    def _remove(self, path: str, recursive: bool = False) -> bool:
        with _obstore_errors(path):
            return bool(_answer(self._client.delete, path, recursive))


class HdfsWriter:
    """A draft that is written a part at a time: a part may need a new block, for which the NameNode is asked."""

    def __init__(self, key: str, draft: FileWriter, give_name: Callable[[], None]) -> None:
        self._key, self._draft, self._give_name = key, draft, give_name
        self._part = bytearray()

    def write(self, content: Any) -> int:
        added = memoryview(content).cast("B")
        self._part += added
        if len(self._part) >= _PART:
            self._send_part()
        return added.nbytes

    def close(self) -> None:
        self._send_part()
        with _obstore_errors(self._key):
            _answer(self._draft.close)
        self._give_name()

    def _send_part(self) -> None:
        if self._part:
            part, self._part = bytes(self._part), bytearray()
            with _obstore_errors(self._key):
                _answer(self._draft.write, part)


def _described(key: str, status: FileStatus) -> Mapping[str, Any]:
    moment = datetime.fromtimestamp(status.modification_time / 1000, UTC)
    return {"path": key, "size": status.length, "last_modified": moment, "e_tag": None, "version": None}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(key: str) -> str:
    """The folder of a key, with the slash after it."""
    return "".join(key.rpartition("/")[:2])


def _versions_of(key: str) -> str:
    """Where the versions of a file are."""
    return f"/{_folder(key)}{_HIDDEN}{_name(key)}"


def _version(key: str, number: int) -> str:
    return f"{_versions_of(key)}/{number:012}"
