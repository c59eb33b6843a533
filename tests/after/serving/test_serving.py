from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from after.serving.correct_kit import (
    as_published,
    grouped,
    late,
    make_lake,
    publish,
    reader,
    served,
    states_of,
)
from cli.cli_kit import MINUTE, NOON, Lake, pane, rows_of
from examples_kit import drawn
from faults.faults_kit import write_pipeline
from latecomer.after.reading.choices import Engine, Origin
from latecomer.after.reading.reader import Reader
from latecomer.after.serving.correcting import correct, corrections_of
from latecomer.after.serving.served import corrections, preferred, serving
from latecomer.after.serving.views import view
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.errors import PipelineError
from latecomer.store.store import open_store


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path)


def fill(lake: Lake) -> None:
    """Windows with both, with a base alone and with late events alone; keys and values that are null."""
    fee = Decimal("1.25")
    base = [
        late(0, "a", paise=5, fee=fee, payer="m"),
        late(0, None, paise=None, payer=None),
        late(1, "a", paise=2**60, fee=fee),
    ]
    publish(lake, "totals", 0, base)
    lake.late("totals", 1, [late(0, "a", paise=7, fee=fee * 2, payer="b"), late(0, None, paise=3)])
    lake.late("totals", 2, [late(0, "a", paise=-1), late(2, "o'\"`", paise=None, fee=fee)])
    correct(reader(lake), "totals")


def test_base_and_correction_stand_beside_what_they_come_to(lake: Lake) -> None:
    fill(lake)
    rows = serving(reader(lake), "totals")
    assert rows.schema.names[3:6] == ["paise", "paise_base", "paise_correction"]
    shown = served(rows.to_pylist(), "paise", "paise_base", "paise_correction", "late_events", "origin")
    assert shown == {
        (0, "a"): (11, 5, 6, 2, "corrected"),
        (0, None): (3, None, 3, 1, "corrected"),
        (1, "a"): (2**60, 2**60, 0, 0, "live"),
        (2, "o'\"`"): (None, 0, None, 1, "corrected"),
    }
    shown = served(rows.to_pylist(), "payments", "payments_base", "payments_correction", "sequence", "timing")
    assert shown[0, "a"] == (3, 1, 2, 0, "ON_TIME")
    assert shown[2, "o'\"`"] == (1, 0, 1, None, None)


def test_least_largest_and_average_follow(lake: Lake) -> None:
    fill(lake)
    rows = serving(reader(lake), "totals").to_pylist()
    shown = served(rows, "least", "least_base", "largest", "largest_correction", "first", "mean", "mean_base")
    assert shown[0, "a"] == (
        -1,
        5,
        Decimal("2.50"),
        Decimal("2.50"),
        "b",
        Decimal("1.875000"),
        Decimal("1.250000"),
    )
    assert shown[0, None] == (3, None, None, None, None, None, None)
    assert shown[1, "a"] == (
        2**60,
        2**60,
        Decimal("1.25"),
        None,
        None,
        Decimal("1.250000"),
        Decimal("1.250000"),
    )


def test_what_cannot_be_corrected_is_empty_only_where_there_is_a_correction(lake: Lake) -> None:
    values = {"total": 6, "known": 2, "mean": 3.0, "mean_fee": Decimal(1), "spread": 2.0, "tokens": 2}
    lake.panes("everything", 0, [pane(0, 0, **values), pane(1, 0, **values)])
    lake.late("everything", 1, [late(0, paise=9)])
    reads = reader(lake)
    before = serving(reads, "everything").to_pylist()
    assert [row["tokens"] for row in before] == [2, 2]
    assert reads.notes == []
    correct(reads, "everything")
    first, second = serving(reads, "everything").to_pylist()
    assert (first["mean"], first["mean_base"]) == (5.0, 3.0)
    # The base of this store has no states: what is not known is not guessed.
    assert [first[name] for name in ("mean_fee", "spread", "tokens", "tokens_base")] == [None, None, None, 2]
    assert [second[name] for name in ("mean_fee", "spread", "tokens")] == [Decimal(1), 2.0, 2]
    assert [note.split(":")[0] for note in reads.notes] == ["tokens"]


EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "minute": st.integers(0, 2),
            "merchant": st.sampled_from(["a", None]),
            "batch": st.integers(0, 3),
            "second": st.integers(0, 3),
            "paise": st.none() | st.integers(-(2**60), 2**60) | st.integers(-5, 5),
            "fee": st.none() | st.decimals(-10, 10, places=2),
            "km": st.none() | st.floats(-1e3, 1e3, width=16),
            "payer": st.none() | st.sampled_from(["ann", "bob", 'o"\\é'] * 3),
        }
    ),
    max_size=25,
)


@given(EVENTS)
@drawn(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_cannot_be_added_is_merged_from_the_states_of_both_sides(drawn: list[dict[str, Any]]) -> None:
    """On time in batch 0, late after it: together they are a plain GROUP BY over all events."""
    with tempfile.TemporaryDirectory() as folder:
        lake = make_lake(Path(folder))
        events = []
        for position, each in enumerate(drawn):
            event = late(each.pop("minute"), each.pop("merchant"), **each)
            happened = event["window_start"] + event.pop("second") * 1_000_000
            place = {
                "event_time": happened,
                "arrival_time": happened + 1,
                "origin": "a",
                "position": position,
            }
            events.append({**event, **place})
        in_order = sorted(events, key=lambda event: (event["event_time"], event["position"]))
        publish(lake, "stated", 0, [event for event in in_order if event["batch"] == 0])
        for batch in (1, 2, 3):
            came = [
                {name: value for name, value in event.items() if name != "batch"}
                for event in events
                if event["batch"] == batch
            ]
            lake.late("stated", batch, came)
            if batch != 2:
                correct(reader(lake), "stated")
        expected = {
            ((start - NOON) // MINUTE, merchant): as_published(values)
            for (start, merchant), values in grouped(lake, "stated", in_order).items()
        }
        names = list(lake.pipeline.outputs["stated"].aggregates)
        rows = serving(reader(lake), "stated").to_pylist()
        shown = {
            place: dict(zip(names, values, strict=True)) for place, values in served(rows, *names).items()
        }
        assert shown.keys() == expected.keys()
        for place, values in expected.items():
            for name, value in values.items():
                found = shown[place][name]
                same = (
                    found == pytest.approx(value, rel=1e-9, abs=1e-9)
                    if isinstance(value, float)
                    else found == value
                )
                assert same, (place, name, found, value)
        in_views = {(row["window_start"], row["merchant"]): row for row in in_duckdb(lake, "stated")}
        for row in rows:
            other = in_views[row["window_start"], row["merchant"]]
            for name in ("mean", "mean_km", "spread_km"):
                value = row[name]
                assert other[name] == (value if value is None else pytest.approx(value, rel=1e-6, abs=1e-3))
            if row["origin"] == "corrected":
                assert other["often"] is None
            assert other["often_base"] == row["often_base"]


def test_states_that_keep_values_are_merged_in_open_windows_too(lake: Lake) -> None:
    parts = [
        [late(0, "a", paise=4, payer="bob", km=1.0, event_time=NOON + 9), late(0, "a", payer="ann")],
        [late(0, "a", paise=9, payer="bob", km=2.0), late(0, "a", fee=Decimal(2), event_time=NOON + 99)],
        [late(0, "a")],
    ]
    for batch, events in enumerate(parts):
        lake.partials("stated", batch, [pane(0, None, merchant="a", **states_of(lake, "stated", events))])
    reads = reader(lake)
    (row,) = reads.results("stated", include_open=True).to_pylist()
    names = ("kinds", "middle", "middle_km", "often", "begins", "ends", "some", "mean")
    assert [row[name] for name in names] == [
        2,
        Decimal("6.5"),
        1.5,
        '[{"value":"bob","count":2},{"value":"ann","count":1}]',
        "ann",
        Decimal("2.00"),
        '["ann","bob","bob"]',
        6.5,
    ]
    assert reads.notes == []


def test_late_events_of_an_output_that_published_nothing_are_served(lake: Lake) -> None:
    lake.late("stated", 0, [late(0, "a", paise=4, payer="ann"), late(0, "a", paise=9)])
    correct(reader(lake), "stated")
    shown = served(serving(reader(lake), "stated").to_pylist(), "mean", "middle", "some", "mean_base")
    assert shown == {(0, "a"): (6.5, Decimal("6.5"), '["ann"]', None)}
    (row,) = in_duckdb(lake, "stated")
    assert (row["mean"], row["spread"]) == (6.5, 12.5)


def test_a_view_says_what_it_leaves_to_the_reader(lake: Lake) -> None:
    text = view(reader(lake), "stated", Engine.DUCKDB)
    assert (
        "-- mean_fee, kinds, middle, middle_km, often, begins, ends, some, payers, upper, upper_km: made by"
        in text
    )
    assert "-- spread, spread_fee, spread_km: where there is a correction, computed here in floating" in text
    text = view(reader(lake), "stated", Engine.POSTGRES)
    assert "-- mean, mean_fee, mean_km, spread, spread_fee" in text


def test_corrections_of_an_earlier_version_leave_unknown_what_they_hold_no_state_of(lake: Lake) -> None:
    publish(lake, "stated", 0, [late(0, "a", paise=4), late(1, "a", paise=4)])
    lake.late("stated", 1, [late(0, "a", paise=6)])
    ours = corrections_of(reader(lake), "stated")
    ours.table.schema = ours.schema  # as it was before corrections had states
    row = {"window_start": NOON, "window_end": NOON + MINUTE, "merchant": "a", "batch": 1, "late_events": 1}
    ours.table.append(1, rows_of(ours.schema, [row]))
    reads = reader(lake)
    shown = served(serving(reads, "stated").to_pylist(), "mean", "mean_base", "begins")
    assert shown == {(0, "a"): (None, 4.0, None), (1, "a"): (4.0, 4.0, None)}
    assert reads.notes[0].startswith(
        "mean: avg is empty where there is a correction (an earlier version corrected"
    )
    lake.late("stated", 2, [late(1, "a", paise=6), late(0, "a", paise=1)])
    correct(reader(lake), "stated")
    reads = reader(lake)
    assert served(serving(reads, "stated").to_pylist(), "mean") == {(0, "a"): (None,), (1, "a"): (5.0,)}


def test_a_name_that_the_output_uses_itself_gives_way(lake: Lake) -> None:
    lake.panes("clashing", 0, [pane(0, 0, merchant="a", events=1, late_events=5, events_base=5, origin=5)])
    lake.late("clashing", 0, [late(0, "a", paise=7)])
    correct(reader(lake), "clashing")
    (row,) = serving(reader(lake), "clashing").to_pylist()
    assert (row["events"], row["events_base_"], row["events_correction"]) == (2, 1, 1)
    assert (row["late_events"], row["late_events_"], row["events_base"]) == (12, 1, 7)
    assert (row["origin"], row["origin_"]) == (5, "corrected")


def test_a_sum_beyond_64_bits_is_served_exactly(lake: Lake) -> None:
    publish(lake, "totals", 0, [late(0, "a", paise=2**62)])
    lake.late("totals", 1, [late(0, "a", paise=2**62)])
    correct(reader(lake), "totals")
    rows = serving(reader(lake), "totals").to_pylist()
    assert served(rows, "paise", "paise_base", "paise_correction") == {(0, "a"): (2**63, 2**62, 2**62)}


def test_discarding_panes_are_added_up_before_they_are_corrected(lake: Lake) -> None:
    lake.panes("parts", 0, [pane(0, 0, merchant="a", paise=5, least=5)])
    lake.panes("parts", 1, [pane(0, 1, timing="LATE", merchant="a", paise=7, least=7)])
    lake.late("parts", 2, [late(0, "a", paise=1)])
    correct(reader(lake), "parts")
    (row,) = serving(reader(lake), "parts").to_pylist()
    assert [row[name] for name in ("paise", "paise_base", "least", "sequence", "timing")] == [
        13,
        12,
        1,
        1,
        "LATE",
    ]


# Which number is preferred, and what a rebuild has taken in


def rebuild(lake: Lake) -> None:
    """As a rebuild will publish: the next sequence, with the timing CORRECTION."""
    lake.panes("totals", 3, [pane(0, 7, timing="CORRECTION", merchant="a", paise=1000, filled=1)])


def test_each_number_says_where_it_comes_from(lake: Lake) -> None:
    fill(lake)
    rebuild(lake)
    lake.panes("totals", 4, [pane(0, 8, timing="LATE", merchant="a", paise=1001, filled=1)])
    found = {
        prefer: served(preferred(reader(lake), "totals", prefer).to_pylist(), "paise", "sequence", "origin")
        for prefer in Origin
    }
    live = {(0, "a"): (5, 0, "live"), (0, None): (None, 0, "live"), (1, "a"): (2**60, 0, "live")}
    corrected = {
        (0, "a"): (11, 0, "corrected"),
        (0, None): (3, 0, "corrected"),
        (1, "a"): (2**60, 0, "live"),
        (2, "o'\"`"): (None, None, "corrected"),
    }
    assert found[Origin.LIVE] == live
    assert found[Origin.CORRECTED] == corrected
    assert found[Origin.REBUILT] == {**corrected, (0, "a"): (1001, 8, "live")}


def test_a_correction_that_a_rebuild_has_taken_in_no_longer_counts(lake: Lake) -> None:
    fill(lake)
    rebuild(lake)
    columns = ("paise", "paise_base", "paise_correction", "origin")
    shown = served(serving(reader(lake), "totals").to_pylist(), *columns)
    assert shown[0, "a"] == (1000, 1000, 0, "rebuilt")
    assert shown[0, None] == (3, None, 3, "corrected")
    lake.late("totals", 4, [late(0, "a", paise=7)])
    correct(reader(lake), "totals")
    shown = served(serving(reader(lake), "totals").to_pylist(), *columns)
    assert shown[0, "a"] == (1007, 1000, 7, "corrected")
    assert served(corrections(reader(lake), "totals").to_pylist(), "paise", "batch")[0, "a"] == (7, 4)
    assert as_read(in_duckdb(lake, "totals")) == as_read(serving(reader(lake), "totals").to_pylist())


def test_a_rebuild_of_discarding_panes_takes_them_back(lake: Lake) -> None:
    lake.panes("parts", 0, [pane(0, 0, merchant="a", paise=5, least=5), pane(1, 0, merchant="a", paise=1)])
    back = pane(0, 0, "retract", "CORRECTION", merchant="a", paise=5, least=5)
    lake.panes("parts", 1, [back, pane(0, 1, timing="CORRECTION", merchant="a", paise=12, least=2)])
    rows = preferred(reader(lake), "parts", Origin.REBUILT).to_pylist()
    assert served(rows, "paise", "least", "origin") == {
        (0, "a"): (12, 2, "rebuilt"),
        (1, "a"): (1, None, "live"),
    }
    rows = preferred(reader(lake), "parts", Origin.LIVE).to_pylist()
    assert served(rows, "paise")[0, "a"] == (5,)


# Views for other engines


def as_read(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the averages that only latecomer makes exactly, in an order of their own."""
    shown = [{name: value for name, value in row.items() if name != "mean"} for row in rows]
    return sorted(shown, key=lambda row: (row["window_start"], str(row.get("merchant"))))


def in_duckdb(lake: Lake, output: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(view(reader(lake), output, Engine.DUCKDB))
        found = connection.sql(f"select * from {output}_serving").to_arrow_table()
    return [dict(row) for row in found.to_pylist()]


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    assert list(one) == list(other)
    return all(
        math.isclose(value, other[name]) if isinstance(value, float) else value == other[name]
        for name, value in one.items()
    )


@pytest.mark.parametrize("output", ["totals", "everything", "clashing", "parts"])
def test_duckdb_serves_the_same_before_and_after_a_correction(lake: Lake, output: str) -> None:
    assert in_duckdb(lake, output) == []
    fill_any(lake, output)
    found, expected = in_duckdb(lake, output), serving(reader(lake), output).to_pylist()
    assert len(found) == len(expected) > 1
    assert all(map(same, as_read(found), as_read(expected)))


def fill_any(lake: Lake, output: str) -> None:
    """A window that has both, and one that only late events have."""
    if output == "totals":
        fill(lake)
        return
    names = lake.pipeline.outputs[output].aggregates
    whole = {name: 3 for name, each in names.items() if each.column == "paise" or each.column is None}
    exact = {name: value for name, value in whole.items() if names[name].function != "variance"}
    lake.panes(output, 0, [pane(0, 0, **({"merchant": "a"} if output != "everything" else {}), **exact)])
    events = [late(0, "a", paise=7, km=0.5, ok=True), late(1, None, paise=8, payload_verdict=2)]
    lake.late(output, 1, events)
    correct(reader(lake), output)


def test_duckdb_reads_a_store_whose_path_needs_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "it's day=1, b"
    folder.mkdir()
    lake = make_lake(folder)
    fill(lake)
    assert len(in_duckdb(lake, "totals")) == 4


@pytest.mark.parametrize("output", ["totals", "parts"])
def test_spark_serves_the_same(spark: SparkSession, tmp_path: Path, output: str) -> None:
    folder = tmp_path / "a b, c"
    folder.mkdir()
    lake = make_lake(folder)
    fill_any(lake, output)
    spark.sql(view(reader(lake), output, Engine.SPARK).rstrip(";\n"))
    found = spark.table(f"{output}_serving").toArrow().to_pylist()
    expected = as_read(serving(reader(lake), output).to_pylist())
    assert all(map(same, as_read(found), expected))
    assert len(found) == len(expected)


def test_a_view_says_how_it_is_kept_up_to_date(lake: Lake) -> None:
    fill(lake)
    for engine in (Engine.DUCKDB, Engine.SPARK):
        text = view(reader(lake), "totals", engine, name="finance.served")
        assert f"latecomer serving FILE totals --sql {engine}" in text
        assert "delta" in text
    assert 'create or replace view "finance"."served" as' in view(
        reader(lake), "totals", Engine.DUCKDB, name="finance.served"
    )


def test_postgres_has_no_view_of_panes_that_add_up(lake: Lake) -> None:
    with pytest.raises(PipelineError, match=r"outputs\.parts\.accumulation: .*\(value: 'discarding'\)"):
        view(reader(lake), "parts", Engine.POSTGRES)


# A real run


@pytest.mark.long
def test_a_run_corrected_is_a_group_by_over_the_log(spark: SparkSession, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    one_output, _, _ = file.read_text(encoding="utf-8").partition("    sinks:")
    file.write_text(one_output.replace("max_files_per_batch: 1", "max_files_per_batch: 9"), encoding="utf-8")
    pipeline = load_pipeline(file)
    run(pipeline, drain=True, spark=spark)
    reads = Reader(pipeline)
    assert correct(reads, "totals").num_rows > 0
    groups: dict[tuple[datetime, str | None], list[dict[str, Any]]] = {}
    in_order = "event_time, arrival_time, origin, position"
    for event in open_store(pipeline).events.query(f"select * from t order by {in_order}").to_pylist():
        start = event["event_time"].replace(second=0, microsecond=0)
        groups.setdefault((start, event["merchant"]), []).append({**event, "txn": event["event_id"]})
    rows = serving(reads, "totals").to_pylist()
    shown = {(row["window_start"], row["merchant"]): row for row in rows}
    assert shown.keys() == groups.keys()
    assert {row["origin"] for row in rows} == {"live", "corrected"}
    for place, events in groups.items():
        for name, aggregate in pipeline.outputs["totals"].aggregates.items():
            column = {"tower": "source_partition"}.get(aggregate.column or "", aggregate.column or "")
            wanted = aggregate.evaluate([event.get(column) for event in events])
            found = shown[place][name]
            same = wanted == pytest.approx(found) if isinstance(wanted, float) else wanted == found
            assert same, (place, name, found, wanted)
    spark.sql(view(reads, "totals", Engine.SPARK).rstrip(";\n"))
    assert spark.sql("select sum(paise) from totals_serving").collect()[0][0] == sum(
        event["paise"] for events in groups.values() for event in events
    )
    spreads = {
        (row["window_start"].replace(tzinfo=UTC), row["merchant"]): row["spread"]
        for row in spark.sql("select window_start, merchant, spread from totals_serving").collect()
    }
    assert spreads == {
        place: None if row["spread"] is None else pytest.approx(row["spread"]) for place, row in shown.items()
    }


def test_in_an_old_store_a_base_beyond_64_bits_is_never_taken_for_no_base(lake: Lake) -> None:
    """Its column is null, and what is kept beside it counts: the correction alone would be a wrong number."""
    pins = lake.pipeline.store_path / "pipeline.json"
    kept = {key: value for key, value in json.loads(pins.read_text()).items() if key != "sums"}
    pins.write_text(json.dumps({**kept, "format": 1}))
    lake.panes("totals", 0, [pane(0, 0, merchant="a", paise=None, _lc_paise_beyond=2**63)])
    lake.late("totals", 1, [late(0, "a", paise=-1)])
    correct(reader(lake), "totals")
    with pytest.raises(PipelineError, match="paise_base outgrew its type, int64"):
        serving(reader(lake), "totals")
    assert preferred(reader(lake), "totals", Origin.CORRECTED)["paise"].to_pylist() == [2**63 - 1]


def test_a_base_beyond_38_digits_is_never_taken_for_no_base(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    for file in (lake.file, lake.pipeline.store_path / "pipeline.json"):
        file.write_text(file.read_text().replace("decimal(18,2)", "decimal(38,2)"))
    beyond = {"_lc_fees_beyond_high": 10**18, "_lc_fees_beyond_low": Decimal("0.05")}
    lake.panes("totals", 0, [pane(0, 0, merchant="a", fees=None, **beyond)])
    lake.late("totals", 1, [late(0, "a", fee=Decimal("-0.10"))])
    correct(reader(lake), "totals")
    rows = preferred(reader(lake), "totals", Origin.CORRECTED)["fees"].to_pylist()
    assert rows == [Decimal("9" * 36 + ".95")]
