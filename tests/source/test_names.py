"""Whatever a source calls its columns: they work, or `validate` refuses them and says what to do.

One pipeline carries every odd name at once through everything there is: payload, keys, aggregates, measures,
predicate and envelope, into the log, panes, side output, dead letters and every sink, and on to corrections,
reconciliation, rebuild and replay.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from pyspark.sql import SparkSession

from latecomer.after.explain.explain import explain
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.after.replay.replaying import replay
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import serving
from latecomer.config.checks import check
from latecomer.config.column_checks import check_columns, check_renames
from latecomer.config.columns import clashing_names
from latecomer.config.models import Pipeline
from latecomer.config.names import RESERVED, UNSTORABLE
from latecomer.config.renames import parse_column, seen_columns, written_column
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.upkeep.compacting import compact
from latecomer.errors import StoreMismatch
from latecomer.store import layout
from latecomer.store.layout import EventLayout
from latecomer.store.sql import double_quoted, quoted
from source.source_kit import dead_letters, ledger_lines, pipeline_in, run_once, write_json

AT = "2026-11-08T14:00:00Z"
OWN = [
    *layout.ENVELOPE,
    *layout.DEAD_LETTERS.names,
    *layout.WATERMARKS.names,
    *layout.LEDGER.names,
    *RESERVED,
    "verdict",
]
"""Every name that a table of the store has for a column of its own."""
ODD = [
    *dict.fromkeys(OWN),
    *("net amount", " ", "a,b", "a;b", "a{b}", "a(b)", "a=b", "tab\tname", "line\nname", " lead", "trail "),
    *(
        "a.b",
        "a.b.c",
        "it's",
        'say"x"',
        "back`tick",
        "``",
        "a\\b",
        "a/b",
        "100%",
        "%41",
        "[x]",
        "$",
        "?",
        "*",
    ),
    *(
        "select",
        "from",
        "GROUP",
        "null",
        "true",
        "1",
        "-1",
        "not",
        "interval",
        "t",
        "key",
        "value",
        "lane",
        "nth",
    ),
    *("_metadata", "_corrupt_record", "metadata", "payload_batch", "payload_net_amount", "payload_verdict"),
    *("Naïve", "名前", "😀", "ß", "long" * 75),
]
MEASURES = ["a.b", "it's", 'say"x"', "back`tick", "?"]


def _kept(name: str) -> bool:
    return not UNSTORABLE.search(name) and name not in RESERVED


SUMMED = {f"s{nth}": name for nth, name in enumerate(ODD, 1) if not _kept(name) or name in MEASURES}
"""Aggregates over all that cannot be keys, and some that can."""


def odd_rows(times: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Rows in which each odd column holds its own number."""
    numbers = {name: nth for nth, name in enumerate(ODD, 1)}
    return [
        {"event time": at, "seen.at": seen, "the id's": f"e{at}", "who=where": "here", **numbers}
        for at, seen in times
    ]


def odd_pipeline(folder: Path) -> Pipeline:
    everything = {name: {"function": "sum", "column": column} for name, column in SUMMED.items()}
    kept = f"greatest({', '.join(map(quoted, ODD))}) = {len(ODD)} and {quoted('net amount')} > 0"
    output = {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}
    summed = {**output, "aggregates": {"n": "count(*)", **everything}}
    pipeline = pipeline_in(
        folder,
        files={"order_by": "seen.at", "max_files_per_batch": 1},
        event={"time": "event time", "id": "the id's", "partition": "who=where"},
        ledger=MEASURES,
        outputs={
            "whole": {**summed, "where": kept, "sinks": [{"sqlite": "whole.db"}, {"jsonl": "whole"}]},
            "keyed": {
                **output,
                "by": list(filter(_kept, ODD)),
                "late": "retract",
                "allowed_lateness": "1m",
                "sinks": [{"delta": "keyed"}, {"parquet": "changes"}],
            },
        },
    )
    assert check(pipeline) == []
    return pipeline


@pytest.mark.long
def test_any_name_works_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    def at(minute: int, second: int = 0) -> str:
        return f"2026-11-08T14:{minute:02d}:{second:02d}Z"

    pipeline = odd_pipeline(tmp_path)
    write_json(tmp_path, "a.json", odd_rows([(at(0), at(0)), (at(0, 1), at(0, 1)), (at(2), at(2))]))
    late = [(at(0, 2), at(2, 2)), (at(4), at(4)), (at(0, 3), at(4, 1))]
    dead = {**odd_rows([("?", at(4, 2))])[0]}
    write_json(tmp_path, "b.json", [*odd_rows(late), dead], 1)
    store = run_once(pipeline, spark, drain=True)

    numbers = {name: ODD.index(column) + 1 for name, column in SUMMED.items()}
    first = min(numbers, key=lambda name: numbers[name])
    stored = ", ".join(double_quoted(store.layout.view[name]) for name in ODD)
    logged = store.events.query(f"select {stored} from t").to_pylist()
    assert [list(row.values()) for row in logged] == [list(range(1, len(ODD) + 1))] * 6
    assert json.loads(dead_letters(store)[0][1])["net amount"] == ODD.index("net amount") + 1

    reader = Reader(pipeline)
    whole = reader.results("whole").to_pylist()
    assert [row["n"] for row in whole] == [2, 1, 1]
    assert all(row[name] == row["n"] * number for row in whole for name, number in numbers.items())
    keyed = reader.results("keyed").to_pylist()
    assert [row["n"] for row in keyed] == [3, 1, 1]
    assert all(row[name] == ODD.index(name) + 1 for row in keyed for name in filter(_kept, ODD))
    missed = reader.late("whole").to_pylist()
    assert len(missed) == 2
    assert set(missed[0].values()) >= set(range(2, len(ODD)))

    for measure in MEASURES:
        line = ledger_lines(store, "whole")[1, measure]
        number = ODD.index(measure) + 1
        assert (line["received"], line["dead_letter"]) == (4 * number, number)
    assert check_ledger(pipeline, spark) == []

    with sqlite3.connect(tmp_path / "whole.db") as database:
        found = database.execute(f"select sum(n), sum({first}) from whole").fetchone()
        assert found == (4, 4 * numbers[first])
    texts = [each.read_text(encoding="utf-8") for each in (tmp_path / "whole").glob("*.jsonl")]
    assert sum(json.loads(line)["n"] for text in texts for line in text.splitlines()) == 4
    upserted = DeltaTable(str(tmp_path / "keyed")).to_pyarrow_table().to_pylist()
    assert sorted(row["it's"] for row in upserted) == [ODD.index("it's") + 1] * 3
    changes = pq.read_table(tmp_path / "changes").to_pylist()
    assert {row["op"] for row in changes} == {"insert", "retract"}

    assert correct(reader, "whole").to_pylist()[0][first] == 2 * numbers[first]
    assert [row["n"] for row in serving(reader, "whole").to_pylist()] == [4, 1, 1]
    moment = datetime(2026, 11, 8, 14, 0, tzinfo=UTC)
    assert explain(reader, "keyed", moment).reconciled
    assert reconcile(pipeline, "keyed", Against("log"), spark=spark).explained
    compact(pipeline)
    assert replay(pipeline, outputs=["keyed"], spark=spark).equal
    rebuilding.apply(pipeline, "whole", spark=spark)
    assert [row["n"] for row in reader.results("whole").to_pylist()] == [4, 1, 1]


def test_columns_are_renamed_on_the_way_in(spark: SparkSession, tmp_path: Path) -> None:
    row = {"event at": AT, "net amount": 5, "fare": 7, "FARE": 8, "batch": "b1", "_metadata": 9}
    write_json(tmp_path, "a.json", [row, {**row, "event at": "?"}])
    renames = {"at": "`event at`", "net": "`net amount`", "Fare_2": "FARE", "lot": "batch", "batch": "batch"}
    keyed = {"window": {"tumbling": "1m"}, "by": ["lot"], "where": "net = 5 and batch = lot"}
    pipeline = pipeline_in(
        tmp_path,
        columns=renames,
        ledger=["net"],
        outputs={"totals": {**keyed, "aggregates": {"net": "sum(net)", "high": "max(Fare_2)"}}},
    )
    store = run_once(pipeline, spark, drain=True)
    assert store.columns == {
        "at": "string",
        "net": "bigint",
        "fare": "bigint",
        "Fare_2": "bigint",
        "lot": "string",
        "batch": "string",
        "_metadata": "bigint",
    }
    [result] = Reader(pipeline).results("totals").to_pylist()
    assert (result["lot"], result["net"], result["high"]) == ("b1", 5, 8)
    logged = store.events.query(
        'select net, fare, "Fare_2", lot, payload_batch, _metadata from t'
    ).to_pylist()
    assert [list(each.values()) for each in logged] == [[5, 7, 8, "b1", "b1", 9]]
    assert json.loads(dead_letters(store)[0][1]) == {**row, "event at": "?"}
    assert ledger_lines(store, "totals")[0, "net"] == {"received": 10, "on_time": 5, "dead_letter": 5}
    changed = {**pipeline.columns, "net": parse_column("fare"), "fare": parse_column("`net amount`")}
    other = pipeline.model_copy(update={"columns": changed})
    with pytest.raises(StoreMismatch, match="other columns"):
        run_once(other, spark)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6) | st.sampled_from(ODD)


@given(st.lists(NAMES, unique=True, max_size=12))
@example(["batch", "payload_batch", "payload_batch_", "BATCH "])
@example(["net amount", "net,amount", "payload_net_amount"])
@example(["watermark", "payload_watermark", "Verdict"])
def test_names_are_stored_apart_or_refused(names: list[str]) -> None:
    columns = {**dict.fromkeys(names, "bigint"), "at": "string"}
    pipeline = pipeline_in(Path("/nowhere"), made=False)
    refused = check_columns(pipeline, columns)
    assert all(problem.fix for problem in refused)
    if refused:
        assert clashing_names(columns) or any(name.lower().startswith("_lc_") for name in names)
        return
    layouts = EventLayout(pipeline, columns)
    for schema in (layouts.schema, layouts.late_schema):
        assert clashing_names(schema.names) == []
        assert len(set(schema.names)) == len(schema.names)
        assert not any(UNSTORABLE.search(name) or name.startswith("_lc_") for name in schema.names)
    assert set(layouts.view) == set(columns)


@given(NAMES)
def test_a_column_is_read_back_as_it_is_written(name: str) -> None:
    assert parse_column(written_column(name)).name == name


def problems(pipeline: Pipeline, columns: dict[str, str]) -> list[tuple[str, str, str | None]]:
    found = check(pipeline) or check_renames(pipeline, columns)
    found = found or check_columns(pipeline, seen_columns(columns, pipeline.columns))
    return [(each.field, each.message, each.fix) for each in found]


def test_what_cannot_be_used_is_refused_with_the_way_to_rename_it() -> None:
    found = {"at": "string", "net amount": "bigint", "batch": "bigint", "Net": "bigint", "net": "bigint"}
    twins = problems(pipeline_in(Path("/nowhere"), made=False), found)
    fix = 'rename it on the way in: columns: {net_: "net"}'
    assert twins == [("source.schema", "columns differ only in case", fix)]
    del found["Net"]
    keyed = {"n": {"window": {"tumbling": "1m"}, "by": ["net amount"], "aggregates": {"n": "count(*)"}}}
    fix = 'rename it on the way in: columns: {net_amount: "`net amount`"}'
    unstorable = "a table cannot have a column of this name"
    assert problems(pipeline_in(Path("/nowhere"), made=False, outputs=keyed), found) == [
        ("outputs.n.by.0", unstorable, fix)
    ]
    measured = pipeline_in(Path("/nowhere"), made=False, ledger=["net amount"])
    assert problems(measured, found) == [("ledger.0", unstorable, fix)]
    keyed["n"]["by"] = ["batch"]
    ((field, reason, fix),) = problems(pipeline_in(Path("/nowhere"), made=False, outputs=keyed), found)
    assert (field, reason) == ("outputs.n.by.0", "clashes with a column of every pane")
    assert 'rename it on the way in: columns: {batch_: "batch"}; every pane has window_start, ' in fix


def test_mistakes_in_columns_are_told_with_a_fix() -> None:
    found = {"at": "string", "net amount": "bigint", "fare": "bigint"}

    def told(**columns: str) -> list[tuple[str, str, str | None]]:
        return problems(pipeline_in(Path("/nowhere"), made=False, columns=columns), found)

    assert told(net="`net amount`") == []
    assert told(net="`net amount`", **{"net amount": "`net amount`"}) == []
    assert told(net="`nett amount`") == [
        ("columns.net", "the source has no such column", "did you mean net amount?")
    ]
    [(field, message, _)] = told(fare="`net amount`")
    assert (field, message) == ("columns.fare", "the source has a column of this name")
    assert told(fare="`net amount`", net="fare") == []
    assert told(a="fare", b="fare") == [
        ("columns.b", "is another name for what a names already", "keep one of a and b")
    ]
    assert told(a="fare", A="`net amount`")[0][:2] == ("columns.A", "columns differ only in case")
    assert told(_lc_a="fare")[0][:2] == ("columns._lc_a", "is not a usable name")
    with pytest.raises(ValidationError, match='in backticks where it is no plain word: "`net amount`"'):
        told(a="net amount")
