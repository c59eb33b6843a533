"""Events are judged as the model says: watermarks, windows, fates."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.errors import StoreError
from latecomer.model.arrays import flat
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import Fate, fate_of, judge
from latecomer.store.layout import TIMESTAMP, EventLayout
from latecomer.windowing import judge as judging
from latecomer.windowing.fate_counts import FATES
from latecomer.windowing.judge import fates, in_parts, judged
from latecomer.windowing.log_computation import counts_by_batch, judged_parts
from timeline_kit import watermarks_of

MINUTE = 60_000_000
COLUMNS = {"at": "timestamp", "n": "bigint", "price": "decimal(38,6)"}


@given(
    st.sampled_from(["update", "drop", "side_output", "retract"]),
    st.sampled_from(["drop", "side_output"]),
    st.lists(st.tuples(st.integers(0, 9), st.integers(-2, 14), st.booleans()), min_size=1, max_size=20),
)
def test_fates_are_the_models(late: str, too_late: str, events: list[tuple[int, int, bool]]) -> None:
    output = Output(
        window={"tumbling": "1m"},
        aggregates={"n": "count(*)"},
        late=late,
        too_late=too_late,
        allowed_lateness="3m",
    )
    ends, marks, kept = zip(*events, strict=True)
    found = fates(output, np.array(kept), np.array(ends) * MINUTE, np.array(marks) * MINUTE)
    expected = [
        fate_of(judge(end * MINUTE, mark * MINUTE, 3 * MINUTE), output.late, output.too_late)
        if keep
        else Fate.FILTERED
        for end, mark, keep in events
    ]
    assert [FATES[int(code)] for code in found] == expected


def layout_of(output: Output) -> EventLayout:
    pipeline = Pipeline(
        name="judged",
        store="store",
        source=Source(files=Files(path="in"), columns=COLUMNS),
        event=Event(time="at"),
        watermark=Bounded("1s"),
        outputs={"o": output},
        ledger=("price",),
    )
    return EventLayout(pipeline, COLUMNS)


def events_of(layout: EventLayout, rows: list[dict[str, object]]) -> pa.Table:
    given = [{"arrival_time": row["event_time"], "batch": 0, "tick": 0, **row} for row in rows]
    return pa.table(
        {
            field.name: pa.array([row.get(field.name) for row in given], _kind(field))
            for field in layout.schema
        }
    ).cast(layout.schema)


def _kind(field: pa.Field) -> pa.DataType:
    return pa.int64() if field.type == TIMESTAMP else field.type


def sliding(where: str | None = None) -> Output:
    return Output(
        window={"sliding": "3us", "every": "1us"},
        aggregates={"n": "count(*)"},
        late="side_output",
        too_late="drop",
        allowed_lateness="1us",
        where=where,
    )


def test_an_event_has_a_row_for_each_window_and_one_where_it_is_filtered() -> None:
    output = sliding("n > 0")
    layout = layout_of(output)
    events = events_of(layout, [{"event_time": 5, "n": 1}, {"event_time": 6, "n": -1}])
    found = judged(events, layout, output, watermarks_of({(0, 0): 7}), ["n"])
    assert found.nth.tolist() == [0, 0, 0, 1]
    assert found.start.tolist() == [3, 4, 5, 6]
    assert found.end.tolist() == [6, 7, 8, 9]
    outcome = [FATES[int(code)] for code in found.fate]
    assert outcome == [Fate.DROPPED, Fate.SIDE_OUTPUT, Fate.ON_TIME, Fate.FILTERED]
    assert found.leading.tolist() == [False, False, True, True]
    assert found.partly.tolist() == [False, False, True, False]
    assert found.columns["n"].to_pylist() == [1, 1, 1, -1]


def test_an_event_of_a_tick_that_is_not_on_the_timeline_is_an_error_of_the_store() -> None:
    output = sliding()
    layout = layout_of(output)
    events = events_of(layout, [{"event_time": 5, "tick": 3}])
    with pytest.raises(StoreError, match="not on the timeline"):
        judged(events, layout, output, watermarks_of({(0, 2): 7, (0, 4): 9}), [])


def test_events_of_many_windows_come_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_WINDOWS", 7)
    output = sliding()
    events = events_of(layout_of(output), [{"event_time": nth} for nth in range(5)])
    parts = list(in_parts(events, output.window))
    assert [part.num_rows for part in parts] == [2, 2, 1]
    assert pa.concat_tables(parts).equals(events)


def test_fates_are_added_up_batch_by_batch_under_the_policy_of_their_time() -> None:
    output = sliding()
    later = output.model_copy(update={"allowed_lateness": 100})
    layout = layout_of(output)
    big = Decimal("12345678901234567890123456789012.000001")
    rows = [
        {"event_time": 5, "price": big, "batch": 0},
        {"event_time": 5, "price": big, "batch": 0},
        {"event_time": 5, "price": None, "batch": 1},
        {"event_time": 5, "price": big, "batch": 2},
    ]
    timeline = watermarks_of({(batch, 0): 7 for batch in range(3)})
    periods = [(0, output), (1, later)]
    parts = judged_parts([events_of(layout, rows)], layout, periods, timeline, 1, ["price"])
    found = counts_by_batch(((found, flat(few.column("batch"))) for _, few, found in parts), ["price"])
    assert set(found) == {0, 1}
    assert found[0].fates[EVENTS] == {Fate.ON_TIME: 2, Fate.SIDE_OUTPUT: 0, Fate.DROPPED: 0}
    assert found[0].fates[ASSIGNMENTS] == {Fate.ON_TIME: 2, Fate.SIDE_OUTPUT: 2, Fate.DROPPED: 2}
    assert found[0].fates["price"][Fate.ON_TIME] == Decimal("24691357802469135780246913578024.000002")
    assert found[0].partly_late == found[0].late_at_source == 2
    assert found[1].fates[ASSIGNMENTS] == {Fate.ON_TIME: 1, Fate.SIDE_OUTPUT: 2}
    assert found[1].fates["price"] == {Fate.ON_TIME: 0, Fate.SIDE_OUTPUT: 0}
