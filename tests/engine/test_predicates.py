"""`where` is checked by Spark before anything is stored: what it means, and that it means it always."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import latecomer
from examples_kit import drawn
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import PipelineError, StoreMismatch
from latecomer.model.predicates import FUNCTIONS, check_where
from latecomer.model.windows import Calendar
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.spark.predicates import check_predicates
from latecomer.spark.session import no_rows, own_session
from latecomer.store.pins import write_pins
from latecomer.store.sql import quoted
from latecomer.store.store import Store, open_store

WAVERING = {
    "literal": "at < timestamp'now'",
    "literal date": 'date(at) >= DATE "Yesterday"',
    "cast": "at < cast('now' as timestamp)",
    "call": "at < to_timestamp('today')",
    "the present": "paise < unix_timestamp()",
}
"""What only Spark can tell; the rest is refused by name (tests/model/test_where.py)."""
STEADY = [
    "note = 'now'",
    "note = 'today' and paise > 3",
    "at >= timestamp'2026-11-08T14:00:00Z' and date_trunc('hour', at) <> at",
    "paise % 10 < 5 or hash(note) > 0 or note rlike '^a'",
]


def pipeline_with(folder: Path, **wheres: str) -> Pipeline:
    (folder / "in").mkdir()
    output: dict[str, Any] = {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}
    return Pipeline.model_validate(
        {
            "name": "asked",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in"},
                "schema": {"at": "timestamp", "paise": "bigint", "note": "string"},
            },
            "event": {"time": "at"},
            "watermark": {"delay": "10s"},
            "outputs": {name: {**output, "where": where} for name, where in wheres.items()},
        }
    )


@pytest.mark.parametrize("where", WAVERING.values(), ids=WAVERING.keys())
def test_a_predicate_that_may_say_otherwise_when_asked_again_is_refused(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        run(pipeline_with(tmp_path, asked=where), once=True, spark=spark)
    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("outputs.asked.where", where)
    assert problem.message == "may say otherwise of the same event when it is asked again"
    assert problem.fix == "write an SQL condition over at, paise, note alone"
    assert not (tmp_path / "store" / "pipeline.json").exists()


def test_a_predicate_over_the_columns_alone_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    wheres = {f"o{nth}": where for nth, where in enumerate(STEADY)}
    run(pipeline_with(tmp_path, **wheres), once=True, spark=spark)


FAILING = {
    "division": "100 / paise > 1",
    "division twice": "100 / paise + 100 / paise > 1",
    "text that is no number": "note > 5",
    "cast": "cast(note as bigint) > 5 or paise = 50",
    "overflow": "paise + 9223372036854775800 > 0 or paise = 50",
}
"""Conditions of which Spark cannot say what some event has: the event with 50 paise passes those that can."""


def test_an_event_for_which_a_condition_fails_is_a_dead_letter_and_stops_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = {what.replace(" ", "_"): where for what, where in FAILING.items()}
    pipeline = pipeline_with(tmp_path, **names)
    sessions = {"session": "1m"}
    asked = {
        **pipeline.model_dump(mode="json", by_alias=True, exclude={"profile"}),
        "base": tmp_path,
        "watermark": {"strategy": "punctuated", "where": "100 / paise > 1"},
    }
    asked["outputs"]["visits"] = {**asked["outputs"]["division"], "window": sessions}
    asked["outputs"]["sliding"] = {
        **asked["outputs"]["division_twice"],
        "window": {"sliding": "2m", "every": "1m"},
    }
    rows = [(0, "abc"), (50, "9"), (9223372036854775807, "12")]
    lines = [
        json.dumps({"at": f"2026-11-08T14:00:0{nth}Z", "paise": paise, "note": note})
        for nth, (paise, note) in enumerate(rows)
    ]
    (tmp_path / "in" / "a.json").write_text("\n".join(lines))
    pipeline = Pipeline.model_validate(asked)
    run(pipeline, drain=True, spark=spark)
    store = open_store(pipeline)
    kept = store.ledger.query(
        "select output, sum(on_time) as n, sum(failed) as failed from t where unit = 'events' group by output"
    )
    assert {row["output"]: (int(row["n"]), int(row["failed"])) for row in kept.to_pylist()} == {
        "division": (1, 1),
        "division_twice": (1, 1),
        "text_that_is_no_number": (2, 1),
        "cast": (2, 1),
        "overflow": (1, 2),
        "visits": (1, 1),
        "sliding": (1, 1),
    }
    letters = latecomer.Reader(pipeline).dead_letters_by("output").to_pylist()
    assert {row["output"]: row["dead_letters"] for row in letters} == {
        **dict.fromkeys(pipeline.outputs, 1),
        "overflow": 2,
    }
    assert check_ledger(pipeline, spark) == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("paise + 1", "is not a predicate: it yields bigint"),
        ("amount > 1", "the source has no column amount"),
        ("paise > > 1", "Spark cannot use this predicate"),
        ("upper(note) = 'OK' and", "Spark cannot use this predicate: .* Syntax error at its end"),
    ],
)
def test_what_is_no_predicate_is_refused(spark: SparkSession, tmp_path: Path, where: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        run(pipeline_with(tmp_path, asked=where), once=True, spark=spark)


def test_a_mistake_that_only_spark_sees_has_the_line_of_the_file(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, asked="upper(note) = 'OK' and")
    file = tmp_path / "pipeline.yaml"
    written = pipeline.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"profile"})
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    nth = [line.strip().startswith("where:") for line in file.read_text().splitlines()].index(True) + 1
    with pytest.raises(PipelineError, match=f"{file}:{nth}: outputs.asked.where: Spark cannot use"):
        run(load_pipeline(file), once=True, spark=spark, file=file)


def test_a_column_with_an_umlaut_needs_no_backticks(spark: SparkSession, tmp_path: Path) -> None:
    wheres = {"simple": "größe > 1", "by_spark": "größe % 2 = 0 and upper(note) = 'B'"}
    asked = pipeline_with(tmp_path, **wheres).model_dump(mode="json", by_alias=True, exclude={"profile"})
    asked["source"]["schema"] = {"at": "string", "größe": "bigint", "note": "string"}
    asked["columns"] = {"doppelt": "größe * 2"}
    asked["outputs"]["simple"]["aggregates"] = {"summe": "sum(doppelt)"}
    lines = [
        json.dumps({"at": "2026-11-08T14:00:00Z", "größe": size, "note": note})
        for size, note in zip(range(4), "abbb", strict=True)
    ]
    (tmp_path / "in" / "a.json").write_text("\n".join(lines))
    pipeline = Pipeline.model_validate({**asked, "base": tmp_path})
    run(pipeline, drain=True, spark=spark)
    reader = latecomer.Reader(pipeline)
    assert [row["summe"] for row in reader.results("simple").to_pylist()] == [10]
    assert [row["n"] for row in reader.results("by_spark").to_pylist()] == [1]


def test_a_zone_that_this_java_does_not_know_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Java's list of zones may be older than Python's."""
    pipeline = pipeline_with(tmp_path, one="paise > 1")
    days = Calendar("day").model_copy(update={"zone": "America/Unheard_Of"})
    output = pipeline.outputs["one"].model_copy(update={"window": days})
    with pytest.raises(PipelineError) as refused:
        run(pipeline.model_copy(update={"outputs": {"one": output}}), once=True, spark=spark)
    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("outputs.one.window.zone", "America/Unheard_Of")
    assert "does not know this time zone" in problem.message
    assert not (tmp_path / "store" / "pipeline.json").exists()


def test_what_a_store_has_written_down_is_checked_too(spark: SparkSession, tmp_path: Path) -> None:
    """`ledger --check` asks the `where` of each batch, not only the one in the file."""
    pipeline = pipeline_with(tmp_path, asked="paise > 1")
    store = Store(pipeline, {"at": "string", "paise": "bigint", "note": "string"})
    pins = store.pins()
    definition = {**pins["outputs"]["asked"], "where": "paise < unix_timestamp()"}
    pins["policies"]["asked"][0]["definition"] = definition
    write_pins(store.root, pins)
    with pytest.raises(StoreMismatch, match="may say otherwise of the same event"):
        check_predicates(spark, store)


def test_every_listed_function_is_one_of_spark_and_a_function_of_its_values_alone(
    spark: SparkSession,
) -> None:
    known = {row.function for row in spark.sql("show system functions").collect()}
    grammar = {"cast", "try_cast", "extract", "position", "overlay", "timestampadd", "timestampdiff", "trim"}
    assert FUNCTIONS - known - grammar == set()
    jvm: Any = spark._jvm
    registry = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    functions: Any = spark._jsparkSession.sessionState().functionRegistry()
    groups = {
        name: functions.lookupFunction(registry(name)).get().getGroup() for name in sorted(FUNCTIONS & known)
    }
    allowed = {
        "array_funcs", "bitwise_funcs", "collection_funcs", "conditional_funcs", "conversion_funcs", "datetime_funcs",
        "hash_funcs", "json_funcs", "map_funcs", "math_funcs", "misc_funcs", "predicate_funcs",
        "string_funcs", "url_funcs", "",
    }  # fmt: skip
    assert set(groups.values()) <= allowed
    assert [name for name, group in groups.items() if group == "misc_funcs"] == ["typeof"]


SIGNS = [
    *"'\"`\\ ()[],;:.$!?{}\n\r1a",
    "r'",
    'R"',
    "--",
    "/*",
    "*/",
    "\\\n",
    "''",
    "->",
    "=>",
    "::int",
    " = ",
]
WORDS = [
    "reflect(",
    "`reflect`(",
    "REFLECT (",
    "system.builtin.reflect(",
    "(select 1)",
    "exists(",
    "from a",
    "ſelect ",
]
VALUES = ["a", "paise", "1.", ".5", "1r'", "x'1F'", "$$", " and ", "lower("]
PARTS = st.sampled_from([*SIGNS, *WORDS, *VALUES])


@pytest.fixture(scope="module")
def parse(spark: SparkSession) -> Callable[[str], Any]:
    """Spark's parser, as latecomer sets it up."""
    parser: Any = own_session(spark)._jsparkSession.sessionState().sqlParser()
    return lambda text: parser.parseExpression(text)


@drawn(150)
@given(parts=st.lists(PARTS, min_size=1, max_size=9))
@example(parts=["'", "\\", "'", " = ", "reflect(", "'", ")", "'"])
@example(parts=["r'", "\\", "'", " = ", "reflect(", ")"])
@example(parts=["--", "\\\n", "'", "\n", "reflect(", ")", "'"])
def test_spark_finds_no_call_that_the_check_has_not_seen(
    parse: Callable[[str], Any], parts: list[str]
) -> None:
    where = "".join(parts)
    try:
        check_where(where)
    except ValueError:
        return
    try:
        parsed = parse(f"({where})")
    except SPARK_ERRORS:
        return
    found = _nodes(parsed)
    assert not {
        kind for kind in found if "Subquery" in kind or kind in ("Exists", "UnresolvedTableValuedFunction")
    }
    assert {*map(str.lower, found.get("UnresolvedFunction", ()))} <= FUNCTIONS | {"and", "or", "not"}


def _nodes(expression: Any) -> dict[str, list[str]]:
    """The kinds of nodes in an expression, each with the names that it has."""
    found: dict[str, list[str]] = {}
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        kind = node.getClass().getSimpleName()
        found.setdefault(kind, []).append(
            node.nameParts().mkString(".") if kind == "UnresolvedFunction" else ""
        )
        children = node.children()
        waiting += [children.apply(nth) for nth in range(children.size())]
    return found


def test_a_name_that_looks_like_a_variable_is_a_name(spark: SparkSession, tmp_path: Path) -> None:
    """Spark puts variables of the environment in wherever SQL is parsed, names in backticks included."""
    hostile = "${env:PATH}"
    frame = no_rows(own_session(spark), {hostile: "string"})
    assert frame.selectExpr(quoted(hostile)).columns == [hostile]
