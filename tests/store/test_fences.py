"""An engine that has lost its lease: whatever it still writes is refused, wherever it was when it was paused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from azure_kit import Container
from hdfs_kit import Folder
from latecomer.errors import StoreError, StoreInUse
from latecomer.store import files
from latecomer.store.delta.commits import LEASE, commits_of, torn_commits
from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import open_delta
from latecomer.store.files import Location
from latecomer.store.holding import lock
from latecomer.store.holding.fences import Fence, confirm_held, in_force, require_held, rewrite, write_once
from latecomer.store.holding.lease import Holder, LeaseClock, Watcher, read_lease
from latecomer.store.holding.lock import COMPACT, LOCK, LeaseFile, exclusive, holder_of, lease_file
from latecomer.store.pins import PINS
from latecomer.store.source_turns import Turn, sources_away, take_turn, whose_turn, write_away
from s3_kit import Bucket

SCHEMA = pa.schema([("batch", pa.int64()), ("paise", pa.int32())])


def rows(batch: int) -> pa.Table:
    return pa.table({"batch": [batch], "paise": pa.array([100 * batch], pa.int32())})


def table(store: Location, schema: pa.Schema = SCHEMA) -> Table:
    return Table(store / "events", schema)


def engine(store: Location, name: str) -> Fence:
    """An engine that takes the store, and has put up its fences; it acts where it is `in_force`."""
    place = LeaseFile(lease_file(store))
    if (seen := read_lease(place)) is not None:  # which gives no more signs of life
        place.put_if(replace(seen.record, takes_over_after=1e-9).content, seen.tag)
    watcher = Watcher(place, Holder(name, 30.0, f"host-{name}", 7), LeaseClock())
    lease = watcher.look() or watcher.look()
    assert lease is not None
    fence = Fence(store, LEASE, lease)
    lock.raise_fence(fence, LOCK)
    return fence


@pytest.fixture(
    params=[
        "folder",
        "bucket",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("hdfs_folder", "container")),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "folder":
        return tmp_path / "store"
    place: Bucket | Folder | Container = request.getfixturevalue(request.param)
    return place.url / "store"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_delta_refuses_what_comes_after_a_transaction_of_the_same_name(tmp_path: Path) -> None:
    """What the fences rest on."""

    def commit(delta: DeltaTable, **transactions: int) -> None:
        carried = [Transaction(*each) for each in transactions.items()]
        delta.create_write_transaction(
            [], "append", SCHEMA, commit_properties=CommitProperties(app_transactions=carried)
        )

    DeltaTable.create(tmp_path, SCHEMA)
    slow, other, fast = (DeltaTable(tmp_path) for _ in range(3))
    commit(fast, lease=2, batch=7)
    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        commit(slow, lease=1, events=8)
    commit(other, somebody=3)
    fast.update_incremental()
    assert (fast.version(), fast.transaction_version("lease")) == (2, 2)


CHANGES: dict[str, Callable[[Table], object]] = {
    "append": lambda events: events.append(1, rows(1)),
    "commit without files": lambda events: events.commit(1, []),
    "rearrange": lambda events: events.rearrange([], events.files()),
    "new column": lambda events: Table(events.root, SCHEMA.append(pa.field("shop", pa.string()))).commit(
        1, []
    ),
    "wider type": lambda events: Table(events.root, SCHEMA.set(1, pa.field("paise", pa.int64()))).widen(),
}


@pytest.mark.parametrize("knows_it", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_whoever_wakes_up_after_a_takeover_cannot_commit(
    store: Location, change: str, knows_it: bool
) -> None:
    first, events = engine(store, "first"), table(store)
    with in_force(first):
        events.append(0, rows(0))
    engine(store, "second")
    if knows_it:
        events.refresh()
    version = open_delta(events.root).version()
    with (
        in_force(first),
        pytest.raises(StoreInUse, match=r"was taken over by second 7 on host-second at 20.*\(token 2\)"),
    ):
        CHANGES[change](events)
    assert open_delta(events.root).version() == version
    assert table(store).rows() == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_takeover_in_the_middle_of_a_commit_is_seen_by_delta(
    store: Location, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first, events = engine(store, "first"), table(store)
    with in_force(first):
        events.append(0, rows(0))
        asked = Table._tokens

        def and_then_pause(self: Table) -> dict[str, int]:
            found = asked(self)
            monkeypatch.setattr(Table, "_tokens", asked)
            engine(store, "second")
            return found

        monkeypatch.setattr(Table, "_tokens", and_then_pause)
        with pytest.raises(StoreInUse, match="taken over by second"):
            CHANGES[change](events)
    assert (table(store).last_batch(), table(store).rows()) == (0, 1)


def test_two_threads_under_one_token_do_not_hinder_each_other(store: Location) -> None:
    first = engine(store, "first")
    one, other = table(store), table(store)
    with in_force(first):
        one.append(0, rows(0))
        assert other.last_batch() == 0
        one.append(1, rows(1))
        other.append(5, rows(5), application="another")  # it has not seen batch 1
    assert table(store).rows() == 3


def test_every_commit_carries_the_token_and_is_still_whole(store: Location) -> None:
    first, events = engine(store, "first"), table(store)
    with in_force(first):
        events.append(0, rows(0))
    second = engine(store, "second")
    with in_force(second):
        events = table(store)
        events.append(1, rows(1))
    tokens = [
        action["txn"]["version"]
        for version in range(4)
        for line in files.read_text(events.root / "_delta_log" / f"{version:020}.json").splitlines()
        if (action := json.loads(line)).get("txn", {}).get("appId") == LEASE
    ]
    assert tokens == [1, 1, 2, 2]  # made, batch 0, taken over, batch 1
    assert [(each.application, each.batch) for each in commits_of(events.root)] == [
        ("latecomer", 1),
        ("latecomer", 0),
    ]
    assert torn_commits(events.root, thorough=True) == []


def test_a_table_that_a_stale_engine_makes_after_the_takeover_is_noticed(store: Location) -> None:
    first, second = engine(store, "first"), engine(store, "second")
    with in_force(first):
        table(store).append(0, rows(0))  # there was no table to be fenced off
    with in_force(second), pytest.raises(StoreError, match="had lost the store already; run again"):
        table(store).last_batch()
    with in_force(engine(store, "third")):
        events = table(store)
        assert events.last_batch() == 0  # as after a crash: whoever starts now knows it
        events.append(1, rows(1))
    with in_force(first), pytest.raises(StoreInUse):
        table(store).append(2, rows(2))


def test_a_table_that_a_stale_engine_has_only_made_is_used(store: Location) -> None:
    first, second = engine(store, "first"), engine(store, "second")
    with in_force(first):
        table(store).commit(0, [], application="something else")
    with in_force(second):
        table(store).append(0, rows(0))
    assert table(store).rows() == 1


def test_a_store_of_a_lock_gets_its_fences_with_its_first_lease(folder: Path) -> None:
    with exclusive(folder):
        table(folder).append(0, rows(0))
    with exclusive(folder, takeover=30.0):
        assert table(folder).last_batch(LEASE) == 1
    with exclusive(folder):  # from then on it has leases, whoever comes
        assert table(folder).last_batch(LEASE) == 2
        found = holder_of(folder)
        assert found is not None
        assert found[0].startswith("process ")


def test_a_store_whose_lease_was_removed_goes_on_above_its_tokens(folder: Path) -> None:
    """So does a copy, which has the tables and not the lease."""
    for _ in range(3):
        with exclusive(folder, takeover=30.0):
            events = table(folder)
            events.append(events.last_batch() + 1, rows(0))
    shutil.rmtree(lease_file(folder))
    with exclusive(folder, takeover=30.0):
        table(folder).append(3, rows(3))
        assert table(folder).last_batch(LEASE) == 4


def test_a_lease_is_not_begun_beside_a_lock(folder: Path) -> None:
    with (
        exclusive(folder),
        pytest.raises(StoreInUse, match="in use by process"),
        exclusive(folder, takeover=2.0),
    ):
        pass
    assert not lease_file(folder).exists()


def test_compacting_beside_a_run_has_a_token_of_its_own(store: Location) -> None:
    first, events = engine(store, "first"), table(store)
    with in_force(first):
        for batch in range(3):
            events.append(batch, rows(batch))
    with exclusive(store, COMPACT, "compact in process"):
        beside = table(store)
        beside.rearrange([], beside.files()[:1])
    with in_force(first):
        events.append(3, rows(3))
    assert (events.last_batch(LEASE), table(store).last_batch(f"{LEASE}-compact")) == (1, 1)


# Small files

REWRITTEN: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], object], list[object]]] = {
    "pins": (
        lambda store, n: rewrite(store / PINS, json.dumps({"n": n}) + "\n"),
        lambda store: json.loads(files.read_text(store / PINS))["n"],
        [0, 1, 2],
    ),
    "turn": (
        lambda store, n: take_turn(store, Turn(f"source{n}")),
        lambda store: whose_turn(store).source,
        ["source0", "source1", "source2"],
    ),
    "away": (
        lambda store, n: write_away(store, frozenset([f"source{n}"])),
        lambda store: set(sources_away(store)),
        [{"source0"}, {"source1"}, {"source2"}],
    ),
}


@pytest.mark.parametrize("which", REWRITTEN)
def test_a_small_file_is_rewritten_by_its_holder_alone(store: Location, which: str) -> None:
    write, read, said = REWRITTEN[which]
    first = engine(store, "first")
    with in_force(first):
        write(store, 0)
        write(store, 1)
    second = engine(store, "second")
    with in_force(first), pytest.raises(StoreInUse, match="taken over by second"):
        write(store, 2)
    assert read(store) == said[1]
    with in_force(second):
        write(store, 2)
    assert read(store) == said[2]


def test_a_small_file_that_a_stale_engine_made_is_put_right(store: Location) -> None:
    first, second = engine(store, "first"), engine(store, "second")
    with in_force(first):
        write_away(store, frozenset("a"))
    with in_force(second):
        write_away(store, frozenset("b"))
    assert sources_away(store) == {"b"}
    with in_force(first), pytest.raises(StoreInUse):
        write_away(store, frozenset("a"))


def test_a_file_that_is_written_once_is_not_written_again(store: Location) -> None:
    first, second, file = engine(store, "first"), engine(store, "second"), store / "found" / "1.json"
    with in_force(second):
        write_once(file, "of the second")
        write_once(file, "of the second")  # an answer that was lost
    with in_force(first), pytest.raises(StoreInUse, match="taken over by second"):
        write_once(file, "of the first")
    with in_force(second), pytest.raises(StoreError, match="had lost the store already; run again"):
        write_once(file, "another")
    assert files.read_text(file) == "of the second"


@pytest.mark.parametrize("leased", [False, True])
def test_whoever_holds_the_store_may_go_on(store: Location, leased: bool) -> None:
    with exclusive(store, takeover=30.0) if leased else nullcontext():
        require_held(store)
        confirm_held(store)


def test_whoever_has_lost_the_store_is_told_when_it_asks(store: Location) -> None:
    first = engine(store, "first")
    engine(store, "second")
    with in_force(first):
        require_held(store)  # it does not know yet
        with pytest.raises(StoreInUse, match="gave no sign of life"):
            confirm_held(store)
        with pytest.raises(StoreInUse):
            require_held(store)
