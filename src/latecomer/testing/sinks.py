"""Checks the promises of every sink, for a sink of your own as for latecomer's."""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from latecomer.config.contract import PaneShape, RowShape, Shape, SinkLogic
from latecomer.config.sinks import SINKS, FileSink, Sink
from latecomer.model.durations import to_moment
from latecomer.model.panes import Op, Pane, Timing, surviving

_MOMENT = pa.timestamp("us", "UTC")
_START, _MINUTE = 1_777_125_600_000_000, 60_000_000
_ODD = ("merchant", 'a "quoted" name', "it's `odd`.é")
"""Names of key columns; a source may have any name."""
Read = Callable[[Any], Iterable[Mapping[str, Any]]]
_Row = tuple[Any, ...]


class _Letter(NamedTuple):
    """A row that is only ever appended."""

    origin: str | None
    position: int | None
    raw: str | None


_Given = TypeVar("_Given")


def check_sink(fresh: Callable[[], Sink], read: Read) -> None:
    """Check that a sink keeps the promises of every sink; an AssertionError names the promise that it broke.

    `fresh` makes the sink's options for an empty place, each time another one. `read` returns the rows of such a sink,
    each with its columns by name: if the sink upserts, the present rows; if not, every change in its order. A sink with
    `takes_rows` also gets rows as of side output and dead letters, and has to hold each of them once.
    """
    for check in (
        _is_empty_at_first,
        _keeps_what_it_is_given,
        _is_applied_once,
        _leaves_no_panes_half,
        _keeps_apart,
    ):
        with closing(_PaneBench(fresh, read)) as panes:
            check(panes)
    if fresh().takes_rows:
        for check_rows in (_keeps_every_row, _leaves_no_rows_half):
            with closing(_RowBench(fresh, read)) as rows:
                check_rows(rows)


class _Bench(ABC, Generic[_Given]):
    """A sink at a new place, and what it should hold."""

    shape: Shape

    def __init__(self, fresh: Callable[[], Sink], read: Read) -> None:
        self.sink, self._read, self._fresh = fresh(), read, fresh
        self.given: list[_Given] = []
        self.logic = self.opened()

    def opened(self) -> SinkLogic:
        if self.sink.kind in SINKS:
            from latecomer.sink import open_sink  # with it comes Delta

            path = Path(self.sink.path) if isinstance(self.sink, FileSink) else Path()
            return open_sink(self.sink, path, "check", self.shape)
        logic = self.sink.logic("check", self.shape)
        logic.open()
        return logic

    def close(self) -> None:
        self.logic.close()

    def reopen(self) -> None:
        self.logic.close()
        self.logic = self.opened()

    @abstractmethod
    def record(self, batch: int, given: _Given) -> dict[str, Any]:
        """What is given as a row of a batch."""

    @abstractmethod
    def row(self, record: Mapping[str, Any]) -> _Row:
        """What is compared of a row."""

    def standing(self, given: Sequence[_Given]) -> Iterable[_Given]:
        """What the sink should hold after all of these."""
        return given

    def table(self, batch: int, given: Sequence[_Given]) -> pa.Table:
        """A batch, as the sink gets it."""
        return pa.Table.from_pylist([self.record(batch, each) for each in given], self.shape.schema)

    def wanted(self, given: Sequence[_Given]) -> list[_Row]:
        """The rows that the sink should hold after all of these."""
        return [self.row(self.record(0, each)) for each in self.standing(given)]

    def held(self) -> list[_Row]:
        """The rows that the sink holds."""
        return [self.row(each) for each in self._read(self.sink)]

    def apply(self, batch: int, given: Sequence[_Given]) -> None:
        self.logic.apply(batch, self.table(batch, given))

    def give(self, batch: int, *given: _Given) -> None:
        self.apply(batch, given)
        self.given += given

    def holds(self, given: Sequence[_Given]) -> bool:
        held, wanted = self.held(), self.wanted(given)
        return Counter(held) == Counter(wanted) if self.sink.upserts else held == wanted

    def require(self, promise: str) -> None:
        if not self.holds(self.given):
            _broken(promise, f"it holds {self.held()}, and should hold {self.wanted(self.given)}")

    def require_last(self, batch: int, promise: str) -> None:
        last = self.logic.last_batch()
        if last != batch:
            _broken(promise, f"last_batch() returned {last!r}, and should return {batch}")


class _PaneBench(_Bench[Pane]):
    """A sink that gets panes."""

    def __init__(self, fresh: Callable[[], Sink], read: Read, keys: tuple[str, ...] = _ODD[:1]) -> None:
        self.keys = keys
        columns = {"window_start": _MOMENT, "window_end": _MOMENT, **dict.fromkeys(keys, pa.string())}
        columns |= {"total": pa.int64(), "sequence": pa.int64(), "timing": pa.string(), "op": pa.string()}
        columns |= {"is_last": pa.bool_(), "batch": pa.int64(), "fired_at": _MOMENT, "published_at": _MOMENT}
        self.shape = PaneShape("checked", keys, ("total",), pa.schema(list(columns.items())))
        super().__init__(fresh, read)

    def with_keys(self, keys: tuple[str, ...]) -> _PaneBench:
        return _PaneBench(self._fresh, self._read, keys)

    def record(self, batch: int, given: Pane) -> dict[str, Any]:
        return {
            "window_start": to_moment(given.window_start),
            "window_end": to_moment(given.window_end),
            **dict(zip(self.keys, given.key, strict=True)),
            "total": given.values["total"],
            "sequence": given.sequence,
            "timing": str(given.timing),
            "op": str(given.op),
            "is_last": False,
            "batch": batch,
            "fired_at": to_moment(_START + batch * _MINUTE),
            "published_at": to_moment(_START + batch * _MINUTE + _MINUTE),
        }

    def row(self, record: Mapping[str, Any]) -> _Row:
        change = () if self.sink.upserts else (str(record.get("op")),)
        key = (record[each] for each in self.keys)
        return (*key, int(record["sequence"]), int(record["total"]), *change)

    def standing(self, given: Sequence[Pane]) -> Iterable[Pane]:
        return surviving(given).values() if self.sink.upserts else given


class _RowBench(_Bench[_Letter]):
    """A sink that gets rows which are only ever appended."""

    def __init__(self, fresh: Callable[[], Sink], read: Read) -> None:
        columns = {"batch": pa.int64(), "reason": pa.string(), "raw": pa.string(), "origin": pa.string()}
        columns |= {"position": pa.int64(), "arrival_time": _MOMENT, _ODD[2]: pa.string()}
        columns |= {"amount": pa.decimal128(38, 2), "raw_bytes": pa.binary()}
        place = ("batch", "origin", "position")
        self.shape = RowShape("checked", "checked.late", place, pa.schema(list(columns.items())))
        super().__init__(fresh, read)

    def record(self, batch: int, given: _Letter) -> dict[str, Any]:
        return {
            "batch": batch,
            "reason": "unreadable",
            "raw": given.raw,
            "origin": given.origin,
            "position": given.position,
            "arrival_time": to_moment(_START + batch * _MINUTE),
            _ODD[2]: given.raw,
            "amount": Decimal("12345678901234567890.25"),
            "raw_bytes": b"\x00\xff",
        }

    def row(self, record: Mapping[str, Any]) -> _Row:
        return tuple(record[name] for name in ("origin", "position", "raw", _ODD[2]))


def _pane(window: int, key: Any, sequence: int, total: int, op: Op = Op.INSERT) -> Pane:
    start = _START + window * _MINUTE
    of_key = key if isinstance(key, tuple) else (key,)
    timing = Timing.LATE if sequence else Timing.ON_TIME
    return Pane(start, start + _MINUTE, of_key, {"total": total}, sequence, timing, op)


def _correction(window: int, key: Any, sequence: int, before: int, after: int) -> tuple[Pane, Pane]:
    return _pane(window, key, sequence - 1, before, Op.RETRACT), _pane(window, key, sequence, after)


def _is_empty_at_first(bench: _PaneBench) -> None:
    bench.require_last(-1, "before any batch last_batch() is -1")
    bench.apply(0, ())
    bench.require("a batch without panes changes nothing")


def _keeps_what_it_is_given(bench: _PaneBench) -> None:
    bench.give(0, _pane(0, "chai", 0, 1), _pane(0, None, 0, 2), _pane(1, "chai", 0, 3))
    bench.require_last(0, "last_batch() is the batch applied last")
    bench.require("panes are kept, those with a null key too")
    bench.reopen()
    bench.require_last(0, "last_batch() survives that the sink is closed and opened again")
    # Batches may leave gaps; of several changes of one number in a batch the last one stands.
    steps = (
        *_correction(0, "chai", 1, 1, 10),
        *_correction(0, "chai", 2, 10, 100),
        *_correction(0, None, 1, 2, 20),
    )
    bench.give(7, *steps)
    bench.require_last(7, "batches may leave gaps")
    bench.require("panes are applied in the order in which they come")
    bench.give(8, _pane(1, "chai", 0, 3, Op.RETRACT))
    bench.require("a retract takes back the pane that it names")


def _is_applied_once(bench: _PaneBench) -> None:
    first, second = (_pane(0, "chai", 0, 1),), _correction(0, "chai", 1, 1, 10)
    bench.give(0, *first)
    bench.give(1, *second)
    for batch, panes in ((1, second), (0, first)):
        bench.apply(batch, panes)
        bench.require("a batch that is applied again is applied once")
    bench.reopen()
    bench.apply(1, second)
    bench.require("a batch that is applied again after the sink was opened anew is applied once")
    bench.require_last(1, "last_batch() does not go back when a batch is applied again")


def _leaves_no_panes_half(bench: _PaneBench) -> None:
    bench.give(0, _pane(0, "chai", 0, 1), _pane(0, "dosa", 0, 2))
    _leaves_nothing_half(
        bench, [*_correction(0, "chai", 1, 1, 10), _pane(1, "chai", 0, 3), _pane(1, None, 0, 4)]
    )


def _keeps_every_row(bench: _RowBench) -> None:
    bench.require_last(-1, "before any batch last_batch() is -1")
    bench.apply(0, ())
    bench.require("a batch without rows changes nothing")
    first = (_Letter("b.json", 9, "{"), _Letter("a.json", 7, None), _Letter(None, None, ""))
    bench.give(1, *first)
    bench.require("rows are kept, all of them and as they are")
    bench.reopen()
    bench.require_last(1, "last_batch() survives that the sink is closed and opened again")
    # A file that was rewritten is read again: the same place in another batch is another row.
    second = (_Letter("a.json", 7, 'it\'s "odd"\n'), _Letter("a.json", 8, None))
    bench.give(5, *second)
    bench.require("rows are appended, and none takes the place of another")
    for batch, rows in ((5, second), (1, first)):
        bench.apply(batch, rows)
        bench.require("a batch of rows that is applied again is applied once")
    bench.require_last(5, "last_batch() does not go back when a batch is applied again")


def _leaves_no_rows_half(bench: _RowBench) -> None:
    bench.give(0, _Letter("a.json", 0, "{"), _Letter("a.json", 2, "}"))
    _leaves_nothing_half(bench, [_Letter("a.json", 3, "["), _Letter("b.json", 0, None)])


def _leaves_nothing_half(bench: _Bench[_Given], batch: Sequence[_Given]) -> None:
    """Apply a second batch and die at each line of the sink's own code in turn, until the batch gets through."""
    promise = "a batch is applied whole or not at all, and last_batch() says which"
    # The lines that are counted are not endless: each is counted twice at most.
    for line in itertools.count(1):
        died = _applied_until(bench, batch, line)
        with suppress(Exception):  # the kernel does so, or a run after an outage
            bench.logic.close()
        bench.logic = bench.opened()
        last = bench.logic.last_batch()
        after = [*bench.given, *batch]
        if died is None and last != 1:
            _broken("last_batch() is the batch applied last", f"it returned {last!r} after batch 1")
        if last not in (0, 1) or not bench.holds(after if last == 1 else bench.given):
            _broken(
                promise,
                f"it died at line {died} of its code, and holds {bench.held()} with last_batch() {last}",
            )
        if last == 1:
            bench.apply(1, batch)
            bench.given = after
            bench.require(promise)
            return


def _keeps_apart(bench: _PaneBench) -> None:
    keys = [(None, None, None), ("chai", None, "x"), ("", None, "x"), ('it\'s "odd"\n', "é", "`")]
    corrections = [pane for nth, key in enumerate(keys[:2]) for pane in _correction(0, key, 1, nth, nth + 50)]
    with closing(bench.with_keys(_ODD)) as odd:
        odd.give(0, *(_pane(0, key, 0, nth) for nth, key in enumerate(keys)))
        odd.require("keys are told apart: null is a key, an empty text is another")
        odd.give(1, *corrections)
        odd.require("columns may have any name, and null is equal to null")
    with closing(bench.with_keys(())) as alone:
        alone.give(0, _pane(0, (), 0, 1), _pane(1, (), 0, 2))
        alone.give(1, *_correction(0, (), 1, 1, 5))
        alone.require("an output may have no key")


class _Died(BaseException):
    """The end of the process. It is no `Exception`: handlers of ordinary errors must not catch it."""


@dataclass
class _Countdown:
    files: frozenset[str]
    left: int
    died_at: int | None = None
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)

    def _counts(self, frame: FrameType) -> bool:
        """Whether this line runs for the first or second time: a third pass of a loop shows nothing new."""
        place = frame.f_code.co_filename, frame.f_lineno
        self.seen[place] += 1
        return self.seen[place] <= 2

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line" and self.died_at is None and self._counts(frame):
            self.left -= 1
            if self.left <= 0:
                self.died_at = frame.f_lineno
                raise _Died
        return self.trace


def _applied_until(bench: _Bench[_Given], given: Sequence[_Given], line: int) -> int | None:
    """Apply batch 1, and die at the nth line that runs; returns the number of that line, or None if none died."""
    kinds = [kind for kind in type(bench.logic).__mro__ if kind not in (object, ABC, SinkLogic)]
    countdown = _Countdown(frozenset(inspect.getfile(kind) for kind in kinds), line)
    table = bench.table(1, given)
    with _traced(countdown):
        try:
            bench.logic.apply(1, table)
        except _Died:
            return countdown.died_at
        except Exception:
            # The sink turned its death into an error of its own, which is as good.
            if countdown.died_at is None:
                raise
    return countdown.died_at


@contextmanager
def _traced(countdown: _Countdown) -> Iterator[None]:
    before = sys.gettrace()
    with warnings.catch_warnings():
        # A process that dies closes nothing.
        warnings.simplefilter("ignore", ResourceWarning)
        sys.settrace(countdown.trace)
        try:
            yield
        finally:
            sys.settrace(before)


def _broken(promise: str, how: str) -> None:
    raise AssertionError(f"the sink does not keep its promise: {promise}; {how}")
