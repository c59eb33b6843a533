"""The index of ids: exact whatever filters and hashes say, and made anew from the log where it is not whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.log import duplicates, ids, known_ids
from latecomer.log.duplicates import Unlogged, divided
from latecomer.log.hashes import Filter, filter_bits, hash_ids
from latecomer.log.ids import IdIndex
from latecomer.source.decode.base import SourceFile
from latecomer.source.found_files import FileSlice
from latecomer.store.delta.table import Table, moments
from latecomer.store.files import write_table

EVENTS = pa.schema(
    [
        ("event_time", pa.timestamp("us", "UTC")),
        ("arrival_time", pa.timestamp("us", "UTC")),
        ("origin", pa.string()),
        ("position", pa.int64()),
        ("event_id", pa.string()),
        ("batch", pa.int64()),
    ]
)
Event = tuple[str | None, int]
"""An id and an event time."""
SOURCE = FileSlice.of([SourceFile("file:/in/day=1/b c.json", 1, 1), SourceFile("file:/in/a.json", 2, 1)])


def rows(batch: int, events: Sequence[Event], origin: str = "a.json") -> pa.Table:
    count = len(events)
    return pa.table(
        {
            "event_time": moments([time for _, time in events]),
            "arrival_time": moments([0] * count),
            "origin": pa.array([origin] * count, pa.string()),
            "position": pa.array(range(count), pa.int64()),
            "event_id": pa.array([event_id for event_id, _ in events], pa.string()),
            "batch": pa.array([batch] * count, pa.int64()),
        },
        schema=EVENTS,
    )


class Log:
    """An event log without Spark: each batch goes through the index as the engine's do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = Table(folder / "events", EVENTS)
        self.index = self.opened()

    def opened(self) -> IdIndex:
        return IdIndex(self.folder / "ids", Table(self.folder / "events", EVENTS))

    def receive(self, batch: int, events: Sequence[Event], since: int, tasks: int = 2) -> list[Event]:
        """Log a batch that so many tasks have read; the duplicates in it."""
        self.index.catch_up(since)
        folder, whole = self.table.new_folder(batch), rows(batch, events)
        again, files, known = [], [], self.index.known(since)
        for nth in range(tasks):
            # Each part starts where the one before it ends.
            begin, end = len(events) * nth // tasks, len(events) * (nth + 1) // tasks
            part = whole.slice(begin, end - begin)
            known_before = Unlogged(part).duplicates(SOURCE.landings, known)
            again.append(part.filter(pa.array(known_before)))
            part = part.filter(pa.array(~known_before))
            files.append(write_table(part, folder / f"part-{nth}.parquet"))
        moved = divided(files, folder / "again", SOURCE.landings)
        self.table.commit(batch, [each for file in files for each in moved.get(file, [file])])
        again += map(pq.read_table, moved[folder / "again"])
        found = pa.concat_tables([each.cast(EVENTS) for each in again]).sort_by("position")
        times = found["event_time"].cast(pa.int64()).to_pylist()
        return list(zip(found["event_id"].to_pylist(), times, strict=True))

    @property
    def logged(self) -> list[Event]:
        found = self.table.query("select event_id, event_time from t order by batch, position")
        return list(
            zip(found["event_id"].to_pylist(), found["event_time"].cast(pa.int64()).to_pylist(), strict=True)
        )


def some_events() -> st.SearchStrategy[list[Event]]:
    some_ids = st.one_of(st.none(), st.sampled_from(["", "a", "b", "é", "a" * 9, "a" * 17]))
    return st.lists(st.tuples(some_ids, st.integers(0, 9)), max_size=8)


LIVES = st.lists(
    st.tuples(
        some_events(),
        st.integers(0, 3),
        st.sampled_from(["on", "restart", "lost", "further"]),
        st.integers(1, 3),
    ),
    max_size=8,
)
"""Batches: events, how far the horizon moves before them, what happens to the index, and how many tasks read them."""


@given(LIVES, st.booleans())
@drawn(25)
def test_an_id_is_known_exactly_as_long_as_it_is_remembered(
    tmp_path_factory: pytest.TempPathFactory,
    life: Sequence[tuple[list[Event], int, str, int]],
    collide: bool,
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    remembered: list[Event] = []
    since = 0

    def same(some: pa.Array) -> np.ndarray:
        return np.zeros(len(some), np.uint64)

    hashed = same if collide else hash_ids
    with (
        patch.object(known_ids, "hash_ids", hashed),
        patch.object(ids, "TOGETHER", 3),
        patch.object(ids, "RUN_ROWS", 4),
    ):
        for batch, (events, step, what, tasks) in enumerate(life):
            if what != "on":
                log.index = log.opened()
            if what == "lost":
                for file in (log.folder / "ids").glob("*"):
                    file.write_bytes(file.read_bytes()[:-7])
            since = 0 if what == "further" else since + step
            known = {event_id for event_id, time in remembered if time >= since} - {None}
            again = []
            for event_id, time in events:
                if event_id in known:
                    again.append((event_id, time))
                else:
                    remembered.append((event_id, time))
                    known |= {event_id} - {None}
            assert log.receive(2 * batch, events, since, tasks) == again
    assert log.logged == remembered


def test_segments_stay_few_and_what_is_out_of_reach_goes(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for batch in range(60):
        log.receive(batch, [(f"{batch}-{nth}", batch) for nth in range(10)], since=max(batch - 30, 0))
    log.index.catch_up(30)
    assert len(log.index.segments) < 20
    assert len(list((tmp_path / "ids").iterdir())) == len(log.index.segments)
    assert sum(segment.rows for segment in log.index.segments) < 420
    log.index.catch_up(1000)
    assert [(each.first, each.last, each.rows) for each in log.index.segments] == [(0, 59, 0)]


def test_an_interrupted_merge_is_cleared_away(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for batch in range(7):
        log.receive(batch, [(str(batch), 1)], since=0)
    kept = {file.name: file.read_bytes() for file in (tmp_path / "ids").iterdir()}
    log.receive(7, [("7", 1)], since=0)
    log.index.catch_up(0)
    assert len(log.index.segments) == 1
    for name, content in kept.items():
        (tmp_path / "ids" / name).write_bytes(content)
    (tmp_path / "ids" / "0000000008to0000000008-x.tmp").write_bytes(b"half")
    log.index = log.opened()
    assert log.receive(8, [(str(nth), 1) for nth in range(9)], since=0) == [(str(nth), 1) for nth in range(8)]
    assert [(each.first, each.last) for each in log.index.segments] == [(0, 7)]
    assert len(list((tmp_path / "ids").iterdir())) == 1


def test_an_index_of_another_log_is_not_believed(tmp_path: Path) -> None:
    other, log = Log(tmp_path / "other"), Log(tmp_path / "log")
    for each in (other, log):
        each.receive(0, [("a" if each is other else "b", 1)], since=0)
        each.index.catch_up(0)
    for file in (tmp_path / "log" / "ids").iterdir():
        file.unlink()
    for file in (tmp_path / "other" / "ids").iterdir():
        (tmp_path / "log" / "ids" / file.name).write_bytes(file.read_bytes())
    log.index = log.opened()
    assert log.receive(1, [("a", 1), ("b", 1)], since=0) == [("b", 1)]


def test_the_first_to_arrive_stays(tmp_path: Path) -> None:
    """Among equals the file that landed first, then its name, then the row that stands first."""
    lanes = {
        "one": [("x", 5, "a.json", 0), ("y", 5, "a.json", 1), ("z", 5, "a.json", 3)],
        "two": [("x", 5, "day=1/b%20c.json", 7), ("y", 4, "a.json", 2), ("z", 5, "a.json", 2)],
        "three": [("x", 6, "file:///in/day=1/b%20c.json", 1), ("w", 9, "a.json", 9), (None, 1, "a.json", 8)],
    }
    for lane, events in lanes.items():
        table = pa.table(
            {
                "event_time": moments([0] * 3),
                "arrival_time": moments([arrival for _, arrival, _, _ in events]),
                "origin": [origin for _, _, origin, _ in events],
                "position": [position for *_, position in events],
                "event_id": [event_id for event_id, *_ in events],
                "batch": [0] * 3,
            }
        ).cast(EVENTS)
        (tmp_path / lane).mkdir()
        pq.write_table(table, tmp_path / lane / "part.parquet")  # files of two lanes may have one name
    aside = tmp_path / "again"
    files = [tmp_path / lane / "part.parquet" for lane in lanes]
    divided(files, aside, SOURCE.landings)

    def positions(folder: Path) -> list[int]:
        found = [pq.read_table(file)["position"].to_pylist() for file in folder.glob("*.parquet")]
        return sorted(position for each in found for position in each)

    assert {lane: positions(tmp_path / lane) for lane in lanes} == {
        "one": [],
        "two": [2, 2, 7],
        "three": [8, 9],
    }
    assert positions(aside) == [0, 1, 1, 3]


@given(st.lists(st.text(max_size=40), unique=True, min_size=1, max_size=50))
@drawn(40)
def test_hashes_tell_texts_apart_wherever_they_stand(texts: Sequence[str]) -> None:
    found = hash_ids(pa.array(texts))
    assert len(set(found.tolist())) == len(texts)
    assert hash_ids(pa.array(["x", *texts]).slice(1)).tolist() == found.tolist()


def test_hashes_are_in_files_and_stay_as_they_are() -> None:
    stored = {
        "": 0xE220A8397B1DCDAF,
        "a": 0xA41617A197B1536A,
        "12345678": 0x57A994731FAA16E3,
        "123456789": 0x718F5E12871F2707,
        "cfcd208495d565ef66e7dff9f98764da": 0x0798DAAB2E9B81C0,
    }
    assert dict(zip(stored, hash_ids(pa.array(list(stored))).tolist(), strict=True)) == stored
    assert [hash_ids(pa.array([text])).tolist() for text in stored] == [[each] for each in stored.values()]


def test_a_filter_lets_everything_pass_that_it_holds_and_little_else() -> None:
    numbers: Mapping[str, pa.Array] = {
        kind: pa.array([f"{kind}-{nth}" for nth in range(100_000)]) for kind in ("held", "other")
    }
    held, other = (np.sort(hash_ids(each)) for each in numbers.values())
    filter_ = Filter(held)
    assert filter_.may_hold(held, filter_bits(held)).all()
    assert filter_.may_hold(other, filter_bits(other)).mean() < 0.01
    assert filter_.words.nbytes <= 2 * len(held) + 8


def test_files_without_a_repeated_id_are_read_for_their_ids_alone(tmp_path: Path) -> None:
    files = [
        write_table(rows(0, events), tmp_path / f"part-{nth}.parquet")
        for nth, events in enumerate([[("x", 1)], [("x", 2)], [("y", 3)]])
    ]
    with patch.object(duplicates, "read_table", wraps=duplicates.read_table) as read:
        divided(files, tmp_path / "again", SOURCE.landings)
    assert [list(call.args[1:]) for call in read.call_args_list if call.args[0] == files[2]] == [
        [["event_id"]]
    ]
