"""What-ifs: the fourth seed's sweep, and any setting held against the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.lateness.course import Course, RecordedTimeline
from latecomer.model.lateness.sweep import Setting, Sweep, WhatIf
from latecomer.model.oracle.arrivals import Arrival, JudgedArrival
from latecomer.model.oracle.interpreter import interpret
from latecomer.model.panes import Op, Timing
from latecomer.model.strategies import Bounded, Strategy, TickSummary
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Tumbling, Windows
from scenarios import SECOND, cut, scrambled_units

SWEEP = {
    0: ("65.84%", 6832, "0.87"),
    2: ("75.39%", 4923, "2.90"),
    5: ("85.00%", 2999, "5.79"),
    10: ("93.47%", 1307, "10.87"),
    20: ("99.48%", 105, "20.87"),
    40: ("100.00%", 0, "40.87"),
}
"""The figures of the fourth seed: bound → completeness, dropped, mean wait."""


def ticks_of(
    batch: Sequence[Arrival], every: int | str, first: int
) -> list[tuple[int, list[TickSummary], list[Arrival]]]:
    """The ticks of a batch, as the engine logs them."""
    by_tick: dict[int, list[Arrival]] = {}
    for nth, arrival in enumerate(batch):
        tick = first + nth if every == "event" else arrival.arrival_time // int(every)
        by_tick.setdefault(tick, []).append(arrival)
    found = []
    for tick in sorted(by_tick):
        by_partition: dict[str, list[Arrival]] = {}
        for arrival in by_tick[tick]:
            by_partition.setdefault(arrival.partition, []).append(arrival)
        summaries = [
            TickSummary(
                tick,
                rows[0].arrival_time if every == "event" else tick * int(every),
                partition,
                len(rows),
                max(row.event_time for row in rows),
            )
            for partition, rows in sorted(by_partition.items())
        ]
        found.append((tick, summaries, by_tick[tick]))
    return found


def recorded(
    batches: Sequence[Sequence[Arrival]], every: int | str
) -> tuple[RecordedTimeline, list[tuple[int, Arrival]]]:
    """The timeline of some batches, and each arrival with its row."""
    rows, summaries, arrived, count = list[tuple[int, int, int]](), list[tuple[int, TickSummary]](), [], 0
    for nth, batch in enumerate(batches):
        for tick, found, arrivals in ticks_of(batch, every, count):
            arrived += [(len(rows), each) for each in arrivals]
            summaries += [(len(rows), each) for each in found]
            rows.append((nth, tick, found[0].at))
        count += len(batch)
    names = list(dict.fromkeys(each.partition for _, each in summaries))
    columns = [
        (row, names.index(each.partition), each.events, each.max_event_time) for row, each in summaries
    ]
    batch_of, tick_of, at = np.array(rows, np.int64).reshape(-1, 3).T
    return RecordedTimeline(
        batch_of, tick_of, at, *np.array(columns, np.int64).reshape(-1, 4).T, names
    ), arrived


def measured(
    batches: Sequence[Sequence[Arrival]],
    strategy: Strategy,
    window: Windows,
    settings: Sequence[Setting],
    accepts: bool = True,
) -> tuple[Course, list[WhatIf]]:
    timeline, arrived = recorded(batches, strategy.every)
    course = timeline.walked(strategy)
    rows = [
        (timeline.batch[row], timeline.tick[row], each.event_time, hash(each.payload.get("key")) % 2**32)
        for row, each in arrived
    ]
    batch_of, tick, times, keys = np.array(rows, np.int64).reshape(-1, 4).T
    row = course.row_of(np.ascontiguousarray(batch_of), np.ascontiguousarray(tick))
    assert (row >= 0).all()
    sweep = Sweep(window, settings, accepts)
    # In two parts: what is counted does not depend on how it is read.
    for part in (slice(None, None, 2), slice(1, None, 2)):
        chosen = [np.ascontiguousarray(each[part]) for each in (row, times, keys, batch_of)]
        sweep.take(course.newest[chosen[0]], chosen[1], chosen[2].astype(np.uint64), chosen[3])
    return course, sweep.answers(course)


def test_the_sweep_of_the_fourth_seed_to_the_last_digit() -> None:
    units = scrambled_units()
    settings = [Setting(bound * SECOND, 0) for bound in SWEEP]
    _, answers = measured([units], Bounded("0s", every="event"), Tumbling("10s"), settings, accepts=False)
    outcome = {
        answer.setting.delay // SECOND: (
            f"{answer.completeness:.2%}",
            answer.too_late,
            f"{(answer.waits_for or 0) / SECOND:.2f}",
        )
        for answer in answers
    }
    assert outcome == SWEEP


@st.composite
def streams(draw: st.DrawFn) -> list[list[Arrival]]:
    count = draw(st.integers(1, 40))
    at, arrivals = 0, []
    for _ in range(count):
        at += draw(st.integers(0, 9)) * SECOND // 2
        behind = draw(st.sampled_from([0, 0, 1, 3, 7, 20, 45])) * SECOND + draw(st.integers(0, 3))
        arrivals.append(
            Arrival(
                1_000 * SECOND + at - behind,
                1_000 * SECOND + at,
                draw(st.sampled_from(["a", "b"])),
                {"key": draw(st.sampled_from(["x", "y"]))},
            )
        )
    return cut(arrivals, draw(st.lists(st.integers(1, 15), min_size=3, max_size=12)))


def ends_at(judged: JudgedArrival) -> int:
    return 0 if judged.window is None else judged.window.end


WINDOWS: list[dict[str, Any]] = [
    {"tumbling": "10s"},
    {"tumbling": "10s", "offset": "3s"},
    {"sliding": "10s", "every": "4s"},
    {"tumbling": "1m", "zone": "Asia/Kolkata"},
    {"calendar": "day", "zone": "Europe/Berlin"},
]


@given(
    streams(),
    st.sampled_from(WINDOWS),
    st.sampled_from([0, 1, 2, 5, 30]),
    st.sampled_from([0, 1, 10, 60]),
    st.sampled_from([None, "4s", "20s"]),
    st.sampled_from(["1s", "5s", "event"]),
)
def test_any_setting_says_what_the_oracle_says(
    batches: list[list[Arrival]],
    window: dict[str, Any],
    delay: int,
    lateness: int,
    idle_after: str | None,
    every: str,
) -> None:
    fields = {"idle_after": idle_after, "every": every}
    output = Output(
        window=window,
        by=["key"],
        aggregates={"n": "count(*)"},
        late="update",
        allowed_lateness=f"{lateness}s",
    )
    outcome = interpret(batches, Bounded(f"{delay}s", **fields), {"out": output})
    settings = [Setting(each * SECOND, g * SECOND) for each in {0, 3, delay} for g in {0, lateness}]
    _, answers = measured(batches, Bounded("7s", **fields), output.window, settings)
    (answer,) = [each for each in answers if each.setting == Setting(delay * SECOND, lateness * SECOND)]
    # Of an event in several windows, the one that ends last counts.
    last = {event.position: event.fate for event in sorted(outcome.judged["out"], key=ends_at)}
    fates = Counter(last.values())
    assert (answer.on_time, answer.late, answer.too_late) == (
        fates[Fate.ON_TIME],
        fates[Fate.LATE_ACCEPTED],
        fates[Fate.SIDE_OUTPUT],
    )
    panes = Counter(pane.timing for pane in outcome.panes("out") if pane.op is Op.INSERT)
    assert answer.corrections == panes[Timing.LATE]
    assert answer.first_numbers == panes[Timing.ON_TIME]


@given(
    streams(),
    st.sampled_from([None, "2s", "4s", "20s"]),
    st.sampled_from(["1s", "5s", "event"]),
    st.booleans(),
)
def test_the_quick_way_is_the_walk(
    batches: list[list[Arrival]], idle_after: str | None, every: str, alone: bool
) -> None:
    """A batch may cut a tick in two. Of single events, only those of one partition go the quick way."""
    strategy = Bounded("3s", idle_after=idle_after, every=every)
    batches = [[replace(each, partition="a") if alone else each for each in batch] for batch in batches]
    timeline, _ = recorded(batches, strategy.every)
    slow, quick = timeline.walked(strategy), timeline.quick(strategy)
    if len(timeline.tick) < 2 or (every == "event" and len(timeline.names) > 1):
        assert quick is None
        return
    assert quick is not None
    for name in ("batch", "tick", "at", "newest", "step_newest", "step_at", "summary_key", "summary_before"):
        assert getattr(quick, name).tolist() == getattr(slow, name).tolist(), name
    assert {name: each.tolist() for name, each in quick.silences.items()} == {
        name: each.tolist() for name, each in slow.silences.items()
    }


def test_a_tick_is_published_when_the_next_one_is_seen() -> None:
    arrivals = [Arrival(at * SECOND, (at + 1) * SECOND) for at in (0, 4, 9, 13, 30)]
    course, (answer,) = measured([arrivals], Bounded("0s"), Tumbling("10s"), [Setting(2 * SECOND, 0)])
    # The window to 10 closes once 13 has counted, which the tick of second 31 tells; no other does.
    assert (answer.windows, answer.published_after) == (1, 21 * SECOND)
    assert course.span == 30 * SECOND


def test_too_many_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="there are 61 settings; give at most 60"):
        Sweep(Tumbling("1m"), [Setting(each, 0) for each in range(61)], accepts=True)
