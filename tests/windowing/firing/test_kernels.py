"""Folding and merging alone: tables and plain values in, panes out. What they need can be sent to another process."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.windows import Window
from latecomer.store.layout import TIMESTAMP, EventLayout, PaneLayout
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.empty import KnownKeys, empty_panes
from latecomer.windowing.firing.folding import FoldedEvents, event_columns, fold
from latecomer.windowing.firing.panes import Firing, closing_panes
from latecomer.windowing.firing.within_batch import firing_of
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import PaneLane
from timeline_kit import watermarks_of

COLUMNS = {"at": "timestamp", "key": "string", "paise": "bigint"}
AGGREGATES = {"rows": "count(*)", "paise": "sum(paise)"}


def output(**more: Any) -> Output:
    settings = {
        "window": {"tumbling": "10us"},
        "by": ("key",),
        "aggregates": AGGREGATES,
        "allowed_lateness": "20us",
    }
    return Output(**{**settings, **more})


def layout_of(output: Output) -> PaneLayout:
    pipeline = Pipeline(
        name="kernels",
        store="store",
        source=Source(files=Files(path="in"), columns=COLUMNS),
        event=Event(time="at"),
        watermark=Bounded("1s"),
        outputs={"o": output},
    )
    return PaneLayout(output, EventLayout(pipeline, COLUMNS))


def events(layout: PaneLayout, *rows: tuple[int, int, str, int]) -> pa.Table:
    """Event time, tick, key and amount of each."""
    given = [
        {
            "event_time": time,
            "arrival_time": 100 + tick,
            "tick": tick,
            "batch": 0,
            "position": nth,
            "key": key,
        }
        | {layout.events.view["paise"]: paise}
        for nth, (time, tick, key, paise) in enumerate(rows)
    ]
    return pa.table(
        {
            field.name: pa.array(
                [row.get(field.name) for row in given], pa.int64() if field.type == TIMESTAMP else field.type
            )
            for field in layout.events.schema
        }
    ).cast(layout.events.schema)


def clocks(batch: int, before: int, *steps: tuple[int, int]) -> Clocks:
    """The watermark rose so, each time at that moment."""
    marks, ats = (np.array([step[side] for step in steps], np.int64) for side in (0, 1))
    return Clocks(batch, before, int(marks[-1]), int(marks[0]), int(ats[-1]), marks, ats, False, False)


def sent(thing: Any) -> Any:
    """As it comes out in another process."""
    return pickle.loads(pickle.dumps(thing))


def folded(layout: PaneLayout, rows: pa.Table, ticks: dict[int, int]) -> FoldedEvents:
    merger = sent(Merger(layout, {}))
    (found,) = fold(
        rows.select(event_columns(merger)),
        merger,
        sent(watermarks_of({(0, tick): mark for tick, mark in ticks.items()})),
    )
    return found


def outcome_of(panes: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    shown = ["window_start", "key", "rows", "paise", *names]
    moments = panes.set_column(0, "window_start", panes.column("window_start").cast(pa.int64()))
    return sorted(tuple(row[name] for name in shown) for row in moments.select(shown).to_pylist())


TICKS = {0: BEGIN_OF_TIME, 1: 12, 2: 39}


@pytest.fixture
def lanes() -> dict[str, pa.Table]:
    """Two splits of a batch, with an open state of the batch before."""
    layout = layout_of(output(late="update", too_late="side_output"))
    firing = Firing(sent(Merger(layout, {})))
    before = folded(layout, events(layout, (15, 0, "a", 1)), TICKS).states
    known = firing.lanes([before], None, clocks(0, BEGIN_OF_TIME, (5, 90)))[PaneLane.OPEN]
    splits = [
        events(layout, (16, 0, "a", 2), (3, 1, "a", 4), (55, 1, "b", 8)),
        events(layout, (17, 0, "a", 16), (4, 1, "b", 32), (5, 2, "a", 64)),
    ]
    parts = [folded(layout, split, TICKS) for split in splits]
    assert [part.late.num_rows for part in parts] == [0, 1]
    assert parts[1].late.column("verdict").to_pylist() == ["too_late"]
    return firing.lanes([part.states for part in parts], known, sent(clocks(1, 5, (12, 101), (39, 102))))


def test_partial_states_and_open_ones_become_panes(lanes: dict[str, pa.Table]) -> None:
    assert outcome_of(lanes[PaneLane.FIRED], "sequence", "timing") == [(10, "a", 3, 19, 0, "ON_TIME")]
    assert lanes[PaneLane.FIRED].column("watermark").cast(pa.int64()).to_pylist() == [39]
    assert lanes[PaneLane.FIRED].column("fired_at").cast(pa.int64()).to_pylist() == [102]
    assert outcome_of(lanes[PaneLane.OPEN]) == [(50, "b", 1, 8)]
    assert outcome_of(lanes[PaneLane.LATE]) == [(0, "a", 1, 4), (0, "b", 1, 32)]
    assert lanes[PaneLane.REST].column("timing").to_pylist() == ["side_output"]


def test_late_panes_take_back_what_stands(lanes: dict[str, pa.Table]) -> None:
    layout = layout_of(output(late="retract"))
    firing = Firing(Merger(layout, {}))
    first = folded(layout, events(layout, (1, 0, "a", 100)), TICKS).states
    stands = firing.lanes([first], None, clocks(0, BEGIN_OF_TIME, (12, 90)))[PaneLane.FIRED]
    found = firing.late_panes(lanes[PaneLane.LATE], stands, clocks(1, 12, (40, 102)))
    assert outcome_of(found, "sequence", "op", "is_last") == [
        (0, "a", 1, 100, 0, "retract", False),
        (0, "a", 2, 104, 1, "insert", True),
        (0, "b", 1, 32, 0, "insert", True),
    ]
    ops = [
        op
        for op, key in zip(*(found.column(name).to_pylist() for name in ("op", "key")), strict=True)
        if key == "a"
    ]
    assert ops == ["retract", "insert"]


def test_windows_that_closed_without_a_key_say_so(lanes: dict[str, pa.Table]) -> None:
    firing = Firing(Merger(layout_of(output(emit_empty=True)), {}))
    known = pa.table({"key": ["a", "b"], "_lc_first": pa.array([10, 20]).cast(TIMESTAMP)})
    windows = [Window(10, 20), Window(20, 30)]
    found = empty_panes(firing, known, windows, lanes[PaneLane.FIRED], clocks(1, 12, (25, 101), (40, 102)))
    assert outcome_of(found, "timing", "sequence") == [
        (20, "a", 0, 0, "ON_TIME", 0),
        (20, "b", 0, 0, "ON_TIME", 0),
    ]
    assert found.column("fired_at").cast(pa.int64()).to_pylist() == [102, 102]


def test_the_newest_window_may_end_at_the_epoch() -> None:
    merger = Merger(layout_of(output(emit_empty=True)), {})
    known = KnownKeys(pa.schema([merger.schema.field("key"), ("_lc_first", TIMESTAMP)]).empty_table())
    for end in (0, -10):  # in the files of two buckets
        pane = {"key": "a", "window_end": end, "timing": "ON_TIME", "sequence": 0, "_lc_events": 1}
        kinds = [*(merger.schema.field(name) for name in pane)]
        known = known.with_panes(
            pa.table({each.name: pa.array([pane[each.name]], each.type) for each in kinds})
        )
    assert known.newest == 0
    assert known.first == -10
    assert known.table.num_rows == 1


def test_what_stands_is_published_for_the_last_time_once(lanes: dict[str, pa.Table]) -> None:
    firing = Firing(Merger(layout_of(output(late="update", trigger={"closing": True})), {}))
    fired, later = lanes[PaneLane.FIRED], clocks(2, 39, (45, 110))
    found = closing_panes(firing, fired, None, later)
    assert outcome_of(found, "sequence", "timing", "is_last") == [(10, "a", 3, 19, 1, "CLOSING", True)]
    assert closing_panes(firing, pa.concat_tables([fired, found]), None, later).num_rows == 0
    assert closing_panes(firing, fired, fired, later).num_rows == 0, "it will be taken back instead"
    assert closing_panes(firing, fired, None, clocks(2, 40, (45, 110))).num_rows == 0, "it was closed before"


def test_panes_within_a_large_batch_hold_all_that_came_before_them() -> None:
    """Groups of many rows come out of Arrow in no order of their own."""
    layout = layout_of(output(trigger={"early": {"count": 1}}))
    count, chance = 30_000, np.random.default_rng(1)
    keys, paid = chance.integers(0, 900, count), chance.integers(1, 9, count)
    rows = events(
        layout,
        *((1, nth, f"k{key}", int(paise)) for nth, (key, paise) in enumerate(zip(keys, paid, strict=True))),
    )
    found = folded(layout, rows, dict.fromkeys(range(count), 0)).states
    lanes = firing_of(Merger(layout, {})).lanes([found], None, clocks(0, 0, (0, count)))
    totals: dict[str, list[int]] = {}
    for key, paise in zip(keys.tolist(), paid.tolist(), strict=True):
        known = totals.setdefault(f"k{key}", [])
        known.append((known[-1] if known else 0) + paise)
    early = lanes[PaneLane.FIRED].sort_by([("key", "ascending"), ("sequence", "ascending")])
    expected = [(key, nth, paise) for key in sorted(totals) for nth, paise in enumerate(totals[key])]
    assert (
        list(zip(*(early.column(name).to_pylist() for name in ("key", "sequence", "paise")), strict=True))
        == expected
    )
