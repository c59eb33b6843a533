"""Windows computed anew without Spark: what `rebuilt.py` says in SQL, with Arrow and numpy, for the common case
(ADR 0068). Whatever is not here is `Declined`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.rebuild.columns import AFTER, BEFORE, CHANGE, PRIOR, SEQUENCE
from latecomer.after.rebuild.rebuilt import CHANGED, NEAR, NEW, WITHDRAWN, Range, counters, stated_kinds
from latecomer.fast import MOST_ROWS, Declined, flat
from latecomer.log.logged import Logged
from latecomer.log.parts import parts_of
from latecomer.log.repeats import repeats_in
from latecomer.model.panes import Accumulation, Op
from latecomer.model.verdicts import END_OF_TIME, Fate
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.files import Location, write_table
from latecomer.store.layout import TIMESTAMP, arrow_type
from latecomer.store.table import DataFile
from latecomer.windowing.columns import END, START
from latecomer.windowing.derived_in_process import stored_columns
from latecomer.windowing.judge import CODES
from latecomer.windowing.judge_in_process import Flags, Judged, Micros, NothingLate, judged, micros_of
from latecomer.windowing.merge_in_process import ArrowMerger

Rows = npt.NDArray[np.int64]


def write_changes_here(
    range_: Range, read: Sequence[DataFile], panes: Sequence[DataFile], folder: Location
) -> None:
    """What computing the range anew changes, as `rebuilt.write_changes` writes it; `read` are files of the log."""
    output = range_.logic.output
    if range_.redefined:
        raise Declined("an output that is to mean something else")
    if output.emit_empty:
        raise Declined("empty panes")
    if output.accumulation is Accumulation.DISCARDING:
        raise Declined("panes that add up")
    arrow = ArrowMerger(range_.logic.merger)
    truth = _computed(range_, arrow, read)
    found = _Beside.of(range_, truth, _published(range_, panes))
    write_table(found.changes(), folder / "changes.parquet")


def _computed(range_: Range, arrow: ArrowMerger, read: Sequence[DataFile]) -> pa.Table:
    """Every window of the range, aggregated as if nothing had ever been late: START, END, keys, values and states."""
    logic, schema = range_.logic, range_.logic.merger.schema
    merged = arrow.merge_parts(_placed(range_, part, arrow.columns) for part in _events(range_, arrow, read))
    if merged is None:
        kinds = {START: pa.int64(), END: pa.int64()}
        kinds |= {name: schema.field(name).type for name in (*logic.layout.keys, *stated_kinds(logic))}
        return pa.schema(list(kinds.items())).empty_table()
    names = (*logic.layout.keys, *stated_kinds(logic))
    made = {name: flat(merged.column(name)).cast(schema.field(name).type) for name in names}
    return pa.table({START: merged.column(START), END: merged.column(END), **made})


def _placed(range_: Range, events: pa.Table, wanted: Sequence[str]) -> Judged:
    """The events that an output's `where` keeps, in windows of the range that have closed."""
    logic = range_.logic
    found = judged(events, logic.store.layout, logic.output, NothingLate(), wanted)
    return found.only((found.fate == CODES[Fate.ON_TIME]) & _wanted(range_, found.start, found.end))


def _wanted(range_: Range, start: Micros, end: Micros) -> Flags:
    return (start >= range_.since) & (start < range_.until) & (end <= range_.watermark)


def _events(range_: Range, arrow: ArrowMerger, read: Sequence[DataFile]) -> Iterator[pa.Table]:
    """The events of the range, each once, with the columns that are needed, a part at a time."""
    store, output = range_.logic.store, range_.logic.output

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        schema = store.layout.schema
        return parts_of(store.events, read, columns, schema, last=range_.through, where=_in_spans(range_))

    repeats = repeats_in(Logged(_spark_is_not_asked, parts=parts), store.pipeline, range_.through)
    if repeats.firsts is not None:
        raise Declined("events that were delivered again")
    return parts(stored_columns(store.layout, [output], arrow.columns))


def _spark_is_not_asked() -> NoReturn:
    raise Declined("ids that only Spark compares")


def _in_spans(range_: Range) -> pc.Expression:
    return _between("event_time", *(range_.spans or [(0, 0)])[0])


def _between(column: str, low: int, high: int) -> pc.Expression:
    """Whether a moment is in [low, high), as files can be told by."""
    found = pc.scalar(True)
    if low > FIRST_MOMENT:
        found &= pc.field(column) >= pa.scalar(low, TIMESTAMP)
    if high < END_OF_TIME:
        found &= pc.field(column) < pa.scalar(high, TIMESTAMP)
    return found


def _published(range_: Range, files: Sequence[DataFile]) -> pa.Table:
    """Every pane of the windows of the range, so far."""
    schema, table = range_.logic.merger.schema, range_.logic.tables.panes
    found, count = [schema.empty_table()], 0
    within = _between("window_start", range_.since, range_.until)
    for part in parts_of(table, files, schema.names, schema, last=range_.through, where=within):
        start, end = (micros_of(part, name) for name in ("window_start", "window_end"))
        found.append(part.filter(pa.array(_wanted(range_, start, end))))
        count += found[-1].num_rows
        if count > MOST_ROWS:
            raise Declined(f"more than {MOST_ROWS:,} panes")
    return pa.concat_tables(found)


@dataclass(frozen=True)
class _Beside:
    """What should stand beside what does: a row for each window and key."""

    range_: Range
    truth: pa.Table
    panes: pa.Table
    after: Rows
    """Which row of the truth; -1 where there is none."""
    before: Rows
    """Which pane was published last; -1 where there was none."""
    turn: Rows
    """Its sequence, twice, and 1 more where it was taken back."""

    @classmethod
    def of(cls, range_: Range, truth: pa.Table, panes: pa.Table) -> _Beside:
        keys = list(range_.logic.layout.keys)
        starts = panes.append_column(START, panes.column("window_start").cast(pa.int64()))
        ends = starts.append_column(END, panes.column("window_end").cast(pa.int64()))
        places = _places([truth.select([START, END, *keys]), ends.select([START, END, *keys])])
        of_truth, of_panes = places[: truth.num_rows], places[truth.num_rows :]
        taken_back = np.asarray(pc.equal(panes.column("op"), Op.RETRACT.value)).astype(np.int64)
        turn = 2 * np.asarray(flat(panes.column("sequence"))) + taken_back
        order = np.lexsort((turn, of_panes))
        after, before = (np.full(int(places.max(initial=-1)) + 1, -1, np.int64) for _ in range(2))
        after[of_truth] = np.arange(truth.num_rows)
        before[of_panes[order]] = order  # of several, the last
        return cls(range_, truth, panes, after, before, np.append(turn, -1)[before])

    def changes(self) -> pa.Table:
        """The rows that differ."""
        is_, was = self.after >= 0, (self.before >= 0) & (self.turn % 2 == 0)
        both = np.flatnonzero(is_ & was)
        differing = np.union1d(np.flatnonzero(is_ != was), both[self._differs(both)])
        return self._rows(differing, is_[differing], was[differing])

    def _differs(self, places: Rows) -> Flags:
        """Whether what stands is not what it should be: a value, or what it rests on."""
        found = np.zeros(len(places), bool)
        after, before = pa.array(self.after[places]), pa.array(self.before[places])
        for name, kind in stated_kinds(self.range_.logic).items():
            one, other = (
                flat(rows.column(name)).take(chosen)
                for rows, chosen in ((self.panes, before), (self.truth, after))
            )
            same = pc.equal(one, other)
            if kind in ("double", "float"):
                most = pc.max_element_wise(pc.abs(one), pc.abs(other))
                near = pc.less_equal(pc.abs(pc.subtract(one, other)), pc.multiply(most, NEAR))
                same = pc.or_(same, near)
            same = pc.or_(pc.fill_null(same, False), pc.and_(one.is_null(), other.is_null()))
            found |= ~np.asarray(same)
        return found

    def _rows(self, places: Rows, is_: Flags, was: Flags) -> pa.Table:
        """Rows as `rebuilt.write_changes` has them."""
        logic = self.range_.logic
        names, after, before = list(stated_kinds(logic)), self.after[places], self.before[places]
        truth = self.truth.take(pa.array(after, mask=~is_))
        panes = self.panes.take(pa.array(before, mask=before < 0))
        known = {
            START: pc.coalesce(truth.column(START), panes.column("window_start").cast(pa.int64())),
            END: pc.coalesce(truth.column(END), panes.column("window_end").cast(pa.int64())),
        }
        from_truth = pa.array(is_)
        for key in logic.layout.keys:
            known[key] = pc.if_else(from_truth, flat(truth.column(key)), flat(panes.column(key)))
        change = np.where(is_, np.where(was, CHANGED, NEW), WITHDRAWN).astype(object)
        return pa.table(
            {
                **known,
                BEFORE: _struct(panes, names, was),
                AFTER: _struct(truth, names, is_),
                PRIOR: self._prior(before, was),
                SEQUENCE: pa.array(self.turn[places] // 2 + 1, mask=before < 0),
                CHANGE: pa.array(change, pa.string()),
            }
        )

    def _prior(self, before: Rows, was: Flags) -> pa.Array:
        """The panes that stand, each in a list of its own; they say nothing new."""
        logic, panes = self.range_.logic, self.panes.take(pa.array(before[was]))
        for name in counters(logic):
            kind = arrow_type(logic.merger.state_columns[name])
            zeros = pa.array(np.zeros(panes.num_rows, np.int64)).cast(kind)
            panes = panes.set_column(panes.column_names.index(name), name, zeros)
        ends = np.concatenate([[0], np.cumsum(was)])
        stands = _struct(panes, panes.column_names, np.ones(panes.num_rows, bool))
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), stands, mask=pa.array(~was))


def _struct(rows: pa.Table, names: Sequence[str], there: Flags) -> pa.Array:
    columns = [flat(rows.column(name)) for name in names]
    return pa.StructArray.from_arrays(columns, list(names), mask=pa.array(~there))


def _places(parts: Sequence[pa.Table]) -> Rows:
    """A number for each window and key: the same where both are, nulls included."""
    rows = pa.concat_tables(parts)
    codes = np.zeros(rows.num_rows, np.int64)
    for name in rows.column_names:
        encoded = flat(rows.column(name)).dictionary_encode(null_encoding="encode")
        both = codes * (len(encoded.dictionary) + 1) + np.asarray(encoded.indices).astype(np.int64)
        codes = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return codes
