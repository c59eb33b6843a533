"""Whole runs on the fast path alone, held against the oracle: there is no Spark, and whoever asks for it fails."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.models import Event, Output, Pipeline
from latecomer.config.sources import Files, Source
from latecomer.decode.arrow_text import column_type
from latecomer.decode.files import SourceFile
from latecomer.model.arrivals import Heartbeat
from latecomer.model.strategies import Bounded
from latecomer.pipeline import Engine
from latecomer.source.found_files import FileSlice
from latecomer.spark.session import NAMED_BY_PYSPARK
from latecomer.store.store import Store
from properties.test_options_on_spark import SHARED, TRIGGERS, crowd
from spark_kit import (
    PAYLOAD,
    Batch,
    Bench,
    as_lines,
    assert_in_turn,
    comparable,
    on_spark,
    require_equal,
    stored_entries,
    stored_panes,
)

HERE = {name: each for name, each in TRIGGERS.items() if name != "empty"}
"""All but empty panes, which Spark writes."""
COMMON = {
    "n": "count(*)",
    "paise": "sum(paise)",
    "most": "max(paise)",
    "mean": "avg(paise)",
    "spread": "variance(paise)",
}
ADDED = {"n": "count(*)", "keys": "count(key)", "paise": "sum(paise)", "least": "min(paise)"}


class NoSpark:
    """What an engine asks of a session before there is a step to do, and nothing else."""

    _jvm = SimpleNamespace(**dict.fromkeys(NAMED_BY_PYSPARK))
    conf = SimpleNamespace(get=lambda _: "1", set=lambda *_: None, isModifiable=lambda _: False)
    sparkContext = SimpleNamespace(setLocalProperty=lambda *_: None)  # noqa: N815

    def newSession(self) -> NoSpark:  # noqa: N802
        return self

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the fast path left a step to Spark, which is asked for {name}")


class Alone(Bench):
    """A bench whose engine has no Spark."""

    @property
    def session(self) -> SparkSession:
        return cast(SparkSession, self.spark)


def run_and_compare(
    folder: Path,
    outputs: dict[str, Output],
    batches: Sequence[Batch],
    drain: bool,
    restart: bool,
    ids: bool = False,
) -> None:
    strategy = Bounded("1us", every="1us", idle_after="4us")
    bench = Alone(cast(SparkSession, NoSpark()), folder, strategy, outputs, PAYLOAD, ids=ids)
    store = bench.run(batches, drain=drain, restart=restart)
    told = bench.oracle(batches, drain=drain)
    for name, output in outputs.items():
        published = [(each.batch, each.pane) for each in told.published[name]]
        stored = stored_panes(store, name)
        require_equal(comparable(stored), comparable(published))
        assert_in_turn(stored, published, output)
    require_equal(as_lines(stored_entries(store)), as_lines(told.ledger))


def test_every_trigger_says_what_the_oracle_says(tmp_path: Path) -> None:
    outputs = {name: Output(**{**SHARED, **each}) for name, each in HERE.items()}
    run_and_compare(tmp_path, outputs, crowd(5, rows=100, most=2), drain=True, restart=True)


@pytest.mark.parametrize("restart", [False, True])
def test_an_id_counts_once_as_long_as_it_is_remembered(tmp_path: Path, restart: bool) -> None:
    """Ids come again in their batch, in the next one and long after; some events have none."""
    chance, batches = Random(7), crowd(5, rows=120, most=4)
    named = [
        batch
        if isinstance(batch, Heartbeat)
        else [replace(each, event_id=chance.choice([None, *range(40)])) for each in batch]
        for batch in batches
    ]
    outputs = {"uneven": Output(**{**SHARED, **HERE["uneven"]})}
    run_and_compare(tmp_path, outputs, named, drain=True, restart=restart, ids=True)


def test_a_step_that_is_left_to_spark_fails(tmp_path: Path) -> None:
    outputs = {"sessions": Output(window={"session": "4us"}, aggregates=COMMON)}
    with pytest.raises(AssertionError, match="left a step to Spark"):
        run_and_compare(tmp_path, outputs, crowd(5, rows=10, most=1), drain=True, restart=False)


@st.composite
def common_outputs(draw: st.DrawFn) -> Output:
    """An output of the common case, of any trigger and policy."""
    lateness = draw(st.integers(0, 12))
    window = draw(
        st.sampled_from(
            [{"tumbling": "5us", "offset": "2us"}, {"sliding": "7us", "every": "3us"}, {"global": True}]
        )
    )
    early = draw(
        st.sampled_from([None, {"count": 1}, {"count": 3}, "2us", "5us", {"every": "3us", "clock": "event"}])
    )
    late = draw(st.sampled_from(["batch", {"count": 2}, "every 3us"]))
    kept = {"early": early} if early else {}
    if early and draw(st.booleans()):
        kept["on_time"] = "if_changed"
    policy: dict[str, Any] = {"late": draw(st.sampled_from(["update", "retract", "drop", "side_output"]))}
    if policy["late"] == "update" and draw(st.booleans()):
        policy["accumulation"] = "discarding"
    return Output(
        window=window,
        by=draw(st.sampled_from([(), ("key",), ("key", "ok")])),
        aggregates=ADDED if "accumulation" in policy else COMMON,
        allowed_lateness=0 if "global" in window else f"{lateness}us",
        too_late=draw(st.sampled_from(["drop", "side_output"])),
        trigger={**kept, **({} if "global" in window else {"late": late})},
        **policy,
    )


@given(
    st.tuples(common_outputs(), common_outputs()),
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
@settings(on_spark, max_examples=4)
def test_any_output_says_what_the_oracle_says(
    both: tuple[Output, Output], seed: int, rows: int, most: int, drain: bool, restart: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outputs = dict(zip(("one", "other"), both, strict=True))
        run_and_compare(Path(folder), outputs, crowd(seed, rows * most, most), drain, restart)


@pytest.mark.long
@given(st.tuples(common_outputs(), common_outputs()), st.integers(0, 10**6), st.booleans(), st.booleans())
@settings(on_spark, max_examples=100, derandomize=False)
def test_many_outputs_say_what_the_oracle_says(
    both: tuple[Output, Output], seed: int, drain: bool, restart: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outputs = dict(zip(("one", "other"), both, strict=True))
        run_and_compare(Path(folder), outputs, crowd(seed, 90, 3), drain, restart)


TYPED = {
    "at": "timestamp",
    "seen": "timestamp_ntz",
    "day": "date",
    "fee": "decimal(9,2)",
    "shop": "string",
    "paise": "bigint",
    "ok": "boolean",
}
FIRST = datetime(2026, 1, 5, 14, tzinfo=UTC)


def payments() -> pa.Table:
    rows = [
        {
            "at": FIRST + timedelta(seconds=10 * nth, microseconds=nth),
            "seen": (FIRST + timedelta(seconds=10 * nth + 3)).replace(tzinfo=None),
            "day": None if nth % 4 == 0 else date(2026, 1, 5 + nth % 3),
            "fee": None if nth % 5 == 0 else Decimal(nth * 7).scaleb(-2),
            "shop": [None, "a", "b, c", "é"][nth % 4],
            "paise": nth * 100,
            "ok": [None, True, False][nth % 3],
        }
        for nth in range(30)
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, column_type(kind)) for name, kind in TYPED.items()]))


def stored_as(form: Literal["json", "csv", "parquet"], folder: Path) -> dict[str, list[str]]:
    """What a run leaves of payments that came in files of this format."""
    (folder / "in").mkdir(parents=True)
    file, rows = folder / "in" / "payments", payments()
    if form == "parquet":
        pq.write_table(rows, file)
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in [dict(zip(TYPED, TYPED, strict=True)), *rows.to_pylist()]:
            writer.writerow(
                [str(value).lower() if isinstance(value, bool) else value for value in row.values()]
            )
        file.write_text(text.getvalue(), "utf-8")
    else:
        file.write_text("\n".join(json.dumps(row, default=str) for row in rows.to_pylist()), "utf-8")
    pipeline = Pipeline(
        name="typed",
        store=str(folder / "store"),
        source=Source(files=Files(path=str(folder / "in"), format=form, order_by="seen"), columns=TYPED),
        event=Event(time="at", partition="shop"),
        watermark=Bounded("5s"),
        outputs={
            "o": Output(
                window={"tumbling": "1m"},
                by=["day"],
                aggregates={"fees": "sum(fee)", "most": "max(fee)", "seen": "max(seen)"},
            )
        },
        ledger=("fee",),
    )
    store = Store(pipeline, TYPED)
    engine = Engine(cast(SparkSession, NoSpark()), store, clock=lambda: 1_800_000_000_000_000)
    engine.start()
    engine.data(0, FileSlice.of([SourceFile(file.as_uri(), 0, file.stat().st_size)]))
    engine.drain()
    engine.close()
    logged = store.events.dataset(store.events.files(), store.events.schema).to_table()
    assert logged.column("event_time").to_pylist() == rows.column("at").to_pylist()
    tables = {"events": store.events, "ledger": store.ledger, "panes": engine.outputs[0].tables.panes}
    return {
        name: sorted(repr(row) for row in table.dataset(table.files(), table.schema).to_table().to_pylist())
        for name, table in tables.items()
    }


def test_the_same_rows_in_any_format_leave_the_same_tables(tmp_path: Path) -> None:
    found = {form: stored_as(form, tmp_path / form) for form in get_args(Literal["json", "csv", "parquet"])}
    assert len(found["json"]["events"]) == 30
    assert found["json"] == found["csv"] == found["parquet"]
