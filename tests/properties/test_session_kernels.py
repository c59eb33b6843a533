"""The kernels of sessions say what the oracle says, however events are split and keys are spread; without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.log.timeline.keeper import Section, WatermarkRise
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.interpreter import interpret
from latecomer.model.strategies import Strategy
from latecomer.model.timeline import Timeline, TimelineRow
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import TIMESTAMP, EventLayout, PaneLayout
from latecomer.store.private_columns import when_column
from latecomer.windowing.fate_counts import FATES
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.session_bucket import (
    Bucket,
    FoldedSessions,
    fold_events,
    in_order_of_arrival,
    standing_panes,
)
from latecomer.windowing.firing.session_within import lanes_of
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import KEY, PaneLane
from latecomer.windowing.session_judge import SessionArrivals, prompt_fates
from scenarios import thorough, watermarks
from spark_kit import PAYLOAD, pipeline_over
from timeline_kit import Reader
from window_kit import WHENS, any_outputs, quiet_batches, sessions

Judgement = tuple[Fate, int | None]


@dataclass
class Kernels:
    """An output with sessions run by the kernels alone: what is stored elsewhere is kept in tables."""

    output: Output
    strategy: Strategy
    splits: int
    buckets: int
    reader: Reader = field(init=False)
    kept: dict[PaneLane, pa.Table] = field(default_factory=dict)
    panes: list[pa.Table] = field(default_factory=list)
    judged: dict[int, Judgement] = field(default_factory=dict)
    before: WatermarkRise | None = None

    def __post_init__(self) -> None:
        self.reader = Reader(self.strategy)
        pipeline = pipeline_over(Path("/nowhere"), self.strategy, {"one": self.output}, PAYLOAD)
        layout = PaneLayout(self.output, EventLayout(pipeline, pipeline.source.columns or {}))
        self.merger = Merger(layout, {"paise": "bigint"})

    def data(self, number: int, batch: Sequence[Arrival]) -> None:
        first = self.reader.position
        self.reader.read(batch)
        section = Section([(number, row) for row in self.reader.rows], self.before)
        if not section.rows:
            return
        positions = range(first, first + len(batch))
        parts = [
            [(at, each) for at, each in zip(positions, batch, strict=True) if at % self.splits == split]
            for split in range(self.splits)
        ]
        self._close(number, section, [self._arrivals(number, section, part) for part in parts if part])

    def quiet(self, number: int, row: TimelineRow) -> bool:
        """A batch without events, if anything fires in it."""
        section = Section([(number, row)], self.before)
        return self._close(number, section, [], only_if_fired=True)

    def _arrivals(
        self, number: int, section: Section, part: Sequence[tuple[int, Arrival]]
    ) -> SessionArrivals:
        positions, events = zip(*part, strict=True)
        moments = (
            pa.array([getattr(each, name) for each in events], pa.int64()).cast(TIMESTAMP)
            for name in ("event_time", "arrival_time")
        )
        event_time, arrival_time = moments
        rows = pa.table(
            {
                "event_time": event_time,
                "arrival_time": arrival_time,
                "batch": pa.array([number] * len(events), pa.int64()),
                "tick": pa.array([self.reader.ticks[at] for at in positions], pa.int64()),
                "origin": pa.array(["one"] * len(events), pa.string()),
                "position": pa.array(positions, pa.int64()),
            }
        )
        columns = {
            "key": pa.array([each.payload["key"] for each in events], pa.string()),
            "paise": pa.array([each.payload["paise"] for each in events], pa.int64()),
            "ok": pa.array([each.payload["ok"] for each in events], pa.bool_()),
            ORIGIN: rows.column("origin").combine_chunks(),
            POSITION: rows.column("position").combine_chunks(),
        }
        ok = [each.payload["ok"] is True or self.output.where is None for each in events]
        marks = np.array([self.reader.in_force[at] for at in positions], np.int64)
        columns |= {
            when_column(sql): pa.array([holds(each.payload) is True for each in events])
            for sql, holds in WHENS.items()
        }
        clocks = section.watermarks.clock(rows)
        return SessionArrivals.of(rows, columns, clocks, marks, np.array(ok), np.zeros(len(ok), bool))

    def _close(
        self, number: int, section: Section, parts: Sequence[SessionArrivals], only_if_fired: bool = False
    ) -> bool:
        alone = in_order_of_arrival(self.output, section.fires_at)
        splits = [fold_events(part, self.merger, section.fires_at, alone) for part in parts]
        splits = pickle.loads(pickle.dumps(splits))  # as tasks send it
        judged, lanes = [], []
        for bucket in range(self.buckets):
            verdicts, found = self._bucket(number, bucket, section, splits)
            judged += verdicts
            lanes += found
        rows = {lane: [table for each, table in lanes if each == lane] for lane in PaneLane}
        if only_if_fired and not rows[PaneLane.FIRED]:
            return False
        self.kept = {
            lane: pa.concat_tables(rows[lane])
            for lane in (PaneLane.OPEN, PaneLane.WAITING, PaneLane.TO_RETRACT)
            if rows[lane]
        }
        self.panes += rows[PaneLane.FIRED]
        self._note(parts, judged)
        self.before = section.end
        return True

    def _bucket(
        self, number: int, bucket: int, section: Section, splits: Sequence[FoldedSessions]
    ) -> tuple[list[Any], list[tuple[PaneLane, pa.Table]]]:
        states = [self.kept[lane] for lane in (PaneLane.OPEN, PaneLane.WAITING) if lane in self.kept]
        ours = Bucket(
            [self._folded_in(bucket, each) for each in splits],
            self._in(bucket, pa.concat_tables(states)) if states else None,
            self._in(bucket, self.kept[PaneLane.TO_RETRACT]) if PaneLane.TO_RETRACT in self.kept else None,
        )
        if self.panes:
            ours = replace(ours, closed=standing_panes(pa.concat_tables(self.panes), ours, self.merger))
        judged = ours.judged([(0, self.output)])
        lanes = lanes_of(ours, judged, Clocks.of(number, section, self.output), self.merger)
        return [] if judged is None else [(ours.suspects, judged)], list(lanes.items())

    def _folded_in(self, bucket: int, folded: FoldedSessions) -> FoldedSessions:
        late = folded.suspects
        return FoldedSessions(
            None if folded.partials is None else self._in(bucket, folded.partials, KEY),
            None if late is None else late.only(self._wanted(bucket, len(late), late.columns.get("key"))),
            None if folded.witnesses is None else self._in(bucket, folded.witnesses, KEY),
        )

    def _in(self, bucket: int, rows: pa.Table, prefix: str = "") -> pa.Table:
        keys = rows.column(f"{prefix}key") if self.output.by else None
        return rows.filter(pa.array(self._wanted(bucket, rows.num_rows, keys)))

    def _wanted(self, bucket: int, count: int, keys: Any) -> np.ndarray:
        if not self.output.by:
            return np.full(count, bucket == 0)
        return np.array([len(key or "") % self.buckets == bucket for key in keys.to_pylist()], bool)

    def _note(self, parts: Sequence[SessionArrivals], judged: Sequence[Any]) -> None:
        assert isinstance(self.output.window, Session)
        for part in parts:
            prompt = part.only(~part.suspects(self.output.window))
            fates = [FATES[int(code)] for code in prompt_fates(prompt)]
            positions = prompt.rows().column("position").to_pylist()
            self.judged |= {at: (fate, None) for at, fate in zip(positions, fates, strict=True)}
        for suspects, found in judged:
            for at, code, end in zip(
                suspects.rows().column("position").to_pylist(), found.fate, found.end, strict=True
            ):
                fate = FATES[int(code)]
                self.judged[at] = fate, int(end) if fate not in (Fate.ON_TIME, Fate.LATE_ACCEPTED) else None

    def published(self) -> list[tuple[Any, ...]]:
        return [
            (
                row["batch"],
                *(_micros(row[name]) for name in ("window_start", "window_end")),
                tuple(row[name] for name in self.output.by),
                row["sequence"],
                row["timing"],
                row["op"],
                row["is_last"],
                tuple(row[name] for name in self.output.aggregates),
            )
            for table in self.panes
            for row in _as_numbers(table).to_pylist()
        ]


def _as_numbers(table: pa.Table) -> pa.Table:
    for name in ("window_start", "window_end"):
        table = table.set_column(
            table.schema.get_field_index(name), name, table.column(name).cast(pa.int64())
        )
    return table


def _micros(value: int) -> int:
    return value


def outputs() -> st.SearchStrategy[Output]:
    def as_drawn(output: Output, where: bool) -> Output:
        quiet = output.trigger.model_copy(update={"closing": False})
        return output.model_copy(update={"trigger": quiet, "where": "ok" if where else None})

    return st.builds(as_drawn, any_outputs(window=sessions()), st.booleans())


@given(
    quiet_batches(rejects=False), watermarks(), outputs(), st.integers(1, 3), st.integers(1, 2), st.booleans()
)
@thorough
def test_kernels_of_sessions_equal_the_oracle(
    batches: list[list[Arrival] | Heartbeat],
    strategy: Strategy,
    output: Output,
    splits: int,
    buckets: int,
    drain: bool,
) -> None:
    where = {"one": lambda payload: payload["ok"]} if output.where else {}
    outcome = interpret(batches, strategy, {"one": output}, where=where, drain=drain, when=WHENS)
    kernels = Kernels(output, strategy, splits, buckets)
    for number, batch in zip(outcome.numbers, batches, strict=False):
        if isinstance(batch, Heartbeat):
            trial = Timeline.restore(strategy, kernels.reader.timeline.carry())
            row = trial.heartbeat(batch.at)
            fired = row is not None and kernels.quiet(number or 0, row)
            assert fired == (number is not None)
            if fired:
                kernels.reader.timeline = trial
        elif number is not None:
            kernels.data(number, batch)
    if drain:
        kernels.quiet(
            len([each for each in outcome.numbers if each is not None]) - 1, kernels.reader.timeline.drain()
        )
    assert kernels.judged == {
        each.position: (
            each.fate,
            None
            if each.window is None or each.fate in (Fate.ON_TIME, Fate.LATE_ACCEPTED)
            else each.window.end,
        )
        for each in outcome.judged["one"]
    }
    expected = [
        (
            each.batch,
            each.pane.window_start,
            each.pane.window_end,
            each.pane.key,
            each.pane.sequence,
            each.pane.timing,
            each.pane.op,
            each.pane.is_last,
            tuple(each.pane.values[name] for name in output.aggregates),
        )
        for each in outcome.published["one"]
    ]
    assert sorted(kernels.published(), key=repr) == sorted((_plain(each) for each in expected), key=repr)


def _plain(each: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.value if hasattr(value, "value") else value for value in each)
