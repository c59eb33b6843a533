"""Questions to a table that does not exist, which are answered without making it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from latecomer.store.delta.table import Table
from latecomer.store.files import Location

SCHEMA = pa.schema([("batch", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def made(tmp_path: Path) -> Table:
    table = Table(Location(tmp_path / "made"), SCHEMA)
    table.append(0, pa.table({"batch": [0, 0], "n": [1, 2]}))
    return table


@pytest.fixture
def absent(tmp_path: Path) -> Table:
    return Table(Location(tmp_path / "absent"), SCHEMA)


def test_rows_of_an_absent_table_are_none(absent: Table) -> None:
    assert absent.query_rows("select max(n) as n from t") == []
    assert not absent.exists


def test_rows_joined_with_an_absent_table_are_none(made: Table, absent: Table) -> None:
    joined = "select t.n from t join o on t.batch = o.batch order by 1"
    assert made.query_rows(joined, o=absent) == absent.query_rows(joined, o=made) == []
    assert not absent.exists
    assert made.query_rows(joined, o=made) == [{"n": n} for n in (1, 1, 2, 2)]


def test_a_result_has_its_schema_with_and_without_the_table(made: Table, absent: Table) -> None:
    schema, sql = pa.schema([("n", pa.int32())]), "select sum(n) as n from t"
    assert made.query_as(schema, sql) == pa.table({"n": [3]}, schema)
    assert absent.query_as(schema, sql) == schema.empty_table()
    assert not absent.exists


def test_parts_are_the_rows_that_are_wanted(made: Table, absent: Table) -> None:
    parts = made.parts(pa.schema([SCHEMA.field("n")]), 1, pc.field("n") > 1)
    assert [part.to_pydict() for part in parts] == [{"n": [2]}]
    assert not list(absent.parts(SCHEMA, 1))
