"""What arrived in an interval of the arrival clock, and what became of it: the diagram of an output. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.explain.diagram import FATES, MOST_DOTS, MOST_MARKS, Diagram, Point, drawn, some
from latecomer.after.explain.evidence import ENVELOPE, Evidence
from latecomer.after.explain.fates import fates_in_windows
from latecomer.after.reading.reader import Reader
from latecomer.after.reading.timeline import met_watermarks, micros
from latecomer.config.outputs import Output
from latecomer.model.array_types import Integers
from latecomer.model.durations import to_micros
from latecomer.model.markup import escape, fragment, heading
from latecomer.model.verdicts import Fate
from latecomer.model.windows import FixedWindow, Session, TimedWindow, Window, zone_of
from latecomer.model.zoned import in_zone, written
from latecomer.store.delta.data_files import DataFile
from latecomer.store.sql import moment_literal
from latecomer.store.store import Store

WINDOWS = 6
"""So many windows are shown by default."""
MOST_WINDOWS = 60
MOST_ROWS = 2_000_000
"""At most about so many events are read."""
MOST_JUDGED = 4_000
"""At most so many events behind the watermark are judged."""
_ORDER = tuple(FATES)


@dataclass(frozen=True, eq=False)
class Arrived:
    """An interval of arrivals of an output. A notebook shows it as the diagram."""

    output: str
    diagram: Diagram
    zone: str
    """The zone of the output's windows."""
    first: int | None = None
    last: int | None = None
    """The first and the last arrival of all."""
    notes: Sequence[str] = ()

    def svg(self) -> str:
        """The diagram as SVG text."""
        with in_zone(self.zone):
            return drawn(self.diagram)

    def __str__(self) -> str:
        with in_zone(self.zone):
            interval = f"{written(self.diagram.since)} to {written(self.diagram.until)}"
        return "\n".join([f"{self.output}: what arrived from {interval}; svg() draws it", *self.notes])

    def _repr_html_(self) -> str:
        notes = [f'<p class="pale">{escape(note)}</p>' for note in self.notes]
        title = heading(f"{self.output}: event time against arrival time")
        return fragment([*title, f'<div class="picture">{self.svg()}</div>', *notes])


def arrived(reader: Reader, output: str, until: int | None = None) -> Arrived:
    """What arrived up to a moment of the arrival clock, or up to the newest arrival, and what became of it."""
    store, rules = reader.store(), reader.pipeline.outputs[output]
    first, last = _ends(store)
    zone, title = zone_of(rules.window), output
    if first is None or last is None:
        return Arrived(output, Diagram(title, 0, 1), zone, notes=["nothing has arrived yet"])
    end = last if until is None else until
    since = max(end - shown_length(store, rules), min(first, end - 1))
    read, marks = _Read(store, output, rules, since, end), timeline(store, since, end)
    diagram = Diagram(
        title,
        since,
        end,
        read.windows([mark for _, mark in marks[:1]]),
        marks,
        rules.allowed_lateness if rules.late.accepts else 0,
        read.on_time,
        read.late,
        read.unjudged,
    )
    return Arrived(output, diagram, zone, first, last, read.notes)


def shown_length(store: Store, rules: Output) -> int:
    """The length of an interval that shows a few windows, and events that are late for them."""
    delay = getattr(store.pipeline.watermark, "delay", 0) or 0
    waits = delay + rules.allowed_lateness
    window = rules.window
    if isinstance(window, TimedWindow):
        return min(max(WINDOWS * window.size, 2 * waits), MOST_WINDOWS * window.size)
    return max(8 * waits, 10 * (window.gap if isinstance(window, Session) else 60_000_000))


def timeline(store: Store, since: int, until: int) -> list[tuple[int, int]]:
    """The watermark over time: the end of each tick on the arrival clock, and the watermark that judged its events. The
    last tick is the one in which the interval ends."""
    if not store.watermarks.exists:
        return []
    end = moment_literal(until)
    rows = store.watermarks.query(
        f"select at, watermark from t where at >= {moment_literal(since)} and "
        f"at <= coalesce((select min(at) from t where at >= {end}), {end}) "
        "and watermark is not null and kind <> 'drain' order by at, batch, tick"
    )
    ends = np.minimum(micros(rows["at"]), until).tolist()
    marks = list(zip(ends, micros(rows["watermark"]).tolist(), strict=True))
    # Of ticks with the same watermark the last is enough; of many watermarks, some.
    marks = [one for one, other in pairwise(marks) if one[1] != other[1]] + marks[-1:]
    return some(marks, MOST_MARKS)


def _ends(store: Store) -> tuple[int | None, int | None]:
    """The first arrival that the log knows, and the last of the timeline."""
    rows = store.watermarks.query_rows("select max(at) as last from t where kind <> 'drain'")
    if not rows or rows[0]["last"] is None or not store.events.exists:
        return None, None
    last = to_micros(rows[0]["last"])
    bounds = [file.bounds("arrival_time") for file in store.events.files()]
    return min([last, *(first for first, _ in filter(None, bounds))]), last


class _Read:
    """The events of an interval of arrivals."""

    def __init__(self, store: Store, output: str, rules: Output, since: int, until: int) -> None:
        self.store, self.output, self.rules = store, output, rules
        self.notes: list[str] = []
        self.unjudged: list[tuple[int, int]] = []
        rows = self._rows(since, until)
        self.times, self.came = micros(rows["event_time"]), micros(rows["arrival_time"])
        self.met = met_watermarks(store, micros(rows["batch"]), micros(rows["tick"]))
        behind = self.times < self.met
        ahead = np.flatnonzero(~behind).tolist()
        if len(ahead) > MOST_DOTS:
            self.notes.append(f"{MOST_DOTS:,} of {len(ahead):,} events ahead of the watermark are drawn")
        self.on_time = self._places(some(ahead, MOST_DOTS))
        self.late = self._judged(rows, np.flatnonzero(behind))

    def windows(self, also: Sequence[int]) -> list[Window]:
        """The windows of the events and of the moments `also`, side by side; overlapping ones, from end to end."""
        window = self.rules.window
        if not isinstance(window, TimedWindow) or not len(self.times):
            return []
        low, high = np.quantile(self.times, [0.005, 1]).astype(np.int64).tolist()
        low = min([low, *also])
        ends = list(window.ends(low, max(high, low) + window.step))
        if len(ends) > 2 * MOST_WINDOWS:
            return []
        starts = [window.assign_all(end - 1)[0].start for end in ends[:1]] if ends else []
        return [Window(*bounds) for bounds in pairwise([*starts, *ends])]

    def _rows(self, since: int, until: int) -> pa.Table:
        table, columns = self.store.events, self._columns()
        view, kinds = self.store.layout.view, self.store.layout.schema
        names = dict.fromkeys(
            [*ENVELOPE, self.store.layout.first_arrival, *(view[column] for column in columns)]
        )
        schema = pa.schema([kinds.field(name) for name in names])
        files = self._files(table.files(), since, until)
        if not files:
            return schema.empty_table()
        came = pc.field("arrival_time")
        low, high = (pa.scalar(at, kinds.field("arrival_time").type) for at in (since, until))
        with table.explained():
            return table.dataset(files, schema).to_table(schema.names, (came >= low) & (came <= high))

    def _files(self, files: Sequence[DataFile], since: int, until: int) -> list[DataFile]:
        """The files with arrivals of the interval, the newest first, up to about MOST_ROWS rows."""
        chosen: list[DataFile] = []
        rows = 0

        def newest(file: DataFile) -> int:
            bounds = file.bounds("arrival_time")
            return 1 << 62 if bounds is None else bounds[1]

        known = [file for file in files if file.may_hold("arrival_time", since, until + 1)]
        for file in sorted(known, key=newest, reverse=True):
            rows += file.rows
            if rows > MOST_ROWS and chosen:
                self.notes.append(f"only the newest {rows - file.rows:,} events are shown")
                break
            chosen.append(file)
        return chosen

    def _columns(self) -> list[str]:
        """The columns of the source that `where` may name."""
        view = self.store.layout.view
        wanted = self.rules.where is not None or bool(self.rules.columns)
        return [column for column in self.store.columns if column in view] if wanted else []

    def _places(self, which: Sequence[int]) -> list[tuple[int, int]]:
        """Arrival and event time."""
        chosen = np.array(which, np.int64)
        return list(zip(self.came[chosen].tolist(), self.times[chosen].tolist(), strict=True))

    def _judged(self, rows: pa.Table, behind: Integers) -> list[Point]:
        """What became of the events behind the watermark. Those whose window is still open are on time."""
        windows = self.rules.window
        if not isinstance(windows, FixedWindow):
            self.notes.append(
                "what became of events behind the watermark depends on their session: see explain"
            )
            self.unjudged = self._places(some(behind.tolist(), MOST_DOTS))
            return []
        if len(behind) > MOST_JUDGED:
            self.notes.append(f"{MOST_JUDGED:,} of {len(behind):,} events behind the watermark were judged")
            behind = np.array(some(behind.tolist(), MOST_JUDGED), np.int64)
        points = list(self._with_fates(rows.take(pa.array(behind)).to_pylist(), self.met[behind].tolist()))
        self.on_time += [(each.arrival, each.event_time) for each in points if each.fate is Fate.ON_TIME]
        late = [each for each in points if each.fate is not Fate.ON_TIME]
        if len(late) > MOST_MARKS:
            self.notes.append(f"{MOST_MARKS:,} of {len(late):,} late events are drawn")
        return some(late, MOST_MARKS)

    def _with_fates(self, rows: Sequence[Mapping[str, Any]], met: Sequence[int]) -> Iterator[Point]:
        """Each event with its worst fate in any of its windows, without events that `where` excludes or that cannot be
        computed."""
        evidence = Evidence(self.store, self.rules, {}, self._columns())
        events = [evidence.event(row, watermark) for row, watermark in zip(rows, met, strict=True)]
        fates, needs_spark = fates_in_windows(self.store, self.output, events)
        for event, each in zip(events, fates, strict=True):
            drawn_fates = [fate for fate in each if fate in _ORDER]
            if drawn_fates:
                worst = max(drawn_fates, key=_ORDER.index)
                yield Point(event.arrival_time, event.event_time, worst, event.behind)
        if needs_spark:
            self.notes.append(
                "`where` needs Spark here: events that it leaves out are drawn as if it kept them"
            )
