"""Files in an object store: what `store/files.py` offers, for locations that are URLs.

A put is whole and lasting once it returns, so nothing is synced. There are no folders: a folder exists while the name
of an object begins with it. HDFS (`hdfs.py`) has folders, and empty ones are removed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import PurePath
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from latecomer.errors import StoreError, StoreOutage
from latecomer.objects.access import Store, first_wait, opened_store, retry_broken_off, what_is_wrong
from latecomer.objects.hdfs import HdfsStore
from latecomer.objects.locations import Storage, Url, options_of

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


@contextmanager
def store_of(location: Url) -> Iterator[tuple[Store, str]]:
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


def retried(ask: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
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


@retried
def is_folder(location: Url) -> bool:
    with store_of(location) as (store, key):
        return any(True for _ in store.list(key or None, chunk_size=1))


@retried
def names(folder: Url) -> list[str]:
    with store_of(folder) as (store, key):
        listed = store.list_with_delimiter(key or None)
        paths = [*listed["common_prefixes"], *(each["path"] for each in listed["objects"])]
        return sorted({_last(path) for path in paths})


@retried
def sizes(folder: Url, ending: str) -> dict[str, int]:
    with store_of(folder) as (store, key):
        listed = store.list_with_delimiter(key or None)["objects"]
        sizes = {_last(each["path"]): each["size"] for each in listed if each["path"].endswith(ending)}
        return dict(sorted(sizes.items()))


def files_below(folder: Url) -> list[PurePath]:
    return sorted(folder.joinpath(key) for key, _ in below(folder))


@retried
def below(folder: Url) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects below a folder: the name of each in it, and its metadata."""
    with store_of(folder) as (store, key):
        start = len(key) + 1 if key else 0
        pages = store.list(key or None, chunk_size=1000)
        return [(each["path"][start:], cast(Mapping[str, Any], each)) for page in pages for each in page]


class Fingerprint(NamedTuple):
    """What tells an object from another one that replaces it."""

    size: int
    tag: str
    written: float


def fingerprint(file: Url) -> Fingerprint:
    return fingerprint_of(_head(file))


def fingerprint_of(metadata: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(int(metadata["size"]), _tag(metadata), float(metadata["last_modified"].timestamp()))


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
    with store_of(file) as (store, key):
        return cast(Mapping[str, Any], store.head(key))


def _last(key: str) -> str:
    return key.rstrip("/").rpartition("/")[2]


# Small files


class Tagged(NamedTuple):
    """The content of a small file that several writers may want to replace, and a tag. Writing another content changes
    the tag."""

    content: bytes
    tag: str


@retried
def read_bytes(file: Url) -> bytes:
    with store_of(file) as (store, key):
        return bytes(store.get(key).bytes())


@retried
def replace_bytes(file: Url, content: bytes) -> None:
    with store_of(file) as (store, key):
        store.put(key, content)


@retried
def put_buffer(file: Url, content: pa.Buffer) -> None:
    """Write a buffer into an object; a large one is sent in several parts at once."""
    with store_of(file) as (store, key):
        store.put(key, memoryview(content).cast("B"))


@retried
def read_tagged(file: Url) -> Tagged | None:
    try:
        with store_of(file) as (store, key):
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
            with store_of(file) as (store, key):
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


@retried
def remove(file: Url) -> None:
    try:
        with store_of(file) as (store, key):
            store.delete(key)
    except FileNotFoundError:
        return


def remove_all(folder: Url) -> None:
    with store_of(folder) as (store, key):
        if isinstance(store, HdfsStore):
            store.delete_folder(key)
            return
        paths = [(folder / name).key for name, _ in below(folder)]
        if paths:
            store.delete(paths)


def remove_empty(folder: Url, within: Url) -> None:
    """Only HDFS has folders that are empty."""
    while folder != within:
        with store_of(folder) as (store, key):
            if not isinstance(store, HdfsStore) or not store.delete_empty(key):
                return
        folder = folder.parent


def remove_drafts(folder: Url, before: float) -> None:
    """Remove what a killed process had begun to write: elsewhere than in HDFS, nothing of an object is there before
    all of it is."""
    with store_of(folder) as (store, key):
        if isinstance(store, HdfsStore):
            store.delete_drafts(key, before)


def move(file: Url, to: Url) -> Url:
    copy(file, to)
    remove(file)
    return to


@retried
def copy(file: Url, to: Url) -> Url:
    if file.parts[:2] != to.parts[:2]:
        replace_bytes(to, read_bytes(file))
        return to
    with store_of(file) as (store, key):
        store.copy(key, to.key)
    return to
