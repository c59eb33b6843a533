from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from latecomer.config.sinks import IcebergSink
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import open_sink
from latecomer.sink.keeper import SinkKeeper, sink_status
from latecomer.store.store import open_store
from sink.feeding_kit import Fed, HandClock, eventually
from sink.sink_kit import (
    MINUTE,
    SHAPE,
    START,
    Place,
    apply,
    catalog_at,
    iceberg_table,
    insert,
    opened,
    retract,
    rows_of_iceberg,
    shape_of,
    table_of,
)

NAME = "shop.minute_totals"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
def catalog(lake: Path) -> Iterator[Catalog]:
    """The catalog, as another program has it."""
    found = catalog_at(lake)
    with closing(load_catalog(found["catalog"], **found["properties"])) as other:
        yield other


@contextmanager
def meanwhile(batch: int, happens: Callable[[], Any]) -> Iterator[None]:
    """Let something happen once, before a batch is committed and after its files are written."""
    left = [happens]

    def at(name: str, number: int) -> None:
        if (name, number) == ("sink.iceberg.written", batch) and left:
            left.pop()()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latecomer.sink.iceberg.failpoint", at)
        yield
    assert not left


def refused_opening(lake: Path, **settings: Any) -> str:
    with pytest.raises(SinkError) as caught:
        opened("iceberg", lake, **settings)
    return str(caught.value)


def sequences(lake: Path) -> dict[Any, int]:
    return {(row["window_start"], row["merchant"]): row["sequence"] for row in rows_of_iceberg(lake)}


def test_no_value_is_rounded_and_lists_and_maps_are_what_they_are(lake: Path) -> None:
    kinds = {
        "large": (pa.decimal128(38, 0), Decimal(10**37 + 1), "decimal(38, 0)"),
        "money": (pa.decimal128(18, 2), Decimal("12.50"), "decimal(18, 2)"),
        "small": (pa.int8(), -7, "int"),
        "whole": (pa.int64(), 2**63 - 1, "long"),
        "yes": (pa.bool_(), True, "boolean"),
        "day": (pa.date32(), date(2026, 4, 25), "date"),
        "digits": (pa.string(), "007", "string"),
        "share": (pa.float64(), 0.1, "double"),
        "nothing": (pa.float64(), None, "double"),
        "bytes": (pa.binary(), b"\x00\xff", "binary"),
        "listed": (pa.list_(pa.struct([("n", pa.int16())])), [{"n": 1}, None], None),
        "mapped": (pa.map_(pa.string(), pa.int64()), [("a", 1)], "map<string, long>"),
    }
    shape = shape_of({}, {name: kind for name, (kind, _, _) in kinds.items()})
    given = [value for _, value, _ in kinds.values()]
    sink = opened("iceberg", lake, shape)
    apply(sink, 0, insert(0, (), 0, *given, shape=shape))
    apply(sink, 1, insert(0, (), 1, *given, shape=shape))  # read, and written again
    (row,) = rows_of_iceberg(lake)
    assert row["sequence"] == 1
    assert {name: row[name] for name in kinds} == {name: value for name, (_, value, _) in kinds.items()}
    types = {field.name: str(field.field_type) for field in iceberg_table(lake).schema().fields}
    assert types["window_start"] == "timestamptz"
    assert {name: types[name] for name, (_, _, kind) in kinds.items() if kind} == {
        name: kind for name, (_, _, kind) in kinds.items() if kind
    }


def test_rows_and_batch_are_one_commit(lake: Path) -> None:
    sink = opened("iceberg", lake)
    before = len(iceberg_table(lake).metadata.metadata_log)
    apply(sink, 3, insert(0, "chai", 0), insert(1, "chai", 0))
    apply(sink, 7, insert(0, "chai", 1))
    table = iceberg_table(lake)
    assert len(table.metadata.metadata_log) == before + 2
    wanted = {"latecomer.pipeline": "upi", "latecomer.output": "minute_totals", "latecomer.batch": "7"}
    assert {name: table.properties.get(name) for name in wanted} == wanted
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["latecomer.batch"] == "7"


def test_a_batch_that_touches_no_row_is_an_append(lake: Path) -> None:
    sink = opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1, insert(0, "dosa", 0))
    assert [each.summary.operation.value for each in iceberg_table(lake).snapshots() if each.summary] == [
        "append",
        "append",
    ]


def test_a_batch_of_which_nothing_comes_counts_as_applied(lake: Path) -> None:
    sink = opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 2))
    apply(sink, 1, insert(0, "chai", 1))
    assert sink.last_batch() == 1
    assert len(iceberg_table(lake).snapshots()) == 1


@pytest.mark.parametrize("windows", [1, 250])
def test_many_keys_and_many_windows_are_replaced_in_one_batch(lake: Path, windows: int) -> None:
    sink, keys = opened("iceberg", lake), [None, *map(str, range(600))]
    apply(sink, 0, *(insert(n % windows, key, 0) for n, key in enumerate(keys)))
    changes = [insert(n % windows, key, 1) for n, key in enumerate(keys[:400])]
    apply(sink, 1, *changes, *(retract(n % windows, key, 0) for n, key in enumerate(keys) if n >= 500))
    found = list(sequences(lake).values())
    assert (found.count(1), found.count(0)) == (400, 100)


def other_rows(catalog: Catalog) -> None:
    """Another writer adds a row of its own."""
    row = {"window_start": START + 9 * MINUTE, "merchant": "theirs", "sequence": 0}
    table = catalog.load_table(NAME)
    table.append(pa.Table.from_pylist([row], table.schema().as_arrow()))


def compacted(catalog: Catalog) -> None:
    """Another program writes all files anew, as a compaction does."""
    table = catalog.load_table(NAME)
    table.overwrite(table.scan().to_arrow())


@pytest.mark.parametrize("other", [other_rows, compacted])
@pytest.mark.parametrize("change", [insert(1, "chai", 0), insert(0, "chai", 1), retract(0, "chai", 0)])
def test_another_writer_in_the_middle_of_a_batch_is_no_obstacle(
    lake: Path, catalog: Catalog, other: Callable[[Catalog], None], change: Any
) -> None:
    sink = opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 0), insert(0, "dosa", 0))
    undisturbed = opened("iceberg", lake.with_name("undisturbed"))
    apply(undisturbed, 0, insert(0, "chai", 0), insert(0, "dosa", 0))
    with meanwhile(1, lambda: other(catalog)):
        apply(sink, 1, change)
    apply(undisturbed, 1, change)
    assert sink.last_batch() == 1
    found = {place: each for place, each in sequences(lake).items() if place[1] != "theirs"}
    assert found == sequences(lake.with_name("undisturbed"))
    assert len(rows_of_iceberg(lake)) == len(found) + (other is other_rows)


@pytest.mark.parametrize("change", [insert(1, "chai", 0), insert(0, "chai", 1)])
def test_a_batch_that_comes_from_two_writers_at_once_is_applied_once(lake: Path, change: Any) -> None:
    sink, twin = opened("iceberg", lake), opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 0))

    with meanwhile(1, lambda: twin.apply(1, table_of(1, [change]))):
        apply(sink, 1, change)
    place = Place("iceberg", lake, rows_of_iceberg)
    assert len(place.standing()) == len(rows_of_iceberg(lake)) == (2 if change.window_start > START else 1)


def test_a_writer_that_is_always_faster_is_an_outage(lake: Path, catalog: Catalog) -> None:
    sink = opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latecomer.sink.iceberg.failpoint", lambda *_: compacted(catalog))
        with pytest.raises(SinkOutage, match=r"another writer was faster \("):
            apply(sink, 1, insert(0, "chai", 1))
    assert sink.last_batch() == 0
    apply(sink, 1, insert(0, "chai", 1))
    assert list(sequences(lake).values()) == [1]


def test_a_table_that_somebody_made_is_taken_with_its_partitions(lake: Path, catalog: Catalog) -> None:
    opened("iceberg", lake, table="shop.pattern")
    schema = catalog.load_table("shop.pattern").schema()
    merchant = schema.find_field("merchant").field_id
    field = PartitionField(
        source_id=merchant, field_id=1000, transform=IdentityTransform(), name="by_merchant"
    )
    catalog.create_table(NAME, schema, partition_spec=PartitionSpec(field))
    sink = opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 0), insert(0, "dosa", 0))
    apply(sink, 1, insert(0, "chai", 1))
    assert sorted(sequences(lake).values()) == [0, 1]
    assert len(list(iceberg_table(lake).scan().plan_files())) == 2
    with pytest.raises(SinkError, match="belongs to output minute_totals of pipeline upi"):
        opened("iceberg", lake, pipeline="cards")


def test_a_table_with_other_columns_is_refused(lake: Path, catalog: Catalog) -> None:
    catalog.create_namespace("shop")
    catalog.create_table(NAME, pa.schema([("window_start", pa.string()), ("paise", pa.float64())]))
    text = refused_opening(lake)
    assert text.startswith(
        f"iceberg sink lake.{NAME}: the table {NAME} has other columns (without window_end, "
    )
    assert "paise double instead of decimal128(28, 0)); rename it, or give the sink another table" in text


def test_a_table_dropped_in_the_middle_is_an_outage_and_made_anew(lake: Path, catalog: Catalog) -> None:
    sink = opened("iceberg", lake)
    apply(sink, 0, insert(0, "chai", 0))
    catalog.drop_table(NAME)
    with pytest.raises(SinkOutage, match="the table is gone; bring it back, or it is made anew"):
        apply(sink, 1, insert(0, "chai", 1))
    sink.open()
    assert sink.last_batch() == -1


def test_asking_for_progress_makes_no_table(lake: Path, catalog: Catalog) -> None:
    sink = opened("iceberg", lake, table="shop.another")
    catalog.drop_table("shop.another")
    assert sink.peek() == -1
    assert catalog.list_tables("shop") == []


def test_a_run_goes_on_without_a_catalog_that_is_down_and_catches_it_up(tmp_path: Path) -> None:
    sink = {"iceberg": {**catalog_at(tmp_path), "table": "shop.totals"}}
    fed = Fed(tmp_path, json.dumps([sink, {"jsonl": "changes"}]))
    clock = HandClock()
    keeper = SinkKeeper(fed.store, clock)
    keeper.start(-1)
    down, other = keeper.workers
    catalog = tmp_path / "catalog.db"
    with closing(sqlite3.connect(catalog, isolation_level=None)) as held:
        held.execute("drop table iceberg_tables")
        for batch in range(3):
            fed.publish(batch, "chai")
            keeper.announce(batch)
        eventually(lambda: down.outage is not None and not other.behind)
    shown = {row["sink"]: row for row in sink_status(open_store(fed.pipeline)).to_pylist()}
    assert shown["iceberg"]["behind"] == 3
    clock.seconds += 100
    keeper.finish()
    keeper.close()
    assert len(rows_of_iceberg(tmp_path, "totals")) == 3


def test_a_catalog_that_nobody_configured_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(
        SinkError, match=r"iceberg sink nowhere\.shop\.minutes: pyiceberg refused \(URI missing.*"
    ):
        open_sink(IcebergSink(table="shop.minutes", catalog="nowhere"), tmp_path, "upi", SHAPE)


CONFIGURED = """
from pathlib import Path
import pyarrow as pa
from latecomer.config.sinks import IcebergSink
from latecomer.sink import RowShape, open_sink
rows = pa.table({"batch": [0]})
shape = RowShape("late", "totals.late", ("batch",), rows.schema)
open_sink(IcebergSink(table="shop.minute_totals", catalog="house"), Path(), "upi", shape).apply(0, rows)
"""


def test_a_catalog_of_pyicebergs_own_configuration_needs_no_properties(lake: Path) -> None:
    (lake / ".pyiceberg.yaml").write_text(
        yaml.safe_dump({"catalog": {"house": {**catalog_at(lake)["properties"], "warehouse": "/nowhere"}}})
    )
    variables = {"PYICEBERG_HOME": str(lake), "PYICEBERG_CATALOG__HOUSE__WAREHOUSE": str(lake)}
    command = [sys.executable, "-c", CONFIGURED]
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    (lake / ".pyiceberg.yaml").write_text("{catalog: house")
    broken = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=False)
    assert b"SinkError: iceberg sink house.shop.minute_totals: pyiceberg refused (" in broken.stderr
    with closing(load_catalog("house", **catalog_at(lake)["properties"])) as catalog:
        assert catalog.load_table(NAME).scan().to_arrow().num_rows == 1


def test_secrets_are_read_from_references_and_hidden_in_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKE_URI", "sqlite:////nowhere/hunter2/catalog.db")
    properties = {"type": "sql", "uri": "${env:LAKE_URI}", "warehouse": str(tmp_path)}
    sink = IcebergSink(table=NAME, catalog="lake", properties=properties)
    assert "hunter2" not in repr(sink)
    with pytest.raises(SinkOutage, match="cannot be reached") as caught:
        open_sink(sink, tmp_path, "upi", SHAPE)
    assert "hunter2" not in str(caught.value)
    monkeypatch.delenv("LAKE_URI")
    with pytest.raises(SinkError, match="the environment has no such variable; set LAKE_URI"):
        open_sink(sink, tmp_path, "upi", SHAPE)


def test_without_the_package_the_error_says_what_to_install(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    assert "it needs the package pyiceberg; install it: pip install 'latecomer[iceberg]'" in refused_opening(
        lake
    )
