"""What a store in HDFS rests on: of several who make a version one has it, in Delta and in small files (ADR 0087)."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from obstore.exceptions import GenericError

from hdfs_kit import PATIENCE, Folder
from latecomer.errors import StoreError, StoreOutage
from latecomer.objects import hdfs
from latecomer.objects.files import _store
from latecomer.objects.locations import PLAIN, Url
from latecomer.store import files
from latecomer.store.delta.tables import create_delta, open_delta
from latecomer.testing.servers import free_ports

SCHEMA = pa.schema([("a", pa.int64())])
AT_ONCE = 6
_Done = TypeVar("_Done")


def all_at_once(work: Callable[[int], _Done]) -> list[_Done]:
    """What it comes to for each of several threads that begin at the same moment."""
    start = Barrier(AT_ONCE, timeout=PATIENCE)

    def begin(nth: int) -> _Done:
        start.wait()
        return work(nth)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(begin, range(AT_ONCE)))


def commit(delta: DeltaTable, application: str, number: int) -> bool:
    """Whether a commit came about."""
    carried = CommitProperties(app_transactions=[Transaction(application, number)])
    try:
        delta.create_write_transaction([], "append", SCHEMA, commit_properties=carried)
    except CommitFailedError:
        return False
    return True


@pytest.mark.long
def test_of_several_commits_of_one_version_one_comes_about(hdfs_folder: Folder) -> None:
    """They carry the same application, as those of engines that have a lease one after the other do."""
    table = hdfs_folder.url / "table"
    create_delta(table, SCHEMA, {})
    for turn in range(10):
        known = [open_delta(table) for _ in range(AT_ONCE)]
        done = all_at_once(lambda nth, known=known: commit(known[nth], "lease", nth))  # type: ignore[misc]
        assert sum(map(bool, done)) == 1
        after = open_delta(table)
        assert after.version() == turn + 1
        assert after.transaction_version("lease") == done.index(True)


@pytest.mark.long
def test_commits_that_do_not_conflict_all_come_about_one_after_the_other(hdfs_folder: Folder) -> None:
    table = hdfs_folder.url / "table"
    create_delta(table, SCHEMA, {})
    known = [open_delta(table) for _ in range(AT_ONCE)]
    assert all(all_at_once(lambda nth: commit(known[nth], f"writer {nth}", nth)))
    after = open_delta(table)
    assert after.version() == AT_ONCE
    assert [after.transaction_version(f"writer {nth}") for nth in range(AT_ONCE)] == [*range(AT_ONCE)]


@pytest.mark.long
def test_no_replacement_that_came_about_is_lost(hdfs_folder: Folder) -> None:
    """Several writers count in one file: each adds one to what it has read. No number is given twice.

    One that is refused may have been there for a moment, until the next one came. Each has something of its own beside
    the number: a put that was slow and is refused is taken for one's own where the content is the same."""
    file = hdfs_folder.url / "count"
    assert files.put_if(file, b"0 nobody", None) is not None

    def count(nth: int) -> list[int]:
        given = []
        for turn in range(15):
            found = files.read_tagged(file)
            assert found is not None
            number = int(found.content.split()[0]) + 1
            content = b"%d by %d in turn %d" % (number, nth, turn)
            if files.put_if(file, content, found.tag) is not None:
                given.append(number)
            assert files.is_file(file)
            assert files.read_end(file, 1)
        return given

    given = [number for each in all_at_once(count) for number in each]
    assert len(given) == len(set(given)) >= 15
    assert int(files.read_bytes(file).split()[0]) >= max(given)
    assert files.names(hdfs_folder.url) == ["count"]
    assert files.files_below(hdfs_folder.url) == [file]


@pytest.mark.long
def test_who_was_slow_does_not_replace_what_came_later(hdfs_folder: Folder) -> None:
    """Its version has a number that was removed long ago."""
    file = hdfs_folder.url / "lease.json"
    store = _store("hdfs", file.bucket, PLAIN)
    assert isinstance(store, hdfs.HdfsStore)
    tag = files.put_if(file, b"1", None)
    for content in (b"2", b"3", b"4"):
        assert tag is not None
        tag = files.put_if(file, content, tag)
    files.replace_bytes(hdfs_folder.url / "slow", b"slow")
    assert not store._numbered(f"/{hdfs_folder.name}/slow", file.key, 2)
    assert files.read_bytes(file) == b"4"
    assert files.put_if(file, b"5", None) is None
    files.replace_bytes(file, b"6")
    found = files.read_tagged(file)
    assert found is not None
    assert found.content == b"6"
    assert tag is not None
    assert files.put_if(file, b"7", tag) is None
    files.remove(file)
    assert not files.exists(file)


class Deaf:
    """A client that does not hear the first answer to a rename, and asks again."""

    def __init__(self, client: Any) -> None:
        self._client, self.renames = client, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def rename(self, *given: Any) -> None:
        self.renames += 1
        self._client.rename(*given)
        if self.renames == 1:
            self._client.rename(*given)


@pytest.mark.long
def test_what_was_written_is_known_though_the_answer_was_lost(
    hdfs_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store("hdfs", hdfs_folder.authority, PLAIN)
    assert isinstance(store, hdfs.HdfsStore)
    file, client, tags = hdfs_folder.url / "file", store._client, []
    writes: list[Callable[[], str | None]] = [
        lambda: files.put_if(file, b"new", None),
        lambda: files.put_if(file, b"over", str(tags[-1])),
        lambda: files.put_if(file, b"again", str(tags[-1])),
    ]
    for write in writes:
        monkeypatch.setattr(store, "_client", Deaf(client))
        tags.append(write())
        assert tags[-1] is not None
        assert store._client.renames >= 1
    monkeypatch.setattr(store, "_client", Deaf(client))
    files.replace_bytes(hdfs_folder.url / "plain", b"plain")
    monkeypatch.setattr(store, "_client", client)
    assert files.read_tagged(file) == (b"again", tags[-1])
    assert files.read_bytes(hdfs_folder.url / "plain") == b"plain"
    assert files.names(hdfs_folder.url) == ["file", "plain"]


class Broken:
    """A draft whose DataNodes are gone."""

    def write(self, content: bytes) -> int:
        raise FileNotFoundError

    def close(self) -> None:
        raise FileNotFoundError


def test_a_file_that_cannot_be_written_is_named() -> None:
    for content in (b"a", b""):  # a part that is sent, and the end of the file
        writer = hdfs.HdfsWriter("lake/events/1.parquet", Broken(), lambda: None)  # type: ignore[arg-type]
        writer.write(content)
        with pytest.raises(FileNotFoundError) as refused:
            writer.close()
        assert refused.value.filename == "lake/events/1.parquet"


@pytest.mark.long
def test_what_a_killed_process_had_begun_to_write_is_swept_and_nothing_else(hdfs_folder: Folder) -> None:
    store = _store("hdfs", hdfs_folder.authority, PLAIN)
    assert isinstance(store, hdfs.HdfsStore)
    file, deep = hdfs_folder.url / "file", hdfs_folder.url / "table" / "data" / "1" / "part"
    begun = time.time()
    for each in (file, deep):
        files.replace_bytes(each, b"whole")
        with store._new(store._draft_name(each.key)) as draft:
            draft.write(b"ha")
    tag = files.read_tagged(file)
    assert tag is not None
    assert files.put_if(file, b"over", tag.tag) is not None

    def entries() -> int:
        return sum(len(store._listed(each.key)) for each in (hdfs_folder.url, deep.parent))

    before = entries()
    files.remove_drafts(hdfs_folder.url, begun - 60)
    assert entries() == before
    files.remove_drafts(hdfs_folder.url, time.time() + 60)
    assert entries() == before - 2
    assert (files.read_bytes(file), files.read_bytes(deep)) == (b"over", b"whole")


@pytest.mark.long
def test_names_that_hdfs_does_not_take_are_said_in_one_sentence(hdfs_folder: Folder) -> None:
    with pytest.raises(StoreError, match=r"hdfs://.*/a:b cannot be used \(.*Invalid path name") as refused:
        files.replace_bytes(hdfs_folder.url / "a:b", b"")
    assert "\n" not in str(refused.value)


def test_a_namenode_that_does_not_answer_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often it is tried is said by Hadoop's own settings."""
    said = "<property><name>dfs.client.failover.max.attempts</name><value>1</value></property>"
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{said}</configuration>")
    (tmp_path / "core-site.xml").write_text("<configuration></configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    (port,) = free_ports(1)
    with pytest.raises(StoreOutage, match="cannot be used: it does not answer; check the endpoint"):
        files.read_bytes(Url(f"hdfs://127.0.0.1:{port}/lake/x"))


def test_a_namenode_that_keeps_the_connection_and_is_silent_is_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hdfs, "_LONGEST_WAIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Url(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/lake/x")
        for request in (files.read_bytes, files.exists, lambda place: files.replace_bytes(place, b"")):
            with pytest.raises(StoreOutage, match="cannot be used: it does not answer; check the endpoint"):
                request(place)


def test_a_namenode_that_falls_silent_while_a_file_is_written_is_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked for blocks, and told that the file is whole."""

    class Silent:
        def write(self, _: bytes = b"") -> bool:
            return Event().wait(60)

        close = write

    monkeypatch.setattr(hdfs, "_LONGEST_WAIT", 0.2)
    for written in (b"", b"x"):
        writer = hdfs.HdfsWriter("lake/x", Silent(), lambda: pytest.fail("it has no name before it is whole"))  # type: ignore[arg-type]
        assert writer.write(written) == len(written)
        with pytest.raises(GenericError, match=r"timed out: no answer within 0\.2 s"):
            writer.close()


def test_a_name_service_that_is_not_known_names_the_setting() -> None:
    with pytest.raises(StoreError, match="its name service is not known; set HADOOP_CONF_DIR to the folder"):
        files.read_bytes(Url("hdfs://nowhere/lake/x"))


def test_without_the_package_the_refusal_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(StoreError, match=r"needs the package hdfs-native; .* 'latecomer\[hdfs\]'"):
        files.exists(Url("hdfs://without-package:8020/lake"))
