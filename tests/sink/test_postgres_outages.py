"""A Postgres that is killed, stopped, locked, or stands still: what was begun is undone, and done again once."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from faults.disk_kit import small_disk
from latecomer.config.postgres_server import reason_of
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import SinkLogic
from latecomer.sink.keeper import SinkKeeper, check_sinks, sink_status
from latecomer.sink.worker import LONGEST_SECONDS
from latecomer.store.store import open_store
from postgres_kit import PASSWORD, Postgres, required_binaries, running
from sink.feeding_kit import Fed, HandClock, eventually
from sink.sink_kit import TARGET, apply, insert, opened, retract, rows_of_postgres, schema_at


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    """A server that no other test needs."""
    with running(required_binaries()) as server:
        yield server


@pytest.fixture
def server(own_server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    monkeypatch.setenv(TARGET, own_server.url_with_password)
    return own_server


@contextmanager
def meanwhile(step: str, batch: int, happens: Callable[[], Any]) -> Iterator[None]:
    """Let something happen between two steps of a batch."""

    def at(name: str, number: int) -> None:
        if (name, number) == (f"sink.postgres.{step}", batch):
            happens()

    with pytest.MonkeyPatch.context() as patch:
        for module in ("database", "postgres"):
            patch.setattr(f"latecomer.sink.{module}.failpoint", at)
        yield


def first(sink: SinkLogic) -> None:
    apply(sink, 0, insert(0, "chai", 0), insert(0, None, 0), insert(1, "chai", 0))


def second(sink: SinkLogic) -> None:
    apply(sink, 1, retract(0, "chai", 0), insert(0, "chai", 1), retract(1, "chai", 0), insert(2, "dosa", 0))


def in_order(path: Path) -> list[dict[str, Any]]:
    return sorted(rows_of_postgres(path), key=str)


def answering(server: Postgres) -> bool:
    with suppress(psycopg.Error):
        return bool(server.ask("select 1"))
    return False


def kill_and_start(server: Postgres) -> None:
    server.kill()
    server.start()


def opens(sink: Any) -> bool:
    """Whether a sink can be opened; a server that has just come back may still be recovering."""
    try:
        sink.open()
    except SinkOutage:
        return False
    return True


def kill_backends(server: Postgres) -> None:
    assert server.kill_backends() > 0
    # It notices, ends every other connection, recovers, and lets people in again.
    time.sleep(0.5)
    eventually(lambda: answering(server))


def end_backends(server: Postgres) -> None:
    assert server.end_backends() > 0


def stop_and_start(server: Postgres) -> None:
    server.stop("immediate")
    server.start()


@pytest.mark.parametrize("happens", [kill_and_start, kill_backends, end_backends, stop_and_start])
@pytest.mark.parametrize("step", ["begun", "copied", "written", "committed"])
def test_whatever_happens_between_two_steps_a_batch_is_applied_once(
    server: Postgres, tmp_path: Path, step: str, happens: Callable[[Postgres], None]
) -> None:
    undisturbed, disturbed = (
        opened("postgres", tmp_path / "undisturbed"),
        opened("postgres", tmp_path / "disturbed"),
    )
    for sink in (undisturbed, disturbed):
        first(sink)
    second(undisturbed)
    undisturbed.close()
    with meanwhile(step, 1, lambda: happens(server)):
        if step == "committed":
            second(disturbed)
        else:
            with pytest.raises(SinkOutage):
                second(disturbed)
    disturbed.close()
    eventually(lambda: opens(disturbed))
    assert disturbed.last_batch() == (1 if step == "committed" else 0)
    second(disturbed)
    assert in_order(tmp_path / "disturbed") == in_order(tmp_path / "undisturbed")
    assert disturbed.last_batch() == 1


def test_a_server_that_is_down_is_an_outage(server: Postgres, tmp_path: Path) -> None:
    sink = opened("postgres", tmp_path)
    server.stop("fast")
    try:
        for attempt in (lambda: first(sink), sink.open, sink.last_batch, sink.peek):
            with pytest.raises(SinkOutage) as caught:
                attempt()
            assert PASSWORD not in str(caught.value)
            sink.close()
        assert "the server cannot be reached" in str(caught.value)
        assert "see that it is up, and that the target is right. Nothing is lost" in str(caught.value)
    finally:
        server.start()
    sink.open()
    first(sink)
    assert len(in_order(tmp_path)) == 3


@pytest.mark.parametrize("host", ["no-such-host.invalid", "127.0.0.1:1"])
def test_a_server_that_is_not_there_yet_is_waited_for(tmp_path: Path, host: str) -> None:
    with pytest.raises(SinkOutage, match="the server cannot be reached"):
        opened("postgres", tmp_path, target=f"postgresql://ana@{host}/postgres")


def with_limit(server: Postgres, limit: str) -> str:
    """The limits of the target are those that hold."""
    return f"{server.url_with_password}?options=-c%20{limit}"


def test_a_locked_table_is_waited_for_only_so_long(server: Postgres, tmp_path: Path) -> None:
    sink = opened("postgres", tmp_path, target=with_limit(server, "lock_timeout%3D100"))
    with psycopg.connect(server.url_with_password) as other:
        other.execute(f'lock table "{schema_at(tmp_path)}".minute_totals'.encode())
        with pytest.raises(SinkOutage, match=r"another program held the table .*close it or let it finish"):
            first(sink)
    first(sink)
    assert len(in_order(tmp_path)) == 3


def test_a_statement_ends_by_itself(server: Postgres, tmp_path: Path) -> None:
    sink = opened("postgres", tmp_path, target=with_limit(server, "statement_timeout%3D200"))
    table = f'"{schema_at(tmp_path)}".minute_totals'
    slow = "create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(60); return new; end'"
    server.ask(slow)
    server.ask(f"create trigger slow before insert on {table} for each row execute function slow()")
    began = time.monotonic()
    with pytest.raises(SinkOutage, match=r"it took too long .*raise statement_timeout in the target"):
        first(sink)
    assert time.monotonic() - began < 20
    server.ask("drop function slow() cascade")


def test_limits_are_set_where_nobody_has_set_them(server: Postgres, tmp_path: Path) -> None:
    shown: list[dict[str, Any]] = []
    sink = opened("postgres", tmp_path, target=with_limit(server, "statement_timeout%3D7min"))
    asked = (
        "select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock, "
        "current_setting('idle_in_transaction_session_timeout') as idle"
    )

    def look() -> None:
        cursor = sink._connection.execute(asked)
        shown.append(
            dict(zip([column.name for column in cursor.description], cursor.fetchone(), strict=True))
        )

    with meanwhile("begun", 0, look):
        first(sink)
    assert shown == [{"statement": "7min", "lock": "30s", "idle": "5min"}]


def test_a_server_that_stands_still_is_given_up(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened("postgres", tmp_path)
    monkeypatch.setattr("latecomer.config.postgres_server.SILENT_SECONDS", 1.0)
    (row,) = server.ask("select pid from pg_stat_activity where application_name = 'latecomer'")
    with meanwhile("begun", 0, lambda: os.kill(row["pid"], signal.SIGSTOP)):
        try:
            began = time.monotonic()
            with pytest.raises(SinkOutage, match="the server cannot be reached"):
                first(sink)
            assert time.monotonic() - began < 20
        finally:
            os.kill(row["pid"], signal.SIGCONT)
    sink.open()
    eventually(
        lambda: server.ask("select count(*) from pg_locks where pid = %s", row["pid"])[0]["count"] == 0
    )
    first(sink)
    assert len(in_order(tmp_path)) == 3


def test_a_deadlock_is_an_outage(server: Postgres, tmp_path: Path) -> None:
    sink, schema = opened("postgres", tmp_path), schema_at(tmp_path)
    first(sink)

    def other() -> None:
        with psycopg.connect(server.url_with_password) as connection:
            connection.execute("set deadlock_timeout = '60s'")
            connection.execute(f'update "{schema}".minute_totals set payments = 9'.encode())
            holds.set()
            goes_on.wait(20)
            connection.execute(f'update "{schema}".latecomer_progress set output = output'.encode())

    holds, goes_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    assert holds.wait(20)

    def waits() -> bool:
        found = server.ask("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")
        return bool(found[0]["count"])

    with (
        meanwhile("begun", 1, lambda: (goes_on.set(), eventually(waits))),
        pytest.raises(SinkOutage, match=r"another transaction was in its way \(deadlock detected"),
    ):
        second(sink)
    thread.join(20)
    assert sink.last_batch() == 0


def test_a_server_that_can_only_be_read_may_become_the_primary(server: Postgres, tmp_path: Path) -> None:
    sink = opened("postgres", tmp_path)
    first(sink)
    sink.close()
    server.ask("alter database postgres set default_transaction_read_only = on")
    try:
        with pytest.raises(SinkOutage, match="the server can only be read"):
            second(sink)
        assert sink.peek() == 0
    finally:
        with psycopg.connect(server.url_with_password, autocommit=True) as connection:
            connection.execute("set default_transaction_read_only = off")
            connection.execute("alter database postgres reset default_transaction_read_only")
    sink.close()
    second(sink)
    assert sink.last_batch() == 1


def test_a_full_disk_of_the_server_undoes_the_batch(server: Postgres, tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(
            prefix="latecomer-small-"
        ) as folder,  # the server cannot look into tmp_path
        small_disk(Path(folder) / "disk", megabytes=16) as disk,
    ):
        Path(folder).chmod(0o755)
        space = disk.root / "space"
        space.mkdir()
        for path in (disk.root, space):
            shutil.chown(path, "nobody")
        server.ask(f"create tablespace small location '{space}'")
        sink = opened("postgres", tmp_path, target=with_limit(server, "default_tablespace%3Dsmall"))
        first(sink)
        disk.fill()
        many = [insert(9, f"merchant {number}", 0) for number in range(5_000)]
        with pytest.raises(SinkOutage, match=r"the disk of the server is full \(.*make room there"):
            apply(sink, 1, *many)
        disk.make_room()
        assert sink.last_batch() == 0
        apply(sink, 1, *many)
        assert len(in_order(tmp_path)) == 5_003
        sink.close()
        server.ask(f'drop schema "{schema_at(tmp_path)}" cascade')
        server.ask("drop tablespace small")


@pytest.mark.parametrize("ends", [kill_and_start, end_backends])
def test_a_connection_that_was_ended_while_it_rested_is_no_outage(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: Callable[[Postgres], None]
) -> None:
    sink = opened("postgres", tmp_path)
    first(sink)
    monkeypatch.setattr("latecomer.sink.postgres.RESTING_SECONDS", 0.0)
    ends(server)
    second(sink)
    assert sink.last_batch() == 1


def test_two_writers_of_one_batch_apply_it_once(server: Postgres, tmp_path: Path) -> None:
    one, other = opened("postgres", tmp_path), opened("postgres", tmp_path)
    first(one)
    thread = threading.Thread(target=second, args=(other,))

    def begin_another() -> None:
        if not thread.ident:
            thread.start()
            time.sleep(0.2)

    with meanwhile("begun", 1, begin_another):
        second(one)
        thread.join(20)
    undisturbed = opened("postgres", tmp_path / "undisturbed")
    first(undisturbed)
    second(undisturbed)
    assert in_order(tmp_path) == in_order(tmp_path / "undisturbed")
    assert other.last_batch() == 1


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (psycopg.errors.DiskFull, True),
        (psycopg.errors.OutOfMemory, True),
        (psycopg.errors.TooManyConnections, True),
        (psycopg.errors.SerializationFailure, True),
        (psycopg.errors.CannotConnectNow, True),
        (psycopg.errors.CrashShutdown, True),
        (psycopg.errors.IoError, True),
        (psycopg.errors.InvalidSchemaName, True),
        (psycopg.errors.DatatypeMismatch, False),
        (psycopg.errors.UniqueViolation, False),
        (psycopg.errors.DataCorrupted, False),
        (psycopg.errors.InsufficientPrivilege, False),
    ],
)
def test_what_cannot_be_brought_about_here_is_told_apart_too(
    error: type[psycopg.Error], passes: bool
) -> None:
    reason = reason_of(error(f"no answer from postgresql://ana:{PASSWORD}@db"), worked=False)
    assert reason.passes is passes
    assert PASSWORD not in reason.text


# Behind a run


def fed_in(folder: Path, schema: str) -> Fed:
    folder.mkdir()
    sink = f"{{postgres: {{target: '${{env:{TARGET}}}', schema: {schema}}}}}"
    return Fed(folder, f"[{sink}]", late_to=f"[{sink}]", dead_letters_to=f"[{sink}]")


def published(fed: Fed, keeper: SinkKeeper, batch: int) -> None:
    fed.publish(batch, "chai", None)
    fed.set_aside(batch, late=2, dead=1)
    keeper.announce(batch)


def everything(server: Postgres, schema: str) -> dict[str, list[str]]:
    tables = ("totals", "totals_late", "dead_letters", "latecomer_progress")
    return {table: sorted(map(str, server.ask(f"select * from {schema}.{table}"))) for table in tables}


@pytest.mark.long
def test_a_server_that_dies_again_and_again_ends_up_with_everything(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for schema in ("undisturbed", "disturbed"):
        fed, clock = fed_in(tmp_path / schema, schema), HandClock()
        check_sinks(fed.store)
        keeper = SinkKeeper(fed.store, clock)
        keeper.start(-1)
        for batch in range(12):
            if schema == "disturbed" and batch in (3, 7):
                server.kill()
            published(fed, keeper, batch)
            if schema == "disturbed" and batch in (3, 7):
                eventually(lambda keeper=keeper: all(worker.outage for worker in keeper.workers))
                found = sink_status(open_store(fed.pipeline)).to_pylist()
                assert {row["state"] for row in found} == {"down"}
                assert "the server cannot be reached" in found[0]["reason"]
                assert PASSWORD not in str(found)
                server.start()
            clock.seconds += LONGEST_SECONDS
        keeper.finish()
        keeper.close()
        assert set(sink_status(open_store(fed.pipeline))["behind"].to_pylist()) == {0}
    assert everything(server, "disturbed") == everything(server, "undisturbed")
    assert len(everything(server, "disturbed")["totals"]) == 24
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert [text for text in written if PASSWORD.encode() in text] == []
    assert [text for text in (caplog.text, *capfd.readouterr()) if PASSWORD in text] == []


def test_a_schema_that_is_dropped_is_made_anew_and_filled(server: Postgres, tmp_path: Path) -> None:
    fed, clock = fed_in(tmp_path / "dropped", "dropped"), HandClock()
    keeper = SinkKeeper(fed.store, clock)
    keeper.start(-1)
    published(fed, keeper, 0)
    keeper.finish()
    server.ask("drop schema dropped cascade")
    published(fed, keeper, 1)
    eventually(lambda: all(worker.outage or not worker.behind for worker in keeper.workers))
    clock.seconds += LONGEST_SECONDS
    keeper.finish()
    keeper.close()
    assert len(everything(server, "dropped")["totals"]) == 4
    assert len(everything(server, "dropped")["totals_late"]) == 8


def test_a_sink_that_was_filled_from_another_store_is_refused(server: Postgres, tmp_path: Path) -> None:
    fed = fed_in(tmp_path / "one", "taken")
    keeper = SinkKeeper(fed.store, HandClock())
    keeper.start(-1)
    published(fed, keeper, 5)
    keeper.finish()
    keeper.close()
    other = SinkKeeper(fed_in(tmp_path / "other", "taken").store, HandClock())
    with pytest.raises(SinkError, match="filled from another store"):
        other.start(-1)
    other.close()
