"""Outputs over time: filters, keys, outputs that come later, rules that change, tables tampered with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.without_data import drain_input
from latecomer.errors import StoreMismatch
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.panes import surviving
from latecomer.model.strategies import Bounded
from scenarios import cut
from spark_kit import Bench, as_lines, assert_same, stored_entries, stored_panes

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND
PAYLOAD = {"key": "string", "paise": "bigint", "ok": "boolean"}
BASE: dict[str, Any] = {"window": {"tumbling": "1m"}, "aggregates": {"paise": "sum(paise)", "n": "count(*)"}}
ALWAYS = Output(**BASE, by=["key"], allowed_lateness="90s", late="update")
FILTERED = Output(**BASE, by=["key"], where="ok and paise > 3", allowed_lateness="90s", late="retract")
WHOLE = Output(**BASE, allowed_lateness="30s", late="side_output")


def arrivals() -> list[Arrival]:
    """Six minutes: on time, late and too late; sent twice; dead; keys and flags with nulls."""
    found = []
    for nth in range(180):
        seen = BEGIN + nth * 2 * SECOND
        behind = (0, 1, 0, 75, 0, 240, 2)[nth % 7] * SECOND
        payload = {
            "key": ("amul", "bata", None)[nth % 3],
            "paise": None if nth % 29 == 28 else nth % 11,
            "ok": (True, None, False, True)[nth % 4],
        }
        again = 1 if nth % 13 == 12 else 0
        found.append(
            Arrival(seen - behind, seen, f"part{nth % 2}", payload, event_id=nth - again, dead=nth % 31 == 30)
        )
    return found


def bench_of(spark: SparkSession, folder: Path, **outputs: Output) -> Bench:
    return Bench(spark, folder, Bounded("5s"), outputs, PAYLOAD)


def passes(payload: Mapping[str, Any]) -> bool | None:
    """`ok and paise > 3` by SQL's rules: unknown unless one side is false."""
    ok, more = payload["ok"], None if payload["paise"] is None else payload["paise"] > 3
    if ok is False or more is False:
        return False
    return None if ok is None or more is None else True


BATCHES = cut(arrivals(), [60, 50])


@pytest.fixture(scope="module")
def from_the_start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """All three outputs, there from the first batch."""
    folder = tmp_path_factory.mktemp("from_the_start")
    bench = bench_of(spark, folder, always=ALWAYS, filtered=FILTERED, whole=WHOLE)
    bench.run(BATCHES, drain=True)
    return bench


@pytest.mark.long
def test_filters_null_keys_and_no_keys_are_as_the_oracle_says(from_the_start: Bench) -> None:
    bench = from_the_start
    store = bench.engine().store
    outcome = bench.oracle(BATCHES, drain=True, filtered=passes)
    assert_same(bench, store, outcome, BATCHES)
    filtered = {
        output: sum(
            entry.fates["filtered"]
            for entry in stored_entries(store)
            if entry.output == output and entry.unit == "events"
        )
        for output in bench.outputs
    }
    assert filtered["always"] == filtered["whole"] == 0 < filtered["filtered"]
    unknown = sum(passes(each.payload) is None for batch in BATCHES for each in batch)
    assert unknown > 10
    assert {pane.key for _, pane in stored_panes(store, "whole")} == {()}
    assert (None,) in {pane.key for _, pane in stored_panes(store, "always")}
    assert check_ledger(bench.pipeline, bench.spark) == []


def _late(bench: Bench, output: str) -> list[str]:
    table = bench.engine().store.output_tables(output, None).late
    wanted = "window_start, window_end, watermark, verdict, event_id, event_time, origin, position"
    return sorted(map(repr, table.query(f"select {wanted} from t").to_pylist())) if table.exists else []


def test_an_output_that_comes_later_is_computed_from_the_log(
    spark: SparkSession, tmp_path: Path, from_the_start: Bench
) -> None:
    before = bench_of(spark, tmp_path, always=ALWAYS)
    engine = before.engine()
    for number, batch in enumerate(BATCHES[:2]):
        engine.data(number, before.write(number, batch))
    engine.sinks.close()

    joined = bench_of(spark, tmp_path, always=ALWAYS, filtered=FILTERED, whole=WHOLE)
    engine = joined.engine()
    engine.data(2, joined.write(2, BATCHES[2]))
    drain_input(engine)
    engine.sinks.close()

    here, there = joined.engine().store, from_the_start.engine().store
    assert as_lines(stored_entries(here)) == as_lines(stored_entries(there))
    for output in joined.outputs:
        standing = [
            {
                place: dict(pane.values)
                for place, pane in surviving(pane for _, pane in stored_panes(store, output)).items()
            }
            for store in (here, there)
        ]
        assert standing[0] == standing[1], output
        assert _late(joined, output) == _late(from_the_start, output), output
    assert _late(joined, "whole")
    assert check_ledger(joined.pipeline, spark) == []

    with pytest.raises(StoreMismatch, match="was left out of the pipeline"):
        _left_out_for_a_batch(joined)


def _left_out_for_a_batch(bench: Bench) -> None:
    without = bench_of(bench.spark, bench.folder, always=ALWAYS, whole=WHOLE)
    engine = without.engine()
    engine.data(3, without.write(3, BATCHES[2][:5]))
    engine.sinks.close()
    bench.engine()


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("window", {"window": {"tumbling": "2m"}}),
        ("by", {"by": []}),
        ("where", {"where": "ok"}),
        ("aggregates", {"aggregates": {"paise": "max(paise)", "n": "count(*)"}}),
    ],
)
def test_a_changed_definition_is_refused(from_the_start: Bench, field: str, change: dict[str, Any]) -> None:
    changed = Output.model_validate({**FILTERED.model_dump(), **change})
    outputs = {**from_the_start.outputs, "filtered": changed}
    bench = bench_of(from_the_start.spark, from_the_start.folder, **outputs)
    with pytest.raises(StoreMismatch, match=f"output filtered was computed with (an)?other {field}"):
        bench.engine()


@pytest.mark.long
def test_a_changed_policy_holds_from_the_next_batch_and_the_ledger_still_checks(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules: list[dict[str, Any]] = [
        {"late": "update", "allowed_lateness": "20s"},
        {"late": "drop", "allowed_lateness": "0s"},
        {"late": "retract", "allowed_lateness": "10m", "too_late": "drop"},
    ]
    for number, (rule, batch) in enumerate(zip(rules, BATCHES, strict=True)):
        bench = bench_of(spark, tmp_path, totals=Output(**BASE, by=["key"], **rule))
        engine = bench.engine()
        engine.data(number, bench.write(number, batch))
        engine.sinks.close()
    assert check_ledger(bench.pipeline, spark) == []
    events = [entry for entry in stored_entries(bench.engine().store) if entry.unit == "events"]
    events.sort(key=lambda entry: entry.batch)
    had = [{fate.value for fate, amount in entry.fates.items() if amount} for entry in events]
    assert "late_accepted" in had[0]
    assert "side_output" in had[0]
    assert "dropped" not in had[0]
    assert "dropped" in had[1]
    assert not had[1] & {"late_accepted", "side_output"}
    assert "late_accepted" in had[2]
    assert "dropped" not in had[2]


@pytest.mark.long
def test_a_last_pane_is_the_last_until_the_policy_changes(spark: SparkSession, tmp_path: Path) -> None:
    minute = Arrival(BEGIN, BEGIN, "", {"key": "amul", "paise": 5})
    closing = Arrival(BEGIN + 300 * SECOND, BEGIN + 300 * SECOND, "", {"key": "bata"})
    late = Arrival(BEGIN + SECOND, BEGIN + 301 * SECOND, "", {"key": "amul", "paise": 2})
    for number, (lateness, batch) in enumerate((("0s", [minute, closing]), ("10m", [late]))):
        rules: dict[str, Any] = {"by": ["key"], "late": "update", "allowed_lateness": lateness}
        outputs = {
            "minutes": Output(**BASE, **rules),
            "visits": Output(**{**BASE, "window": {"session": "1m"}}, **rules),
        }
        bench = Bench(spark, tmp_path, Bounded("5s", every="event"), outputs, PAYLOAD, ids=False)
        engine = bench.engine()
        engine.data(number, bench.write(number, batch))
        engine.sinks.close()
    for name, taken_back in (("minutes", []), ("visits", [(5, "retract", False)])):
        panes = [pane for _, pane in stored_panes(engine.store, name) if pane.key == ("amul",)]
        outcome = [(pane.values["paise"], pane.op.value, pane.is_last) for pane in panes]
        assert outcome == [(5, "insert", True), *taken_back, (7, "insert", False)], name


TAMPERED = {
    "ledger": (
        "ledger",
        "unit = 'paise' and output = 'always' and batch = 1",
        "always",
        "output always, paise",
    ),
    "late": ("outputs/whole/late", "batch = 1", "whole", "the side output 0"),
    "panes": ("outputs/always/panes", "key = 'amul'", "always", "its panes and open windows hold"),
    "events": ("events", "event_id = '5'", "whole", "the log and the timeline"),
    "duplicates": ("duplicates", "batch = 0", "whole", "duplicate"),
    "dead_letters": ("dead_letters", "batch = 0", "whole", "dead_letter"),
}
"""What is deleted of which table, and what the check of which output says then."""


@pytest.mark.parametrize("table", TAMPERED)
def test_what_is_deleted_from_a_table_shows(from_the_start: Bench, tmp_path: Path, table: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(from_the_start.folder, folder)
    path, predicate, output, said = TAMPERED[table]
    gone = DeltaTable(str(folder / "store" / path)).delete(predicate)
    assert gone["num_deleted_rows"] > 0
    bench = bench_of(from_the_start.spark, folder, **{output: from_the_start.outputs[output]})
    differences = check_ledger(bench.pipeline, bench.spark)
    assert any(said in difference for difference in differences), differences
