"""Columns that a source declares after its first run: the log is widened, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import latecomer
from latecomer.config.all_columns import Columns
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import StoreMismatch
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store

SCHEMA = {"at": "string", "paise": "bigint"}
TOTALS = {"window": {"tumbling": "1m"}, "aggregates": {"total": "sum(paise)"}}


def pipeline_in(folder: Path, schema: dict[str, Any], **outputs: dict[str, Any]) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    return Pipeline.model_validate(
        {
            "name": "added",
            "store": "store",
            "base": folder,
            "source": {"files": {"path": "in"}, "schema": schema},
            "event": {"time": "at", "id": "at"},
            "watermark": {"delay": "1h"},
            "outputs": {"totals": TOTALS, **outputs},
        }
    )


def write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_column_that_is_declared_later_is_there_for_all_events(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", {"at": "2026-11-08T14:00:00Z", "paise": 1, "tower": "A", "fee": {"tax": 1}})
    first = pipeline_in(tmp_path, SCHEMA)
    run(first, once=True, spark=spark)
    reader = latecomer.Reader(first)

    by_tower = {
        "window": {"tumbling": "1m"},
        "by": ["tower"],
        "where": "tower is null or tower != 'C'",
        "aggregates": {"tax": "sum(fee.tax)", "n": "count(*)"},
    }
    wider = pipeline_in(tmp_path, {**SCHEMA, "tower": "string", "fee": {"tax": "bigint"}}, towers=by_tower)
    write(tmp_path, "b.json", {"at": "2026-11-08T14:00:01Z", "paise": 2, "tower": "B", "fee": {"tax": 7}})
    run(wider, drain=True, spark=spark)

    rows = latecomer.Reader(wider).results("towers").to_pylist()
    assert {(row["tower"], row["tax"], row["n"]) for row in rows} == {("A", 1, 1), ("B", 7, 1)}
    assert [row["total"] for row in latecomer.Reader(wider).results("totals").to_pylist()] == [3]
    assert [row["total"] for row in reader.results("totals").to_pylist()] == [3]
    assert check_ledger(wider, spark) == []
    assert latecomer.replay(wider, spark=spark).equal
    outcome = latecomer.explain(wider, "towers", "2026-11-08T14:00Z", {"tower": "B"})
    assert outcome.reconciled

    assert source_columns(pipeline_in(tmp_path, SCHEMA)).keys() == {*SCHEMA, "tower", "fee.tax"}
    with pytest.raises(StoreMismatch, match="differs from the columns pinned in the store: tower"):
        source_columns(pipeline_in(tmp_path, {**SCHEMA, "tower": "bigint"}))


@pytest.mark.parametrize(
    ("first", "later"), [("batch", "payload_batch"), ("first_arrival", "first_arrival_time")]
)
def test_a_new_name_must_not_be_one_that_the_store_uses(
    spark: SparkSession, tmp_path: Path, first: str, later: str
) -> None:
    write(tmp_path, "a.json", {"at": "2026-11-08T14:00:00Z", "paise": 1})
    run(pipeline_in(tmp_path, {**SCHEMA, first: "string"}), once=True, spark=spark)
    with pytest.raises(
        StoreMismatch, match=rf"has a new column \({later}\) with a name that the store uses for"
    ):
        source_columns(pipeline_in(tmp_path, {**SCHEMA, first: "string", later: "string"}))


def test_a_new_column_may_be_renamed_on_the_way_in(tmp_path: Path) -> None:
    """As the error of a name that is taken advises; what is read under a name stays what it is."""

    def store(schema: dict[str, Any], columns: dict[str, str]) -> Store:
        made = pipeline_in(tmp_path, schema)
        pipeline = Pipeline.model_validate({**dict(made), "columns": columns})
        return Store(pipeline, source_columns(pipeline))

    store({**SCHEMA, "first_arrival": "string"}, {}).pin()
    clashing = {**SCHEMA, "first_arrival": "string", "first_arrival_time": "string"}
    store(clashing, {"seen": "first_arrival_time"}).pin()
    clashing |= {"way": "string"}
    renamed = store(clashing, {"seen": "first_arrival_time", "route": "way"})
    renamed.pin()
    assert renamed.columns == {**SCHEMA, **dict.fromkeys(("first_arrival", "seen", "route"), "string")}
    for columns in (
        {"seen": "way", "route": "first_arrival_time"},
        {"seen": "first_arrival_time"},
        {"seen": "first_arrival_time", "route": "way", "money": "paise"},
    ):
        with pytest.raises(
            StoreMismatch, match=r"made with other columns .* restore it, or delete the store at"
        ):
            store(clashing, columns).pins()


def test_a_list_stays_the_text_that_a_store_has_it_as(tmp_path: Path) -> None:
    """Lists of JSON and of Avro were JSON text before they were columns of their own."""
    write(tmp_path, "a.json", {"at": "2026-11-08T14:00:00Z", "paise": 1, "tags": ["x"]})
    found = pipeline_in(tmp_path, SCHEMA)
    inferred = found.model_copy(update={"source": found.source.model_copy(update={"columns": None})})
    assert source_columns(inferred) == {**SCHEMA, "tags": "array<string>"}
    Store(inferred, {**SCHEMA, "tags": "string"}).pin()
    assert source_columns(inferred)["tags"] == "string"
    said = "tags is string there and array<string> here: a list or a map stays what it is; restore string"
    with pytest.raises(StoreMismatch, match=said):
        source_columns(pipeline_in(tmp_path, {**SCHEMA, "tags": "array<string>"}))

    fields = [
        {"name": "at", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    (tmp_path / "a.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    source = {"files": {"path": "in", "format": {"avro": {"schema_file": "a.avsc"}}}}
    avro = Pipeline.model_validate(
        {
            **found.model_dump(include={"name", "watermark", "event"}, exclude_unset=True),
            "base": tmp_path,
            "store": "avro",
            "source": source,
            "outputs": {"totals": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
        }
    )
    columns = source_columns(avro)
    assert columns == {"at": "string", "tags": "array<string>"}
    Store(avro, Columns({**columns, "tags": "string"}, schemas=columns.schemas)).pin()
    assert source_columns(avro)["tags"] == "string"
