"""HDFS as a bucket: the questions that `files.py` asks of an object store, answered by a NameNode.

HDFS makes or renames a file for one of several who ask, and cannot replace one under a condition. So a file that is
replaced so has a row of numbered versions beside it, in a folder that no listing shows: a version gets its number by a
rename for one of several, and the highest is the file. Older ones are removed. Whoever was slow may get a number
that was removed long ago. It sees a higher one then, and nobody ever looks at its own.

A file is written under another name, and gets its own once it is whole. Addresses of a name service and the user's
ticket are found as Hadoop finds them: by `HADOOP_CONF_DIR` and Kerberos.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

from latecomer.errors import StoreError

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus, FileWriter

_Answer = TypeVar("_Answer")
_HIDDEN = ".~"
"""Begins the names of drafts, and of the folders with versions."""
_PART = 8 << 20
DISCONNECTED = "RPC listener disconnected"
"""The client's words for an answer that was lost."""


@contextmanager
def _asked(key: str) -> Iterator[None]:
    """What goes wrong, as an error of obstore's: only that a file is there, or not, has a class of its own."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(2, "there is no such file", key) from None
    except FileExistsError:
        raise AlreadyExistsError(key) from None
    except (OSError, RuntimeError, ValueError) as error:
        if "is not a directory" in str(error):  # something below a file
            raise FileNotFoundError(2, "there is no such file", key) from None
        raise GenericError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    """Without the lines of Java that come after it, of which some are quoted."""
    return str(error).split("\n", 1)[0].split("\\n", 1)[0]


class Got:
    """What was read of a file, and what is said of it."""

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
        with _asked(authority):
            self._client: Client = hdfs_native.Client(f"hdfs://{authority}")

    # What is there

    def head(self, key: str) -> Mapping[str, Any]:
        found, _ = self._of_current(key, self._client.get_file_info)
        if found.isdir:
            raise FileNotFoundError(2, "there is no such file", key)
        return _described(key, found)

    def list(self, prefix: str | None, chunk_size: int = 1) -> Iterator[Sequence[Mapping[str, Any]]]:
        """The files below a folder, one after the other, as far as they are asked for."""
        for each in self._entries(prefix or ""):
            key = each.path.lstrip("/")
            if each.isdir:
                yield from self.list(key)
            else:
                yield [_described(key, each)]

    def list_with_delimiter(self, prefix: str | None) -> Mapping[str, Any]:
        found = self._entries(prefix or "")
        return {
            "common_prefixes": [each.path.lstrip("/") for each in found if each.isdir],
            "objects": [_described(each.path.lstrip("/"), each) for each in found if not each.isdir],
        }

    def _entries(self, folder: str) -> Sequence[FileStatus]:
        """What is in a folder, but for what is hidden; nothing where there is none."""
        return [each for each in self._listed(folder) if not _name(each.path).startswith(_HIDDEN)]

    def _listed(self, folder: str) -> Sequence[FileStatus]:
        try:
            with _asked(folder):
                found = [*self._client.list_status(f"/{folder}")]
        except FileNotFoundError:
            return []
        return [each for each in found if each.path.strip("/") != folder]  # a file is listed as itself

    # What is in it

    def get(self, key: str, options: Mapping[str, Any] | None = None) -> Got:
        """A file, with its tag; or some bytes of it: from one to another, or so many at the end."""

        def read(path: str) -> tuple[bytes, Mapping[str, Any]]:
            about = _described(key, self._client.get_file_info(path))
            opened, size = self._client.read(path), about["size"]
            asked = (0, size) if options is None else options["range"]
            start, stop = (max(0, size - asked["suffix"]), size) if isinstance(asked, Mapping) else asked
            if stop > size:
                raise GenericError(f"{key} has only {size} bytes")
            return bytes(opened.read_range(start, stop - start)) if stop > start else b"", about

        (content, about), version = self._of_current(key, read)
        return Got(content, {**about, **_tag(content, version)} if options is None else about)

    def _of_current(self, key: str, ask: Callable[[str], _Answer]) -> tuple[_Answer, int]:
        """What is asked of the path that has a file's content now, and the number of its version."""
        while True:
            path, version = self._current(key)
            try:
                with _asked(key):
                    return ask(path), version
            except FileNotFoundError:
                if not version:
                    raise
                # It was replaced meanwhile.

    # What is written

    def put(self, key: str, content: Any, mode: Any = "overwrite") -> Mapping[str, Any]:
        """Write a file in any case, only where there is none (`create`), or only over what has a tag."""
        written, version = bytes(content), 0
        with self._draft(key) as draft:
            with _asked(key), self._new(draft) as opened:
                opened.write(written)
            if isinstance(mode, Mapping):
                version = self._replace(key, draft, mode)
            else:
                self._give_name(draft, key, mode == "overwrite")
        return _tag(written, version)

    def open_writer(self, key: str) -> HdfsWriter:
        """A file that is written a part at a time, and there once it is closed."""
        draft = self._draft_name(key)
        with _asked(key):
            return HdfsWriter(self._new(draft), lambda: self._give_name(draft, key, True))

    def copy(self, key: str, to: str) -> None:
        opened, _ = self._of_current(key, self._client.read)
        writer = self.open_writer(to)
        with _asked(key):
            while part := opened.read(_PART):
                writer.write(part)
        writer.close()

    def _new(self, path: str) -> FileWriter:
        return self._client.create(path, self._new_options(create_parent=True))

    def _give_name(self, draft: str, key: str, replacing: bool) -> None:
        """Have a draft be the file. What has versions already gets another one."""
        numbers = self._numbers(key)
        if numbers and not replacing:
            raise AlreadyExistsError(key)
        while numbers and not self._numbered(draft, key, numbers[-1] + 1):
            numbers = self._numbers(key)
        if not numbers:
            self._rename(draft, f"/{key}", replacing)

    def _replace(self, key: str, draft: str, tag: Mapping[str, Any]) -> int:
        """Have a draft be the next version of what has this tag; its number."""
        now, version = self._current(key)[1], int(tag["version"])
        if now != version:
            raise PreconditionError(key)
        if version == 0:
            if self.get(key).meta["e_tag"] != tag["e_tag"]:
                raise PreconditionError(key)
            with _asked(key):
                self._client.mkdirs(_row(key), create_parent=True)
        if not self._numbered(draft, key, version + 1):
            raise PreconditionError(key)
        return version + 1

    def _numbered(self, draft: str, key: str, number: int) -> bool:
        """Have a draft be the version with this number, if it is the highest; it may be there for a moment even where
        it is not."""
        mine = _version(key, number)
        try:
            self._rename(draft, mine)
        except AlreadyExistsError:
            return False
        numbers = self._numbers(key)
        newest = numbers[-1:] == [number]
        for each in numbers[:-1] if newest else [number]:
            self._remove(_version(key, each))
        return newest

    def _rename(self, draft: str, path: str, replacing: bool = False) -> None:
        """Have a draft be called so. The client asks again by itself where an answer was lost: a draft that is gone may
        have its name."""
        try:
            with _asked(path):
                self._client.rename(draft, path, replacing)
        except FileNotFoundError:
            raise GenericError(f"{DISCONNECTED} while {path} was named") from None

    def _current(self, key: str) -> tuple[str, int]:
        """The path that has a file's content now, and the number of its version; 0 where it was never replaced so."""
        numbers = self._numbers(key)
        return (_version(key, numbers[-1]), numbers[-1]) if numbers else (f"/{key}", 0)

    def _numbers(self, key: str) -> Sequence[int]:
        return sorted(int(_name(each.path)) for each in self._listed(_row(key).lstrip("/")))

    @contextmanager
    def _draft(self, key: str) -> Iterator[str]:
        """A name for what is to be a file; nothing is left there."""
        draft = self._draft_name(key)
        try:
            yield draft
        except BaseException:
            with suppress(Exception):  # what went wrong before is the news
                self._remove(draft)
            raise

    def _draft_name(self, key: str) -> str:
        return f"/{_folder(key)}{_HIDDEN}{uuid4().hex}"

    # What goes

    def delete(self, keys: str | Sequence[str]) -> None:
        for key in [keys] if isinstance(keys, str) else keys:
            self._remove(_row(key), recursive=True)
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
        with _asked(path):
            return bool(self._client.delete(path, recursive))


class HdfsWriter:
    """A draft that is written a part at a time."""

    def __init__(self, draft: FileWriter, give_name: Callable[[], None]) -> None:
        self._draft, self._give_name = draft, give_name

    def write(self, content: Any) -> int:
        with _asked("draft"):
            return int(self._draft.write(bytes(content)))

    def close(self) -> None:
        with _asked("draft"):
            self._draft.close()
        self._give_name()


def _described(key: str, status: FileStatus) -> Mapping[str, Any]:
    moment = datetime.fromtimestamp(status.modification_time / 1000, UTC)
    return {"path": key, "size": status.length, "last_modified": moment, "e_tag": None, "version": None}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(key: str) -> str:
    """The folder of a key, with the slash after it."""
    return "".join(key.rpartition("/")[:2])


def _row(key: str) -> str:
    """Where the versions of a file are."""
    return f"/{_folder(key)}{_HIDDEN}{_name(key)}"


def _version(key: str, number: int) -> str:
    return f"{_row(key)}/{number:012}"
