"""The tables are ordinary Delta tables: Polars reads them, and DuckDB over the Arrow dataset."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline


@pytest.mark.long
def test_polars_and_duckdb_read_what_was_written(finished: Path) -> None:
    pipeline = load_pipeline(finished)
    store = pipeline.store_path
    tables = [
        "events",
        "duplicates",
        "dead_letters",
        "watermarks",
        "ledger",
        "outputs/totals/panes",
        "outputs/totals/late",
        "outputs/totals/partials",
        "outputs/alerts/panes",
    ]
    for name in tables:
        with_polars = pl.read_delta(str(store / name))
        dataset = DeltaTable(str(store / name)).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by name
        ((with_duckdb,),) = duckdb.sql("select count(*) from dataset").fetchall()
        assert with_polars.height == with_duckdb

    events = pl.read_delta(str(store / "events"))
    ledger = pl.read_delta(str(store / "ledger")).filter(
        (pl.col("unit") == "paise") & (pl.col("output") == "totals")
    )
    accepted = ledger["on_time"].sum() + ledger["late_accepted"].sum() + ledger["side_output"].sum()
    assert events["paise"].sum() == accepted

    panes = DeltaTable(str(store / "outputs/totals/panes")).to_pyarrow_dataset()  # noqa: F841
    standing = duckdb.sql(
        "select sum(paise) from (select paise, row_number() over "
        "(partition by window_start, merchant order by sequence desc) as nth from panes) where nth = 1"
    ).fetchall()
    assert standing == [(sum(row["paise"] for row in Reader(pipeline).results("totals").to_pylist()),)]
