from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake, at, pane
from examples_kit import drawn
from latecomer.after.reading.reader import Reader
from latecomer.errors import NoStore, PipelineError, StoreMismatch
from latecomer.model.durations import to_micros
from latecomer.model.panes import Op, Pane, Timing, surviving
from latecomer.model.verdicts import END_OF_TIME
from latecomer.store.sketches import merged_counter, merged_percentile


def test_a_window_shows_its_largest_sequence(lake: Lake) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.panes("minute_totals", 1, [pane(0, 1, timing="LATE", merchant="a", paise=7, payments=2)])
    rows = Reader(lake.pipeline).results("minute_totals")
    assert rows.schema.names == [
        "window_start",
        "window_end",
        "merchant",
        "paise",
        "payments",
        "sequence",
        "timing",
    ]
    assert rows.to_pylist() == [
        {
            "window_start": at(0),
            "window_end": at(1),
            "merchant": "a",
            "paise": 7,
            "payments": 2,
            "sequence": 1,
            "timing": "LATE",
        }
    ]


def test_a_retracted_number_does_not_stand(lake: Lake) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5), pane(1, 0, merchant="a", paise=6)])
    lake.panes("minute_totals", 1, [pane(0, 0, "retract", "LATE", merchant="a", paise=5)])
    assert Reader(lake.pipeline).results("minute_totals")["paise"].to_pylist() == [6]


def test_null_is_a_key_like_any_other(lake: Lake) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, paise=1), pane(0, 0, merchant="a", paise=2)])
    lake.panes("minute_totals", 1, [pane(0, 0, "retract", paise=1), pane(0, 1, paise=3)])
    rows = Reader(lake.pipeline).results("minute_totals")
    assert list(zip(rows["merchant"].to_pylist(), rows["paise"].to_pylist(), strict=True)) == [
        ("a", 2),
        (None, 3),
    ]


STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(("x", None)), st.sampled_from(tuple(Op))), max_size=12
)


@drawn(12)
@given(STEPS)
def test_what_stands_is_what_the_model_says(steps: list[tuple[int, str | None, Op]]) -> None:
    """Sequences grow per window and key; a retract takes back the one before."""
    history: list[Pane] = []
    last: dict[tuple[int, str | None], int] = {}
    for minute, key, op in steps:
        sequence = last.get((minute, key), -1)
        if op is Op.RETRACT and sequence < 0:
            continue
        sequence += op is Op.INSERT
        last[minute, key] = sequence
        start = NOON + minute * MINUTE
        history.append(Pane(start, start + MINUTE, (key,), {"paise": sequence}, sequence, Timing.LATE, op))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pipeline.yaml")
        file.write_text(PIPELINE, encoding="utf-8")
        lake = Lake(file)
        lake.store.pin()
        for batch, one in enumerate(history):
            minute = (one.window_start - NOON) // MINUTE
            values = {"merchant": one.key[0], "paise": one.values["paise"]}
            lake.panes("minute_totals", batch, [pane(minute, one.sequence, one.op, **values)])
        found = {
            (to_micros(row["window_start"]), to_micros(row["window_end"]), (row["merchant"],)): row[
                "sequence"
            ]
            for row in Reader(lake.pipeline).results("minute_totals").to_pylist()
        }
    assert found == {place: one.sequence for place, one in surviving(history).items()}


def test_discarding_panes_are_added_up(unrun: Lake) -> None:
    changed = PIPELINE.replace("late: retract\n    sinks: [{sqlite: results.db}]", ADDED)
    unrun.file.write_text(changed, encoding="utf-8")
    unrun.store.pin()
    unrun.panes("minute_totals", 0, [pane(0, 0, timing="EARLY", paise=5, payments=1)])
    unrun.panes("minute_totals", 1, [pane(0, 1, paise=None, payments=0), pane(1, 0, paise=9, payments=2)])
    unrun.panes("minute_totals", 2, [pane(0, 2, timing="LATE", paise=-7, payments=1)])
    unrun.panes("minute_totals", 3, [pane(1, 0, "retract", paise=9, payments=2)])
    (row,) = Reader(unrun.pipeline).results("minute_totals").to_pylist()
    assert {name: row[name] for name in ("merchant", "paise", "payments", "sequence", "timing")} == {
        "merchant": None,
        "paise": -2,
        "payments": 2,
        "sequence": 2,
        "timing": "LATE",
    }


ADDED = "late: update\n    accumulation: discarding"


# Open windows


def test_open_windows_are_shown_on_demand(lake: Lake) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.partials("minute_totals", 0, [pane(1, None, timing="on_time", merchant="a", paise=1, payments=1)])
    lake.partials("minute_totals", 1, [pane(1, None, timing="on_time", merchant="a", paise=2, payments=3)])
    reader = Reader(lake.pipeline)
    assert reader.results("minute_totals").num_rows == 1
    shown = reader.results("minute_totals", include_open=True).to_pylist()
    assert [(row["paise"], row["payments"], row["sequence"], row["timing"]) for row in shown] == [
        (5, 1, 0, "ON_TIME"),
        (3, 4, None, "OPEN"),
    ]


def test_a_window_that_closes_meanwhile_is_shown_once(lake: Lake) -> None:
    for merchant in ("a", None):
        batch = 0 if merchant else 1
        lake.partials("minute_totals", batch, [pane(0, None, merchant=merchant, paise=5, payments=1)])
        lake.panes("minute_totals", batch, [pane(0, 0, merchant=merchant, paise=5, payments=1)])
    rows = Reader(lake.pipeline).results("minute_totals", include_open=True)
    assert rows["timing"].to_pylist() == ["ON_TIME", "ON_TIME"]


Row = tuple[int | None, Decimal | None, float | None]
ROWS: list[list[Row]] = [
    [(1, Decimal("0.10"), 1.5), (2, None, 2.5)],
    [(1_000_003, Decimal("2.25"), -4.0)],
    [(None, None, None)],
]


def state(rows: Iterable[Row], **values: Any) -> dict[str, Any]:
    """A partial state over (paise, fee, km), as `windowing/aggregates/` keeps it."""
    paise, fee, km = ([value for value in column if value is not None] for column in zip(*rows, strict=True))
    cents = [int(value * 100) for value in fee]
    mean = statistics.fmean(km) if km else None
    return pane(
        0,
        None,
        total=sum(paise) if paise else None,
        filled=len(fee),
        largest=max(fee, default=None),
        _lc_mean_sum=Decimal(sum(paise)) if paise else None,
        _lc_mean_count=len(paise),
        _lc_mean_fee_sum=sum(fee, Decimal(0)) if fee else None,
        _lc_mean_fee_count=len(fee),
        _lc_mean_km_sum=sum(km) if km else None,
        _lc_mean_km_count=len(km),
        _lc_spread_count=len(paise),
        _lc_spread_sum=Decimal(sum(paise)) if paise else None,
        _lc_spread_squares=Decimal(sum(value**2 for value in paise)) if paise else None,
        _lc_spread_fee_count=len(fee),
        _lc_spread_fee_sum=Decimal(sum(cents)) if fee else None,
        _lc_spread_fee_squares=Decimal(sum(value**2 for value in cents)) if fee else None,
        _lc_spread_km_count=len(km),
        _lc_spread_km_mean=mean,
        _lc_spread_km_spread=sum((value - mean) ** 2 for value in km) if mean is not None else None,
        **values,
    )


def test_states_of_an_open_window_are_merged_exactly(lake: Lake) -> None:
    for batch, rows in enumerate(ROWS):
        first = "abc"[batch]
        lake.partials("everything", batch, [state(rows, first=first, payers=1, median=1.0)])
    reader = Reader(lake.pipeline)
    (row,) = reader.results("everything", include_open=True).to_pylist()
    paise = [1, 2, 1_000_003]
    assert (row["total"], row["filled"], row["first"], row["largest"]) == (1_000_006, 2, "a", Decimal("2.25"))
    assert row["mean"] == 1_000_006 / 3
    assert row["mean_fee"] == Decimal("1.175000")
    assert row["mean_km"] == 0.0
    assert row["spread"] == float(statistics.variance([Fraction(value) for value in paise]))
    assert row["spread_fee"] == pytest.approx(statistics.stdev([0.10, 2.25]))
    assert row["spread_km"] == pytest.approx(statistics.pstdev([1.5, 2.5, -4.0]))


def sketched(payers: list[str], paise: list[int]) -> dict[str, Any]:
    """The values and the sketches of both approximations."""
    return {
        "payers": len(payers),
        "median": sorted(paise)[(len(paise) - 1) // 2],
        "_lc_payers_sketch": merged_counter(payers, ())[0],
        "_lc_median_sketch": merged_percentile(paise, (), "bigint", 0.5)[0],
    }


def test_sketches_of_several_states_are_merged(lake: Lake) -> None:
    lake.partials("everything", 0, [state(ROWS[0], **sketched(["ann", "bob"], [1, 2, 3]))])
    reader = Reader(lake.pipeline)
    (alone,) = reader.results("everything", include_open=True).to_pylist()
    assert (alone["payers"], alone["median"]) == (2, 2)
    lake.partials("everything", 1, [state(ROWS[1], **sketched(["bob", "cem"], [7, 9]))])
    (merged,) = reader.results("everything", include_open=True).to_pylist()
    assert (merged["payers"], merged["median"]) == (3, 3)
    assert [remark.split(":")[0] for remark in reader.notes] == ["tokens"]
    lake.partials("everything", 2, [state(ROWS[1], payers=1, median=7)])
    (unknown,) = reader.results("everything", include_open=True).to_pylist()
    assert (unknown["payers"], unknown["median"]) == (None, None)


def test_what_cannot_be_merged_is_left_to_spark_with_a_note(lake: Lake) -> None:
    for batch in range(2):
        lake.partials("everything", batch, [state(ROWS[0], tokens=1)])
    reader = Reader(lake.pipeline)
    (merged,) = reader.results("everything", include_open=True).to_pylist()
    assert merged["tokens"] is None
    assert [remark.split(":")[0] for remark in reader.notes] == ["tokens"]


def test_a_window_without_a_value_has_none(lake: Lake) -> None:
    for batch in range(2):
        lake.partials("everything", batch, [state(ROWS[2])])
    (row,) = Reader(lake.pipeline).results("everything", include_open=True).to_pylist()
    nothing = [row[name] for name in ("total", "mean", "mean_fee", "mean_km", "spread", "spread_km")]
    assert nothing == [None] * 6
    assert row["filled"] == 0


def test_variance_of_one_value_is_none_and_of_the_population_zero(lake: Lake) -> None:
    lake.partials("everything", 0, [state(ROWS[1])])
    lake.partials("everything", 1, [state(ROWS[2])])
    (row,) = Reader(lake.pipeline).results("everything", include_open=True).to_pylist()
    assert (row["spread"], row["spread_fee"], row["spread_km"]) == (None, None, 0.0)


def test_a_number_that_is_none_survives_the_merge(lake: Lake) -> None:
    lake.partials("everything", 0, [pane(0, None, _lc_mean_km_sum=math.nan, _lc_mean_km_count=1)])
    lake.partials("everything", 1, [pane(0, None, _lc_mean_km_sum=1.0, _lc_mean_km_count=1)])
    (row,) = Reader(lake.pipeline).results("everything", include_open=True).to_pylist()
    assert math.isnan(row["mean_km"])


# Panes


@pytest.fixture
def corrected(lake: Lake) -> Lake:
    """A number published, taken back and replaced, beside others."""
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="it's", paise=5), pane(1, 0, merchant="b", paise=6)])
    replaced = [
        pane(0, 1, timing="LATE", merchant="it's", paise=9),
        pane(0, 0, "retract", "LATE", merchant="it's", paise=5),
        pane(2, 0, paise=1),
    ]
    lake.panes("minute_totals", 1, replaced)
    return lake


def test_panes_come_in_order_of_publication(corrected: Lake) -> None:
    rows = Reader(corrected.pipeline).panes("minute_totals").to_pylist()
    assert [(row["batch"], row["sequence"], row["op"], row["paise"]) for row in rows] == [
        (0, 0, "insert", 5),
        (0, 0, "insert", 6),
        (1, 0, "insert", 1),
        (1, 0, "retract", 5),
        (1, 1, "insert", 9),
    ]
    assert {"fired_at", "watermark"} < set(rows[0])
    assert not any(name.startswith("_lc_") for name in rows[0])


@pytest.mark.parametrize("moment", [at(0), at(0, 59), datetime(2026, 4, 25, 12, 0, 30)])
def test_a_moment_selects_the_window_that_holds_it(corrected: Lake, moment: datetime) -> None:
    rows = Reader(corrected.pipeline).panes("minute_totals", window=moment)
    assert rows["paise"].to_pylist() == [5, 5, 9]


def test_a_moment_may_be_in_any_zone(corrected: Lake) -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    rows = Reader(corrected.pipeline).panes(
        "minute_totals", window=datetime(2026, 4, 25, 17, 31, tzinfo=kolkata)
    )
    assert rows["paise"].to_pylist() == [6]


@pytest.mark.parametrize(("text", "found"), [("it's", [5, 5, 9]), (None, [1]), ("' or true --", [])])
def test_a_key_selects_by_value_whatever_is_in_it(
    corrected: Lake, text: str | None, found: list[int]
) -> None:
    rows = Reader(corrected.pipeline).panes("minute_totals", key={"merchant": text})
    assert rows["paise"].to_pylist() == found


def test_a_key_is_compared_as_what_it_is(lake: Lake) -> None:
    lake.panes("by_shop", 0, [pane(0, 0, merchant="a", shop=7, payments=1)])
    reader = Reader(lake.pipeline)
    assert reader.panes("by_shop", key={"shop": "07", "merchant": "a"}).num_rows == 1
    with pytest.raises(PipelineError, match=r"key shop: is not of type int \(value: 'seven'\)"):
        reader.panes("by_shop", key={"shop": "seven"})
    with pytest.raises(PipelineError, match=r"no such key column.*\n.*did you mean merchant\?"):
        reader.panes("by_shop", key={"merchnt": "a"})


KEYS = {
    "bigint": (-5, "-5", 6),
    "double": (1.5, "1.50", 2.5),
    "boolean": (True, "true", False),
    "decimal(18,2)": (Decimal("1.50"), "1.5", Decimal("1.51")),
    "timestamp": (NOON, "2026-04-25T12:00:00Z", NOON + 1),
    "string": ('a"b', 'a"b', "a"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_and_name(tmp_path: Path, kind: str) -> None:
    value, text, other = KEYS[kind]
    written = PIPELINE.replace("merchant: string", f"'a\"b.c': {kind}").replace("min(merchant)", "min(payer)")
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        written.replace("[merchant]", "['a\"b.c']").replace("[merchant, shop]", "[shop]"), "utf-8"
    )
    lake = Lake(file)
    lake.store.pin()
    lake.panes("minute_totals", 0, [pane(0, 0, **{'a"b.c': kept, "paise": 1}) for kept in (value, other)])
    reader = Reader(lake.pipeline)
    assert reader.panes("minute_totals", key={'a"b.c': text}).num_rows == 1
    assert reader.results("minute_totals", include_open=True).num_rows == 2


# The other tables


def test_late_events_come_in_order_of_arrival(lake: Lake) -> None:
    later = {"arrival_time": NOON + 2, "verdict": "late", "paise": 2}
    lake.late("minute_totals", 0, [later, {"arrival_time": NOON + 1, "verdict": "too_late", "paise": 1}])
    rows = Reader(lake.pipeline).late("minute_totals")
    assert rows["paise"].to_pylist() == [1, 2]
    assert rows["verdict"].to_pylist() == ["too_late", "late"]


def test_dead_letters_come_as_they_were_read(lake: Lake) -> None:
    lake.dead_letters(0, [{"origin": "a", "position": 2}, {"origin": "a", "position": 1, "raw": "{broken"}])
    assert Reader(lake.pipeline).dead_letters()["raw"].to_pylist() == ["{broken", None]


def test_the_timeline_tells_how_far_the_watermark_is_behind(lake: Lake) -> None:
    lake.watermarks(0, [{"tick": 1, "at": NOON}, {"tick": 2, "at": NOON + MINUTE, "watermark": NOON}])
    lake.watermarks(1, [{"tick": 3, "at": NOON + MINUTE, "watermark": END_OF_TIME, "kind": "drain"}])
    rows = Reader(lake.pipeline).watermarks()
    assert rows.schema.names == [
        *("batch", "tick", "at", "watermark", "settled", "kind", "arrival_by", "held_by", "lag")
    ]
    assert rows["lag"].to_pylist() == [None, timedelta(minutes=1), None]
    assert rows["watermark"].to_pylist()[0] is None


def test_the_ledger_is_summed_up_per_output_and_unit(lake: Lake) -> None:
    for batch in range(2):
        lines = [{"output": "minute_totals", "received": Decimal(3), "on_time": Decimal(3)}]
        lines += [{"output": "minute_totals", "unit": "fee", "received": Decimal("0.25")}]
        lines += [{"output": "minute_totals", "unit": "assignments", "received": Decimal(3)}]
        lake.ledger(batch, lines)
    reader = Reader(lake.pipeline)
    assert reader.ledger()["unit"].to_pylist() == ["events", "assignments", "fee"] * 2
    totals = reader.ledger_totals().to_pylist()
    assert [(row["unit"], row["received"], row["on_time"]) for row in totals] == [
        ("events", 6, 6),
        ("assignments", 6, 0),
        ("fee", Decimal("0.5"), 0),
    ]
    assert reader.batches() == 2


# Nothing there, or something else


def test_before_the_first_run_there_is_no_store(unrun: Lake) -> None:
    reader = Reader(unrun.pipeline)
    for read in (reader.watermarks, reader.ledger, reader.ledger_totals, reader.dead_letters):
        with pytest.raises(NoStore, match="run the pipeline first"):
            read()
    with pytest.raises(NoStore, match="run the pipeline first"):
        reader.results("minute_totals")


def test_an_empty_store_has_no_rows_and_is_left_as_it_is(lake: Lake) -> None:
    before = sorted(lake.pipeline.store_path.rglob("*"))
    reader = Reader(lake.pipeline)
    found = [
        reader.results("minute_totals", include_open=True),
        reader.panes("minute_totals"),
        reader.late("minute_totals"),
        reader.dead_letters(),
        reader.watermarks(),
        reader.ledger(),
        reader.ledger_totals(),
    ]
    assert [rows.num_rows for rows in found] == [0] * 7
    assert sorted(lake.pipeline.store_path.rglob("*")) == before


def test_an_unknown_output_is_told_with_the_known_ones(lake: Lake) -> None:
    with pytest.raises(PipelineError) as outcome:
        Reader(lake.pipeline).results("minute_total")
    assert "did you mean minute_totals? there are minute_totals, everything, by_shop" in str(outcome.value)


def test_an_output_added_since_is_not_computed_yet(lake: Lake) -> None:
    more = PIPELINE.replace(
        "outputs:\n", "outputs:\n  new:\n    window: {tumbling: 1h}\n    aggregates: {n: count(*)}\n"
    )
    lake.file.write_text(more, encoding="utf-8")
    with pytest.raises(NoStore, match="output new has not been computed yet"):
        Reader(lake.pipeline).results("new")


def test_numbers_of_another_definition_are_not_shown_as_this_one(lake: Lake) -> None:
    lake.file.write_text(PIPELINE.replace("paise: sum(paise)", "paise: max(paise)"), encoding="utf-8")
    with pytest.raises(StoreMismatch, match="minute_totals was computed with other aggregates"):
        Reader(lake.pipeline).results("minute_totals")


def test_the_store_of_another_pipeline_is_refused(lake: Lake) -> None:
    lake.file.write_text(PIPELINE.replace("name: upi", "name: cards"), encoding="utf-8")
    with pytest.raises(StoreMismatch, match="belongs to pipeline upi, not cards"):
        Reader(lake.pipeline).watermarks()


def test_a_reader_sees_what_was_committed_since(lake: Lake) -> None:
    reader = Reader(lake.pipeline)
    assert reader.results("minute_totals").num_rows == 0
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5)])
    assert reader.results("minute_totals").num_rows == 1
    lake.panes("minute_totals", 1, [pane(1, 0, merchant="a", paise=5)])
    assert reader.results("minute_totals").num_rows == 2


def as_before(lake: Lake) -> None:
    """Let the store be one of a version that summed whole numbers up in 64 bits."""
    pins = lake.pipeline.store_path / "pipeline.json"
    kept = {key: value for key, value in json.loads(pins.read_text()).items() if key != "sums"}
    pins.write_text(json.dumps({**kept, "format": 1}))


@pytest.mark.parametrize(("old", "total"), [(False, 2**63), (True, None)])
def test_the_sum_of_an_open_window_does_not_wrap_around(lake: Lake, old: bool, total: int | None) -> None:
    if old:
        as_before(lake)
    for batch in (0, 1):
        lake.partials("minute_totals", batch, [pane(0, None, merchant="a", paise=2**62, payments=1)])
    (row,) = Reader(lake.pipeline).results("minute_totals", include_open=True).to_pylist()
    assert (row["paise"], row["payments"]) == (total, 2)
