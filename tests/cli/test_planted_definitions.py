"""A store may come from a stranger: what its pipeline.json and plans say is checked as a pipeline file is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.cli_kit import ON_SPARK, VERBS, Cli, Lake, words
from latecomer.store.definitions import definition_of

EVIL = "reflect('java.lang.System', 'exit', 1) is null"


def where_of_the_output(pins: dict[str, Any]) -> None:
    pins["outputs"]["minute_totals"]["where"] = EVIL


def where_of_a_period(pins: dict[str, Any]) -> None:
    definition = {**pins["outputs"]["minute_totals"], "where": EVIL}
    pins["policies"]["minute_totals"][0]["definition"] = definition


def where_with_a_variable(pins: dict[str, Any]) -> None:
    definition = {**pins["outputs"]["minute_totals"], "where": "merchant = '${env:HOME}'"}
    pins["policies"]["minute_totals"][0]["definition"] = definition


def where_over_other_columns(pins: dict[str, Any]) -> None:
    definition = {**pins["outputs"]["minute_totals"], "where": "current_user = merchant"}
    pins["policies"]["minute_totals"][0]["definition"] = definition


def aggregate(pins: dict[str, Any]) -> None:
    pins["outputs"]["minute_totals"]["aggregates"] = {"paise": f"sum({EVIL})"}


def type_of_a_column(pins: dict[str, Any]) -> None:
    pins["columns"]["paise"] = f"bigint) or {EVIL} or (true"


def number_of_a_batch(pins: dict[str, Any]) -> None:
    pins["policies"]["minute_totals"][0]["since"] = f"0 or {EVIL}"


PLANTED = [
    where_of_the_output,
    where_of_a_period,
    where_with_a_variable,
    where_over_other_columns,
    aggregate,
    type_of_a_column,
    number_of_a_batch,
]


SOON = (where_of_the_output, aggregate, number_of_a_batch)


@pytest.mark.parametrize(
    "plant",
    [pytest.param(each, marks=[pytest.mark.long] * (each not in SOON), id=each.__name__) for each in PLANTED],
)
def test_a_planted_definition_is_refused_by_every_verb_before_spark_starts(
    plant: Callable[[dict[str, Any]], None], filled: Lake, cli: Cli
) -> None:
    file = filled.store.root / "pipeline.json"
    pins = json.loads(file.read_text())
    plant(pins)
    file.write_text(json.dumps(pins))
    for name, verb in {**VERBS, **ON_SPARK}.items():
        said = cli(*words(filled, verb))
        text = said.out + said.err
        assert (said.status, "pipeline.json" in text, "restore" in text) == (1, True, True), (name, text)


def test_the_error_names_the_function_and_what_to_do(filled: Lake, cli: Cli) -> None:
    file = filled.store.root / "pipeline.json"
    pins = json.loads(file.read_text())
    where_of_a_period(pins)
    file.write_text(json.dumps(pins))
    said = cli("ledger", filled.file, "--check")
    assert "output minute_totals" in said.err
    assert "reflect may not be called in a where: it calls Java methods" in said.err
    assert "give the output a new name" in said.err


def test_under_another_name_the_output_can_be_computed_again(filled: Lake, cli: Cli) -> None:
    """The way out for a store of an earlier version whose `where` is not on the list."""
    file = filled.store.root / "pipeline.json"
    pins = json.loads(file.read_text())
    where_of_the_output(pins)
    file.write_text(json.dumps(pins))
    filled.file.write_text(filled.file.read_text().replace("minute_totals:", "minute_sums:"))
    said = cli("results", filled.file, "minute_sums")
    assert "output minute_sums has not been computed yet" in said.err
    assert cli("ledger", filled.file).status == 0


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("field", ["through", "low", "high", "since", "watermark"])
def test_a_planted_plan_is_refused(field: str, filled: Lake, cli: Cli) -> None:
    """The numbers of a plan stand in queries."""
    plan = filled.store.root / "outputs" / "minute_totals" / "rebuilds" / "0123456789ab"
    plan.mkdir(parents=True)
    numbers = dict.fromkeys(["since", "until", "through", "watermark", "low", "high"], 0)
    definition = definition_of(filled.pipeline.outputs["minute_totals"])
    rest = {"output": "minute_totals", "definition": definition, "taken_in": {}, "sums": {}, "largest": []}
    planted = {**numbers, **rest, field: "0 or 1 in (select 1)"}
    (plan / "record.json").write_text(json.dumps(planted))
    (plan / "batch").write_text("0")
    served = cli("results", filled.file, "minute_totals", "--serving")
    listed = cli("rebuild", "list", filled.file, "minute_totals")
    applied = cli("rebuild", "apply", filled.file, "minute_totals", "--plan", "0123456789ab")
    for said in (served, listed, applied):
        assert (said.status, "record.json cannot be read" in said.err) == (1, True), said
