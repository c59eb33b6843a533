"""A sink of one's own, by the documented contract: docs/sinks.md as it stands there, and sinks that break a promise."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer import PipelineError, Sink, SinkError, SinkLogic, SinkOutage, load_pipeline
from latecomer.config.contract import Shape
from latecomer.config.sinks import SINKS, FileSink, IcebergSink
from latecomer.sink import LOGICS
from latecomer.sink.keeper import SinkKeeper, check_sinks, sink_status
from latecomer.testing import check_sink
from sink.feeding_kit import Fed, HandClock, eventually
from sink.sink_kit import catalog_at, lines_of, rows_of_delta, rows_of_duckdb, rows_of_iceberg, rows_of_sqlite

BLOCKS = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "sinks.md").read_text("utf-8"), re.S
)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Path]:
    """The module of the document, beside the pipeline file."""
    (tmp_path / "my_sinks.py").write_text(BLOCKS[0], encoding="utf-8")
    yield tmp_path / "board.json"
    sys.modules.pop("my_sinks", None)


def test_the_documented_sink_runs_in_a_pipeline_file(tmp_path: Path, board: Path) -> None:
    fed = Fed(tmp_path, f"[{{my_sinks:Board: {board}}}, {{jsonl: changes}}]")
    check_sinks(fed.store)
    fed.publish(0, "chai", None)
    fed.publish(1, "dosa")
    keeper = SinkKeeper(fed.store, HandClock())
    keeper.start(1)
    fed.publish(2, "chai")
    keeper.announce(2)
    keeper.finish()
    keeper.close()
    held = json.loads(board.read_text())
    assert held["batch"] == 2
    assert sorted((row["batch"], str(row["merchant"])) for row in held["rows"]) == [
        (0, "None"),
        (0, "chai"),
        (1, "dosa"),
        (2, "chai"),
    ]
    (row, _) = sink_status(fed.store).to_pylist()
    assert (row["sink"], row["target"], row["state"]) == ("my_sinks:Board", str(board), "up to date")
    assert row["last_batch"] == 2


def test_the_documented_sink_and_its_check(tmp_path: Path) -> None:
    source = tmp_path / "documented.py"
    source.write_text(BLOCKS[0] + BLOCKS[-1], encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        import documented  # type: ignore[import-not-found]

        documented.test_the_board_keeps_its_promises(tmp_path)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("documented", None)


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "delta": rows_of_delta,
    "sqlite": lambda path: rows_of_sqlite(path, "checked"),
    "duckdb": lambda path: rows_of_duckdb(path, "checked"),
    "jsonl": lines_of,
    "parquet": lambda path: [
        row for file in sorted(path.glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ],
}


def test_every_kind_of_sink_has_its_logic_and_is_put_through_the_check() -> None:
    assert LOGICS.keys() == SINKS.keys()
    assert READERS.keys() == {kind for kind, each in SINKS.items() if issubclass(each, FileSink)}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long if kind == "duckdb" else ()) for kind in READERS]
)
def test_every_sink_of_latecomers_own_keeps_the_promises(kind: str, tmp_path: Path) -> None:
    places = (tmp_path / str(number) for number in count())
    check_sink(lambda: SINKS[kind](path=str(next(places))), read=lambda sink: READERS[kind](Path(sink.path)))


@pytest.mark.long
def test_an_iceberg_table_keeps_the_promises(tmp_path: Path) -> None:
    names = (f"checked_{number}" for number in count())
    check_sink(
        lambda: IcebergSink(table=f"shop.{next(names)}", **catalog_at(tmp_path)),
        read=lambda sink: rows_of_iceberg(tmp_path, sink.table.removeprefix("shop.")),
    )


class Listed(Sink):
    """A sink in memory, with a promise to break."""

    breaks: str
    rows: ClassVar[dict[int, list[dict[str, Any]]]] = {}
    last: ClassVar[dict[int, int]] = {}
    number: int
    upserts: ClassVar[bool] = False

    def logic(self, pipeline: str, shape: Shape) -> SinkLogic:
        return ListedLogic(self)


class ListedLogic(SinkLogic):
    def __init__(self, sink: Listed) -> None:
        self.sink, self.number = sink, sink.number

    def open(self) -> None:
        self.sink.rows.setdefault(self.number, [])
        if self.sink.breaks == "progress":
            self.sink.last.pop(self.number, None)

    def last_batch(self) -> int:
        return self.sink.last.get(self.number, 0 if self.sink.breaks == "first" else -1)

    def apply(self, batch: int, panes: pa.Table) -> None:
        rows, breaks = panes.to_pylist(), self.sink.breaks
        if batch <= self.last_batch() and breaks not in ("once", "first"):
            return
        if breaks == "order":
            rows = rows[::-1]
        if breaks == "null":
            rows = [row for row in rows if row.get("merchant", "") is not None]
        if breaks == "whole":
            self.sink.rows[self.number] = [*self.sink.rows[self.number], *rows[:1]]
            rows = rows[1:]
        if not rows:
            return
        held = [*self.sink.rows[self.number], *rows]
        self.sink.rows[self.number], self.sink.last[self.number] = held, max(batch, self.last_batch())


@pytest.mark.parametrize(
    ("breaks", "promise"),
    [
        ("first", "before any batch"),
        ("progress", "survives that the sink is closed"),
        ("once", "applied again is applied once"),
        ("order", "in the order|are kept"),
        ("null", "a null key too|null"),
        ("whole", "whole or not at all"),
    ],
)
def test_a_broken_promise_is_found(breaks: str, promise: str) -> None:
    numbers = count(abs(hash(breaks)))
    with pytest.raises(AssertionError, match=promise):
        check_sink(
            lambda: Listed(breaks=breaks, number=next(numbers)),
            read=lambda sink: Listed.rows.get(sink.number, []),
        )


LONG = """
from sink.test_own_sinks import ListedLogic

class LongLogic(ListedLogic):
    def apply(self, batch, panes):
        for _ in range(2):
"""


def test_a_promise_that_is_broken_after_many_lines_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is counted twice, and there are a thousand of them before the sink writes anything."""
    last = "        super().apply(batch, panes)\n"
    (tmp_path / "long_sink.py").write_text(LONG + "            _\n" * 1000 + last, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import long_sink  # type: ignore[import-not-found]

    class Long(Listed):
        def logic(self, pipeline: str, shape: Shape) -> SinkLogic:
            logic: SinkLogic = long_sink.LongLogic(self)
            return logic

    numbers = count(abs(hash("long")))
    with pytest.raises(AssertionError, match="whole or not at all"):
        check_sink(
            lambda: Long(breaks="whole", number=next(numbers)),
            read=lambda sink: Listed.rows.get(sink.number, []),
        )
    sys.modules.pop("long_sink")


class Kept(Listed):
    """The same, for rows as well."""

    takes_rows: ClassVar[bool] = True

    def logic(self, pipeline: str, shape: Shape) -> SinkLogic:
        return KeptLogic(self, shape) if shape.appends else ListedLogic(self)


class KeptLogic(ListedLogic):
    """Keeps every promise with panes, and breaks one with rows."""

    def __init__(self, sink: Listed, shape: Shape) -> None:
        super().__init__(sink)
        self.shape = shape

    def apply(self, batch: int, panes: pa.Table) -> None:
        rows, breaks = panes.to_pylist(), self.sink.breaks
        if not rows or (batch <= self.last_batch() and breaks != "rows once"):
            return
        held = self.sink.rows[self.number]
        if breaks == "rows replaced":
            new = {(row["origin"], row["position"]) for row in rows}
            held = [row for row in held if (row["origin"], row["position"]) not in new]
        if breaks == "rows null":
            rows = [row for row in rows if row["position"] is not None]
        if breaks == "rows whole":
            self.sink.rows[self.number], held, rows = [*held, *rows[:1]], [*held, *rows[:1]], rows[1:]
        self.sink.rows[self.number], self.sink.last[self.number] = (
            [*held, *rows],
            max(batch, self.last_batch()),
        )


@pytest.mark.parametrize(
    ("breaks", "promise"),
    [
        ("rows once", "rows that is applied again is applied once"),
        ("rows replaced", "none takes the place of another"),
        ("rows null", "all of them and as they are"),
        ("rows whole", "whole or not at all"),
    ],
)
def test_a_promise_broken_with_rows_is_found(breaks: str, promise: str) -> None:
    numbers = count(abs(hash(breaks)))
    with pytest.raises(AssertionError, match=promise):
        check_sink(
            lambda: Kept(breaks=breaks, number=next(numbers)),
            read=lambda sink: Listed.rows.get(sink.number, []),
        )


def test_the_documented_sink_for_rows_keeps_its_promises(tmp_path: Path) -> None:
    (tmp_path / "inboxes.py").write_text(BLOCKS[1], encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        import inboxes  # type: ignore[import-not-found]

        places = (tmp_path / str(number) for number in count())
        check_sink(
            lambda: inboxes.Inbox(target=str(next(places))),
            read=lambda sink: [
                row
                for file in sorted(Path(sink.target).glob("*.json"))
                for row in json.loads(file.read_text())
            ],
        )
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("inboxes", None)


def test_a_sink_that_keeps_its_promises_passes() -> None:
    numbers = count(1)
    check_sink(
        lambda: Listed(breaks="none", number=next(numbers)),
        read=lambda sink: Listed.rows.get(sink.number, []),
    )


FAILING = """
import latecomer

class Failing(latecomer.Sink):
    target: str
    how: str
    def logic(self, pipeline, shape):
        return FailingLogic(self)

class FailingLogic(latecomer.SinkLogic):
    def __init__(self, sink):
        self.sink = sink
    def open(self):
        pass
    def last_batch(self):
        return "3" if self.sink.how == "text" else -1
    def apply(self, batch, panes):
        if self.sink.how == "refused":
            raise ConnectionRefusedError(111, "Connection refused by postgresql://ana:hunter2@db/books")
        if self.sink.how == "outage":
            raise latecomer.SinkOutage("the server restarts, password=hunter2")
        if self.sink.how == "lasting":
            raise latecomer.SinkError("the table is of another make")
        raise KeyError("oh")
"""


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Callable[[str], Fed]]:
    (tmp_path / "failing_sinks.py").write_text(FAILING, encoding="utf-8")
    yield lambda how: Fed(
        tmp_path, f"[{{failing_sinks:Failing: {{target: 'db://ana:hunter2@x', how: {how}}}}}]"
    )
    sys.modules.pop("failing_sinks", None)


@pytest.mark.parametrize("how", ["refused", "outage"])
def test_what_may_pass_is_waited_for_and_shows_no_secret(failing: Callable[[str], Fed], how: str) -> None:
    fed, clock = failing(how), HandClock()
    fed.publish(0, "chai")
    keeper = SinkKeeper(fed.store, clock)
    keeper.start(0)
    (worker,) = keeper.workers
    eventually(lambda: worker.outage)
    (row,) = sink_status(fed.store).to_pylist()
    keeper.close()
    assert "hunter2" not in str(row) + str(worker.outage) + worker.name
    assert row["behind"] == 1


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("lasting", r"sink db://ana:\*\*\*@x: the table is of another make\. Nothing is lost: .* batch 0"),
        ("key", "its class failed with KeyError: 'oh'; correct the class"),
        ("text", r"last_batch\(\) returned '3', not the number of a batch"),
    ],
)
def test_what_does_not_pass_stops_with_one_sentence(
    failing: Callable[[str], Fed], how: str, sentence: str
) -> None:
    fed = failing(how)
    fed.publish(0, "chai")
    keeper = SinkKeeper(fed.store, HandClock())
    with pytest.raises(SinkError, match=sentence):
        _start_and_finish(keeper)
    keeper.close()


def _start_and_finish(keeper: SinkKeeper) -> None:
    keeper.start(0)
    keeper.finish()


@pytest.mark.parametrize(
    ("sink", "outcome"),
    [
        ("{my_sinks:Bord: x}", "module my_sinks has no class Bord.*did you mean Board"),
        ("{my_sinks:BoardLogic: x}", r"BoardLogic is not a sink.*write class BoardLogic\(latecomer.Sink\)"),
        ("{no_such_module_here:Board: x}", "there is no module no_such_module_here"),
        (
            "{my_sinks:Board: {target: x, colour: red}}",
            r"\[0\]\.colour: unknown key.*options of Board are .*target",
        ),
        ("{my_sinks:Board: {}}", r"sinks\[0\]\.target: is missing"),
        ("{my_sinks:Board: {target: x, max_behind: 0}}", r"sinks\[0\]\.max_behind"),
        ("{sqlite: {path: x, on_outage: panic}}", r"on_outage: is not one of the choices"),
    ],
)
def test_a_wrong_sink_is_told_with_its_place(tmp_path: Path, board: Path, sink: str, outcome: str) -> None:
    with pytest.raises(PipelineError, match=re.compile(outcome, re.S)) as caught:
        Fed(tmp_path, f"[{sink}]")
    assert "pipeline.yaml:" in str(caught.value)


def test_an_outage_has_a_reason_without_secrets() -> None:
    assert str(SinkOutage("postgresql://ana:hunter2@db is gone")) == "postgresql://ana:***@db is gone"


def test_a_pipeline_file_with_a_sink_of_ones_own_loads(tmp_path: Path, board: Path) -> None:
    fed = Fed(tmp_path, f"[{{my_sinks:Board: {{target: {board}, on_outage: stop}}}}]")
    (sink,) = load_pipeline(fed.file).outputs["totals"].sinks
    assert (sink.kind, sink.place, sink.on_outage) == ("my_sinks:Board", str(board), "stop")
