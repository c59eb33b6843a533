"""The data source in Spark sessions of many kinds: filters, settings, SQL, and what is said of mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import latecomer
from after.dataframes.dataframes_kit import loaded, make_lake, publish, read_by, same_rows
from cli.cli_kit import Lake, at, pane
from latecomer import PipelineError
from latecomer.after.dataframes.tables import Table
from latecomer.errors import NoStore

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose settings are its own."""
    own = spark.newSession()
    yield own
    SparkSession._instantiatedSession = spark
    assert spark._jvm is not None
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


@pytest.mark.long
def test_each_session_is_told_once(spark: SparkSession, session: SparkSession, lake: Lake) -> None:
    """While another one that knows the format is active, Spark itself refuses."""
    active = SparkSession.getActiveSession()
    for each in (spark, session, session):
        latecomer.register(each)
        assert latecomer.results(each, lake.file, "minutes").columns[2:4] == ["merchant", "paise"]
    assert SparkSession.getActiveSession() == active


def far_apart(lake: Lake) -> None:
    """A batch of windows far from all others, whose files alone are left."""
    publish(lake, 3, *(pane(minute, 0, merchant="a", paise=1) for minute in range(100, 110)))
    panes = lake.tables("minutes").panes
    for file in panes.files():
        if file.minimum["window_start"] < at(50):
            Path(panes.location(file)).unlink()


def test_with_filters_pushed_down_other_files_are_not_read(session: SparkSession, lake: Lake) -> None:
    far_apart(lake)
    session.conf.set(PUSHDOWN, "true")
    rows = loaded(session, lake, output="minutes").where("window_start > timestamp'2026-04-25 13:00:00Z'")
    assert rows.where("merchant = 'a' and paise = 1").count() == 10
    assert rows.where("merchant = 'b'").count() == 0


def test_with_filters_not_pushed_down_the_rows_are_the_same(session: SparkSession, lake: Lake) -> None:
    found = {}
    for setting in ("true", "false"):
        session.conf.set(PUSHDOWN, setting)
        rows = loaded(session, lake, output="minutes")
        kept = rows.where("merchant in ('a', 'c') and window_end <= timestamp'2026-04-25 12:02:00Z'")
        found[setting] = sorted(map(str, kept.collect()))
    assert found["true"] == found["false"]
    assert len(found["true"]) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.session.timeZone": "America/St_Johns", "spark.sql.ansi.enabled": "false"},
        pytest.param(
            {"spark.sql.caseSensitive": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.ansi.enabled": "true"},
            marks=pytest.mark.long,
        ),
    ],
    ids=["zone", "case", "large"],
)
def test_settings_of_a_session_change_no_value(
    session: SparkSession, lake: Lake, settings: dict[str, str]
) -> None:
    publish(lake, 3, pane(0, 0, **{"Order No": "1", "ok": True, "select": 1, "Group": 0.5}), output="odd")
    for name, value in settings.items():
        session.conf.set(name, value)
    before = session.sql("set").collect()
    for output in ("minutes", "odd"):
        same_rows(loaded(session, lake, output=output).toArrow(), read_by(lake, Table.RESULTS, output))
    same_rows(loaded(session, lake, output="minutes", table="late").toArrow(), read_by(lake, Table.LATE))
    assert session.sql("set").collect() == before
    assert session.catalog.listTables() == []
    odd = loaded(session, lake, output="odd").where("`Order No` = '1' and ok").select("`select`", "Group")
    assert [tuple(row) for row in odd.collect()] == [(1, 0.5)]


def test_a_view_in_sql(session: SparkSession, lake: Lake) -> None:
    latecomer.register(session)
    written = f"using latecomer options (pipeline '{lake.file}', output 'minutes')"
    session.sql(f"create or replace temporary view minutes {written}")
    found = session.sql(
        "select merchant, paise from minutes where window_start = timestamp'2026-04-25 12:00:00Z'"
    )
    assert sorted(map(tuple, found.collect())) == [("a", 9), ("b", 1)]
    publish(lake, 3, pane(0, 2, timing="LATE", merchant="a", paise=10))
    session.sql(
        f"create or replace temporary view minutes {written}"
    )  # a view is of the moment when it is first read
    assert session.sql("select sum(paise) from minutes where merchant = 'a'").collect()[0][0] == 15
    with pytest.raises(ParseException):
        session.sql(f"create view minutes_for_all {written}")
    with pytest.raises(AnalysisException, match="there is no such option"):
        session.sql(f"create table minutes_table {written}")


def test_results_are_the_same_without_the_format(session: SparkSession, lake: Lake) -> None:
    for pipeline in (lake.file, str(lake.file), lake.pipeline):
        same_rows(latecomer.results(session, pipeline, "minutes").toArrow(), read_by(lake, Table.RESULTS))
    same_rows(
        latecomer.results(session, lake.file, "minutes", table="panes").toArrow(), read_by(lake, Table.PANES)
    )
    published = datetime(2026, 4, 25, 12, 1, 30)
    known = latecomer.results(session, lake.file, "minutes", as_of=published).where("merchant = 'a'")
    assert sorted(row.paise for row in known.collect()) == [1, 2, 3]
    ledger = latecomer.results(session, lake.file, table="ledger")
    assert [row.received for row in ledger.collect()] == [7]


MISTAKES = [
    (
        {"output": "minuts"},
        "option output: pipeline upi has no such output (value: 'minuts')",
        "did you mean minutes?",
    ),
    ({}, "option output: is missing", "name an output, one of minutes, added, odd"),
    ({"output": "minutes", "table": "pane"}, "option table: there is no such table (value: 'pane')", "panes"),
    ({"output": "minutes", "as_of": "noon"}, "option as_of: is not a moment (value: 'noon')", "ISO-8601"),
    (
        {"output": "minutes", "table": "late", "as_of": "2026-04-25"},
        "option as_of: table late is known only",
        "panes",
    ),
    (
        {"output": "minutes", "table": "ledger"},
        "option output: there is one ledger for all outputs",
        "leave it out",
    ),
    (
        {"output": "minutes", "as_of": "2026-04-25", "as_of_arrival": "2026-04-25"},
        "option as_of: goes by another clock than as_of_arrival",
        "one of the two",
    ),
]


@pytest.mark.parametrize(("options", "message", "fix"), MISTAKES, ids=[message for _, message, _ in MISTAKES])
def test_a_wrong_option_is_named_with_its_value_and_a_fix(
    spark: SparkSession, lake: Lake, options: dict[str, str], message: str, fix: str
) -> None:
    with pytest.raises(PipelineError) as outcome:
        latecomer.results(spark, lake.file, **options)  # type: ignore[arg-type]
    first, second, *_ = str(outcome.value).splitlines()
    assert message in first
    assert fix in second


def test_spark_puts_few_words_around_it(session: SparkSession, lake: Lake) -> None:
    options, message, fix = (
        {"output": "minutes", "tabel": "late"},
        "option tabel: there is no such",
        "did you mean table?",
    )
    with pytest.raises(AnalysisException) as outcome:
        loaded(session, lake, **options)
    lines = str(outcome.value).splitlines()
    nth = next(nth for nth, line in enumerate(lines) if message in line)
    assert nth <= 4, lines  # Spark's own sentence, and one place in the source, come before it
    assert fix in lines[nth + 1]


def test_a_pipeline_that_is_not_there_or_has_not_run(session: SparkSession, tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    latecomer.register(session)
    with pytest.raises(AnalysisException, match="option pipeline: is missing"):
        session.read.format("latecomer").load()
    with pytest.raises(AnalysisException, match=r"gone\.yaml"):
        session.read.format("latecomer").options(pipeline=str(tmp_path / "gone.yaml")).load()
    (lake.pipeline.store_path / "pipeline.json").unlink()
    with pytest.raises(AnalysisException, match="run the pipeline first"):
        loaded(session, lake, output="minutes")
    with pytest.raises(NoStore, match="run the pipeline first"):
        latecomer.results(session, lake.file, "minutes")


def test_columns_of_somebody_else_are_refused(session: SparkSession, lake: Lake) -> None:
    latecomer.register(session)
    asked = (
        session.read.format("latecomer")
        .schema("paise int")
        .options(pipeline=str(lake.file), output="minutes")
    )
    with pytest.raises(AnalysisException, match="schema: is not that of the table"):
        asked.load().count()


def test_a_file_that_is_gone_is_named(session: SparkSession, lake: Lake) -> None:
    rows = loaded(session, lake, output="minutes")
    for file in lake.tables("minutes").panes.files():
        Path(lake.tables("minutes").panes.location(file)).unlink()
    with pytest.raises(Exception, match="panes cannot be used") as outcome:
        rows.count()
    assert "restore it from a copy" in str(outcome.value)
