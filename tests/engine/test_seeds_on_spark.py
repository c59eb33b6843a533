"""The seeds' own examples, on the Spark path, held to their figures and to the oracle."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.model.ledger import EVENTS
from latecomer.model.panes import Timing, surviving
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import Fate
from scenarios import MINUTE, clock, cut, morning_checkouts, scrambled_units, seven_clicks, upi_payments
from spark_kit import Bench, assert_same, stored_entries, stored_panes

PRINTED = {
    0: ("65.84%", 6832, "0.87"),
    2: ("75.39%", 4923, "2.90"),
    5: ("85.00%", 2999, "5.79"),
    10: ("93.47%", 1307, "10.87"),
    20: ("99.48%", 105, "20.87"),
    40: ("100.00%", 0, "40.87"),
}


@pytest.mark.long
@pytest.mark.parametrize("delays", [[10], pytest.param([0, 2, 5, 20, 40], marks=pytest.mark.long)])
def test_the_sweep_of_delays_gives_the_printed_table(
    spark: SparkSession, tmp_path: Path, delays: list[int]
) -> None:
    """The oracle gives all of it in tests/model/test_seeds.py."""
    arrivals = scrambled_units()
    counting = {"counts": Output(window={"tumbling": "10s"}, aggregates={"rows": "count(*)"}, late="drop")}
    measured = {}
    for delay in delays:
        strategy = Bounded(f"{delay}s", every="event")
        bench = Bench(spark, tmp_path / str(delay), strategy, counting, {}, measures=(), ids=False)
        store = bench.run(cut(arrivals, [9_000]))
        fates = {entry.unit: entry for entry in _summed(stored_entries(store))}[EVENTS].fates
        fired = store.output_tables("counts", None).panes.query(
            "select avg(extract(epoch from watermark) - extract(epoch from window_end)) as lag from t"
        )
        latency = fired.column("lag")[0].as_py() + delay
        admitted = float(fates[Fate.ON_TIME]) / len(arrivals)
        measured[delay] = (f"{admitted:.2%}", int(fates[Fate.DROPPED]), f"{latency:.2f}")
    assert measured == {delay: PRINTED[delay] for delay in delays}


@pytest.mark.long
def test_every_paisa_shows_up_under_each_policy(spark: SparkSession, tmp_path: Path) -> None:
    shared = {"window": {"tumbling": "1m"}, "aggregates": {"paise": "sum(paise)"}, "allowed_lateness": "5m"}
    outputs = {
        "drop": Output(**shared, late="drop"),
        "update": Output(**shared, late="update", too_late="drop"),
        "side_output": Output(**shared, late="side_output"),
        "retract": Output(**shared, late="retract", too_late="side_output"),
    }
    payments = upi_payments()
    batches = cut(payments, [200, 150, 100])
    bench = Bench(
        spark, tmp_path, Bounded("30s", every="event"), outputs, {"paise": "bigint", "txn_id": "string"}
    )
    store = bench.run(batches, drain=True)
    assert_same(bench, store, bench.oracle(batches, drain=True), batches)

    everything = sum(payment.payload["paise"] for payment in payments)
    lost = {}
    for entry in _summed(stored_entries(store)):
        if entry.unit == "paise":
            published = surviving(pane for _, pane in stored_panes(store, entry.output))
            main = sum(pane.values["paise"] for pane in published.values())
            aside = entry.fates[Fate.SIDE_OUTPUT] + entry.fates[Fate.DROPPED]
            assert main + aside == everything
            lost[entry.output] = aside
    assert lost["drop"] == lost["side_output"] > lost["update"] == lost["retract"] > 0


def test_seven_clicks_judged_at_the_window_and_at_the_source(spark: SparkSession, tmp_path: Path) -> None:
    clicks = seven_clicks()
    outputs = {"clicks": Output(window={"tumbling": "5m"}, aggregates={"clicks": "count(*)"})}
    bench = Bench(
        spark,
        tmp_path,
        Bounded("60s", every="event", max_future="off"),
        outputs,
        {"user": "string"},
        (),
        False,
    )
    store = bench.run([clicks])
    assert_same(bench, store, bench.oracle([clicks]), [clicks])

    (pane,) = [pane for _, pane in stored_panes(store, "clicks") if pane.window_start == clock("14:00:00")]
    assert pane.values == {"clicks": 4}
    aside = store.output_tables("clicks", None).late.query('select "user" as who from t')
    assert aside.column("who").to_pylist() == ["u7"]
    watermarks = {nth: watermark for (_, nth, _), (_, watermark) in bench.judgements(store, "clicks").items()}
    late_at_source = [
        click.payload["user"] for nth, click in enumerate(clicks) if click.event_time < watermarks[nth]
    ]
    assert late_at_source == ["u5", "u7"]


@pytest.mark.long
def test_a_checkout_half_an_hour_late_refires_and_two_hours_late_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    outputs = {
        late: Output(
            window={"tumbling": "5m"},
            by=["user"],
            aggregates={"amount": "sum(amount)"},
            allowed_lateness="60m",
            late=late,
        )
        for late in ("update", "retract")
    }
    arrivals = morning_checkouts()
    batches = [
        [each for each in arrivals if start <= each.arrival_time < start + 20 * MINUTE]
        for start in range(clock("09:00:00"), clock("11:40:00"), 20 * MINUTE)
    ]
    bench = Bench(
        spark,
        tmp_path,
        Bounded("60s", every="1s"),
        outputs,
        {"user": "string", "amount": "bigint"},
        ("amount",),
    )
    store = bench.run(batches)
    assert_same(bench, store, bench.oracle(batches), batches)

    window = clock("09:00:00")
    for late, taken_back in {"update": [], "retract": [(0, 300)]}.items():
        ann = [
            pane
            for _, pane in stored_panes(store, late)
            if (pane.window_start, pane.key) == (window, ("ann",))
        ]
        inserted = [
            (pane.timing, pane.sequence, pane.values["amount"]) for pane in ann if pane.op == "insert"
        ]
        assert inserted == [(Timing.ON_TIME, 0, 300), (Timing.LATE, 1, 350)]
        assert [(pane.sequence, pane.values["amount"]) for pane in ann if pane.op == "retract"] == taken_back
        beyond = store.output_tables(late, None).late.query("select event_id, verdict from t")
        assert beyond.to_pylist() == [{"event_id": "E4", "verdict": "too_late"}]


def _summed(entries: list) -> list:
    from latecomer.model.ledger import Entry

    totals: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        before = totals.get((entry.output, entry.unit))
        totals[entry.output, entry.unit] = Entry(
            0,
            entry.output,
            entry.unit,
            entry.received + (before.received if before else Decimal(0)),
            {fate: amount + (before.fates[fate] if before else 0) for fate, amount in entry.fates.items()},
        )
    return list(totals.values())
