"""The flights example: a year with two clock changes, in three formats, held against Polars and the ledger."""

from __future__ import annotations

import shlex
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
import yaml
from pyspark.sql import SparkSession

from cli.cli_kit import Cli, calling
from examples.flights_kit import assert_exact, counted, read_files, standing
from examples.script_kit import loaded
from latecomer import load_pipeline
from latecomer.after.reading.reader import Reader
from latecomer.engine.ledger.check import check_ledger
from source.source_kit import run_once

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
FORMATS = {"json": ("flights.yaml", "data"), "csv": ("flights-csv.yaml", "data-csv")}
FORMATS["parquet"] = ("flights-parquet.yaml", "data-parquet")


def generator() -> ModuleType:
    """The example's own program; it is a script beside its files and no package."""
    return loaded("flights_generate", EXAMPLE / "generate.py")


@pytest.fixture(scope="module")
def made() -> list[Any]:
    """A thin year, and enough flights on the two days of a clock change to fill their nights."""
    module = generator()
    more = module.flights(1_000, seed=4, days=[date(2013, 3, 10), date(2013, 11, 3)])
    return sorted([*module.flights(3_600), *more], key=module.in_order)


def example_in(folder: Path, form: str, flights: list[Any], files_a_batch: int) -> tuple[Path, Path]:
    """A copy of the example with its data; its pipeline file, and the folder of the data."""
    name, data = FORMATS[form]
    generator().write(flights, folder / data, form)
    text = (EXAMPLE / name).read_text(encoding="utf-8")
    said = "max_files_per_batch: 1}"
    assert said in text
    (folder / name).write_text(
        text.replace(said, f"max_files_per_batch: {files_a_batch}}}"), encoding="utf-8"
    )
    return folder / name, folder / data


@pytest.mark.parametrize(
    ("form", "files_a_batch"),
    [("json", 20), *(pytest.param(form, 20, marks=pytest.mark.long) for form in ("csv", "parquet"))],
)
def test_every_number_of_the_year_is_what_polars_counts(
    spark: SparkSession,
    tmp_path: Path,
    made: list[Any],
    form: str,
    files_a_batch: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, data = example_in(tmp_path, form, made, files_a_batch)
    pipeline, flights = load_pipeline(file), read_files(data, form)
    run_once(pipeline, spark, drain=True)
    aside = assert_exact(pipeline, flights)
    reader = Reader(pipeline)
    totals = reader.ledger_totals().to_pylist()
    for row in [row for row in totals if row["unit"] == "events"]:
        assert row["received"] == flights.height
        assert row["side_output"] == aside[row["output"]]
        assert row["late_accepted"] > 0
        assert row["on_time"] + row["late_accepted"] + row["side_output"] == flights.height
    assert {row["received"] for row in totals if row["unit"] == "distance"} == {flights["distance"].sum()}
    assert reader.dead_letters().num_rows == 0
    both_changes(reader, flights)
    if form == "json":
        assert check_ledger(pipeline, spark) == []
        monkeypatch.chdir(tmp_path)
        walk_through(calling(capsys), flights)


def both_changes(reader: Reader, flights: pl.DataFrame) -> None:
    """The windows of the two days on which the clock changes begin as on every other day."""
    rows = {(row["window_start"], row["window_end"]) for row in reader.results("six_hours").to_pylist()}
    hours = {(end - start).total_seconds() / 3600 for start, end in rows}
    assert hours == {5, 6, 7}
    assert set(standing(reader, "six_hours")["hour"]) == {0, 6, 12, 18}
    spring = datetime(2013, 3, 10, 5, tzinfo=UTC), datetime(2013, 3, 10, 10, tzinfo=UTC)
    autumn = datetime(2013, 11, 3, 4, tzinfo=UTC), datetime(2013, 11, 3, 11, tzinfo=UTC)
    assert rows >= {spring, autumn}
    days = counted(flights)["days"]
    assert {date(2013, 3, 10), date(2013, 11, 3)} <= set(days["day"])


def walk_through(cli: Cli, flights: pl.DataFrame) -> None:
    """Every command of README.md that reads the store works as it is written there."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert pl.read_csv("polars.csv")["flights"].sum() == flights.height
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ latecomer ")]
    reading = [each for each in commands if not {"run", "ledger"} & set(each.split())]
    assert len(reading) >= 6
    for command in reading:
        said = cli(*shlex.split(command)[1:])
        # Polars knows nothing of lateness: reconcile finds the side output, and can explain it.
        assert said.status == 0, f"{command}: {said.err}"
        assert said.out.strip()


@pytest.mark.long
def test_the_whole_year_is_exact(spark: SparkSession, tmp_path: Path) -> None:
    module = generator()
    file, data = example_in(tmp_path, "json", module.flights(module.ROWS), 1)
    pipeline, flights = load_pipeline(file), read_files(data, "json")
    assert flights.height == 336_776
    run_once(pipeline, spark, drain=True)
    assert min(assert_exact(pipeline, flights).values()) > 0
    assert check_ledger(pipeline, spark) == []


def test_the_generator_makes_the_shape_of_the_data_set(made: list[Any]) -> None:
    module = generator()
    assert module.flights(500) == module.flights(500)
    assert len(made) == 4_600
    assert [each.reported for each in made] == sorted(each.reported for each in made)
    cancelled = sum(each.dep_delay is None for each in made) / len(made)
    assert 0.015 < cancelled < 0.035
    assert {each.origin for each in made} == {"EWR", "JFK", "LGA"}
    assert len({each.carrier for each in made}) >= 14
    delays = sorted(each.dep_delay for each in made if each.dep_delay is not None)
    assert -5 <= delays[len(delays) // 2] <= 0
    assert delays[-1] > 600


def test_the_pipelines_of_the_three_formats_differ_in_their_source_alone() -> None:
    written = {
        form: yaml.safe_load((EXAMPLE / name).read_text(encoding="utf-8"))
        for form, (name, _) in FORMATS.items()
    }
    for each in written.values():
        del each["source"], each["store"]
    assert written["json"] == written["csv"] == written["parquet"]
