"""The signals: silent through a quiet month, firing on an incident; in words of our own, and by Prometheus itself."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from latecomer.observe.alerts import ALERTS, DURING_BACKFILL, RecordedWeeks, SignalState, judge
from latecomer.observe.documents import rules
from latecomer.observe.history import (
    DAY,
    HOUR,
    MINUTE,
    STEP,
    PipelineHistory,
    Sums,
    WatermarkStep,
    average_lag,
)
from latecomer.observe.inventory import METRICS, full_name
from programs_kit import promtool

NOW = 20_000 * DAY + 12 * HOUR
EVENTS = 6_000
"""Events in five minutes."""


def month(
    share: Callable[[int], float] = lambda _: 0.005,
    corrections: Callable[[int], float] = lambda _: 0.004,
    lag: Callable[[int], int] = lambda _: 30,
    budget: int | None = 60_000_000,
) -> RecordedWeeks:
    """Four weeks, with some noise; each part by how long ago it was, in steps of five minutes."""
    drawn, history, steps = random.Random(7), PipelineHistory(), []
    for ago in range(28 * 288, -1, -1):
        at = NOW - ago * STEP
        noise = drawn.uniform(0.7, 1.3)
        aside, late = int(EVENTS * share(ago) * noise), int(EVENTS * corrections(ago) * noise)
        history.add("totals", at, Sums(EVENTS, aside, late))
        if ago < 30:
            steps.append(WatermarkStep(at, at - lag(ago) * 1_000_000))
    # A batch every twenty seconds: between two steps the clock goes on by no more.
    steps = [
        WatermarkStep(step.at + part * 20_000_000, step.watermark + part * 20_000_000)
        for step in steps
        if step.watermark is not None
        for part in range(15)
        if step.at + part * 20_000_000 <= NOW
    ]
    return RecordedWeeks(["totals"], budget, history, steps)


def states(recorded: RecordedWeeks, now: int = NOW) -> dict[str, SignalState]:
    return {each.alert.name: each.state for each in judge(recorded, now)}


QUIET = {alert.name: SignalState.OK for alert in ALERTS}


def test_a_quiet_month_is_silent_at_any_time_of_it() -> None:
    recorded = month()
    assert states(recorded) == QUIET
    for ago in range(0, 20 * 288, 673):
        found = states(recorded, NOW - ago * STEP)
        assert SignalState.FIRING not in found.values(), ago
        assert found["side_output_spike"] is SignalState.OK
        assert found["side_output_sustained"] is SignalState.OK


def test_lag_over_its_budget_for_two_intervals_fires() -> None:
    assert states(month(lag=lambda ago: 50 if ago > 4 else 300))["lag"] is SignalState.FIRING
    assert states(month(lag=lambda ago: 30 if ago > 1 else 300))["lag"] is SignalState.PENDING
    assert states(month(lag=lambda ago: 300 if 1 < ago < 9 else 30))["lag"] is SignalState.OK, "it is over"
    assert states(month(lag=lambda _: 300, budget=None))["lag"] is SignalState.OFF


def test_a_source_that_stands_still_fires() -> None:
    recorded = month()
    assert states(recorded, NOW + 20 * MINUTE)["lag"] is SignalState.FIRING, (
        "no batch since, and the clock goes on"
    )


def test_a_drained_store_has_no_lag() -> None:
    recorded = month()
    recorded.steps = [*recorded.steps, WatermarkStep(NOW, None)]
    assert states(recorded, NOW + HOUR)["lag"] is SignalState.UNKNOWN


def test_a_spike_of_side_output_fires() -> None:
    found = states(month(share=lambda ago: 0.005 if ago > 5 else 0.08))
    assert found["side_output_spike"] is SignalState.FIRING
    assert states(month(share=lambda ago: 0.005 if ago > 5 else 0.03))["side_output_spike"] is SignalState.OK


def test_a_spike_is_measured_by_what_is_usual() -> None:
    assert (
        states(month(share=lambda ago: 0.0 if ago > 5 else 0.02))["side_output_spike"] is SignalState.FIRING
    )
    assert states(month(share=lambda ago: 0.0 if ago > 5 else 0.005))["side_output_spike"] is SignalState.OK


def test_a_young_store_has_no_usual() -> None:
    recorded = month()
    recorded.history = PipelineHistory()
    recorded.history.add("totals", NOW, Sums(1000, 900))
    assert states(recorded)["side_output_spike"] is SignalState.UNKNOWN


def test_few_events_say_nothing_about_a_share() -> None:
    recorded = month()
    recorded.history.add("totals", NOW + HOUR, Sums(10, 9))
    assert states(recorded, NOW + HOUR)["side_output_spike"] is SignalState.OK


def test_side_output_above_five_percent_for_long_fires() -> None:
    assert states(month(share=lambda ago: 0.04))["side_output_sustained"] is SignalState.OK
    assert (
        states(month(share=lambda ago: 0.09 if ago < 30 else 0.04))["side_output_sustained"]
        is SignalState.FIRING
    )
    assert (
        states(month(share=lambda ago: 0.5 if ago < 3 else 0.04))["side_output_sustained"]
        is SignalState.PENDING
    )


def test_a_pending_alert_says_its_limit_and_when_it_fires() -> None:
    found = judge(month(share=lambda ago: 0.5 if ago < 3 else 0.04), NOW)
    (reason,) = (each.reason for each in found if each.alert.name == "side_output_sustained")
    assert reason.endswith(" %, limit 5.00 %; fires if it lasts 30m")


def test_corrections_that_drift_fire_and_one_bad_day_does_not() -> None:
    def drifting(ago: int) -> float:
        return 0.004 * (1 + (28 * 288 - ago) / (28 * 288))  # twice as many after four weeks

    assert states(month(corrections=drifting))["corrections_drift"] is SignalState.FIRING
    rebuilt = month(corrections=lambda ago: 0.2 if 288 <= ago < 2 * 288 else 0.004)
    assert states(rebuilt)["corrections_drift"] is SignalState.OK
    falling = month(corrections=lambda ago: 0.004 * (1 + ago / (28 * 288)))
    assert states(falling)["corrections_drift"] is SignalState.OK


def test_rebuilt_rows_count_as_corrections() -> None:
    recorded = month(corrections=lambda _: 0.0)
    for day in range(28):
        recorded.history.add("totals", NOW - (27 - day) * DAY, Sums(rebuilt=5_000 + 400 * day))
    assert states(recorded)["corrections_drift"] is SignalState.FIRING


def test_a_ledger_that_does_not_balance_fires() -> None:
    recorded = month()
    recorded.differences = {("totals", "paise"): Decimal(-3)}
    assert states(recorded)["ledger"] is SignalState.FIRING


def test_a_spike_while_a_backfill_works_is_shown_as_that() -> None:
    recorded = month(share=lambda ago: 0.005 if ago > 5 else 0.08, lag=lambda ago: 30 if ago > 4 else 300)
    recorded.backfills = [(NOW - 10 * MINUTE, "rebuild")]
    found = states(recorded)
    assert (found["lag"], found["side_output_spike"]) == (SignalState.BACKFILL, SignalState.BACKFILL)
    recorded.backfills = [(NOW - 3 * HOUR, "rebuild")]
    assert states(recorded)["lag"] is SignalState.FIRING, "that one is long over"
    recorded.working = ["history"]
    assert states(recorded)["lag"] is SignalState.BACKFILL


def test_the_average_of_a_lag_that_grows() -> None:
    steps = [WatermarkStep(0, 0)]
    assert average_lag(steps, 0, 100) == 50
    assert average_lag(steps, 100, 200) == 150
    assert average_lag([], 0, 100) is None


# What Prometheus makes of it


def test_the_rules_name_only_metrics_that_there_are() -> None:
    known = {full_name(metric) for metric in METRICS}
    named = set(re.findall(r"latecomer_\w+", rules()))
    assert named <= known, named - known
    labels = {label for metric in METRICS for label in metric.all_labels}
    grouped = {
        label.strip() for found in re.findall(r"(?:by|on) \(([^)]*)\)", rules()) for label in found.split(",")
    }
    assert grouped <= labels


def test_there_is_a_rule_for_every_alert() -> None:
    (group,) = yaml.safe_load(rules())["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [*(alert.rule for alert in ALERTS), DURING_BACKFILL]
    for alert, rule in zip(ALERTS, group["rules"], strict=False):
        assert rule["labels"]["severity"] == alert.severity.value


LAG = '{pipeline="shop", instance="a", job="latecomer"}'
OUTPUT = '{pipeline="shop", output="totals", instance="a", job="latecomer"}'
ASIDE = '{pipeline="shop", output="totals", fate="side_output", instance="a", job="latecomer"}'


def incident(**changed: str) -> list[dict[str, str]]:
    """Series by the minute: an hour and a half of quiet unless something is changed."""
    quiet = {
        f"latecomer_watermark_lag_seconds{LAG}": "30x240",
        f"latecomer_watermark_lag_budget_seconds{LAG}": "60x240",
        f"latecomer_received_total{OUTPUT}": "0+1000x240",
        f"latecomer_events_total{ASIDE}": "0+5x240",
        f"latecomer_side_output_baseline_ratio{OUTPUT}": "0.005x240",
        f"latecomer_corrections_growth_ratio{OUTPUT}": "0.1x240",
        'latecomer_ledger_difference{pipeline="shop", output="totals", unit="events"}': "0x240",
        'latecomer_backfill_under_way{pipeline="shop", kind="rebuild", instance="a", job="latecomer"}': "0x240",
    }
    for name, values in changed.items():
        (series,) = [each for each in quiet if each.startswith(f"latecomer_{name}{{")]
        quiet[series] = values
    return [{"series": series, "values": values} for series, values in quiet.items()]


FIRES: dict[str, tuple[dict[str, str], Sequence[str]]] = {
    "quiet": ({}, []),
    "lag": ({"watermark_lag_seconds": "30x100 300x140"}, ["LatecomerWatermarkLag"]),
    "short lag": ({"watermark_lag_seconds": "30x115 300x5 30x120"}, []),
    "spike": (
        {"events_total": "0+5x90 450+120x150"},
        ["LatecomerSideOutputSpike", "LatecomerSideOutputSustained"],
    ),
    "sustained": (
        {"events_total": "0+5x30 150+60x210", "side_output_baseline_ratio": "0.04x240"},
        ["LatecomerSideOutputSustained"],
    ),
    "drift": ({"corrections_growth_ratio": "0.1x30 0.8x210"}, ["LatecomerCorrectionsDrift"]),
    "ledger": ({"ledger_difference": "0x100 1x140"}, ["LatecomerLedgerUnbalanced"]),
    "backfill": (
        {
            "watermark_lag_seconds": "30x90 3000x150",
            "events_total": "0+5x90 450+200x150",
            "backfill_under_way": "0x90 1x150",
        },
        [DURING_BACKFILL],
    ),
}


@pytest.mark.parametrize("what", FIRES)
def test_prometheus_fires_as_it_should(what: str, tmp_path: Path) -> None:
    changed, expected = FIRES[what]
    (tmp_path / "rules.yaml").write_text(rules(), encoding="utf-8")
    names = [*(alert.rule for alert in ALERTS), DURING_BACKFILL]
    test: dict[str, Any] = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": incident(**changed),
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}} > 0) or vector(0)',
                        "eval_time": "180m",
                        "exp_samples": [
                            {
                                "labels": "{}",
                                "value": 0 if name not in expected else EXPECTED.get((what, name), 1),
                            }
                        ],
                    }
                    for name in names
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test), encoding="utf-8")
    said = subprocess.run(
        [promtool().path, "test", "rules", "test.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr


EXPECTED = {("backfill", DURING_BACKFILL): 2}
"""The lag is one series, and the share of an output another."""


@pytest.mark.parametrize("days", [3, pytest.param(28, marks=pytest.mark.long)])
def test_quiet_weeks_are_silent_in_prometheus(tmp_path: Path, days: int) -> None:
    drawn, steps = random.Random(11), days * 288
    received = [EVENTS * nth for nth in range(steps)]
    aside = [0]
    for _ in range(steps - 1):
        aside.append(aside[-1] + int(EVENTS * 0.005 * drawn.uniform(0.3, 2.5)))
    noisy = {
        "watermark_lag_seconds": [drawn.choice([20, 30, 45, 55, 90]) for _ in range(steps)],
        "watermark_lag_budget_seconds": [90] * steps,
        "received_total": received,
        "events_total": aside,
        "side_output_baseline_ratio": [0.005] * steps,
        "corrections_growth_ratio": [drawn.uniform(-0.3, 0.4) for _ in range(steps)],
        "ledger_difference": [0] * steps,
        "backfill_under_way": [0] * steps,
    }
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "5m",
        "tests": [
            {
                "interval": "5m",
                "input_series": incident(**{name: " ".join(map(str, each)) for name, each in noisy.items()}),
                "promql_expr_test": [
                    {
                        "expr": 'count(count_over_time(ALERTS{alertstate="firing"}[28d])) or vector(0)',
                        "eval_time": f"{days}d",
                        "exp_samples": [{"labels": "{}", "value": 0}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "rules.yaml").write_text(rules(), encoding="utf-8")
    (tmp_path / "test.yaml").write_text(json.dumps(test), encoding="utf-8")
    said = subprocess.run(
        [promtool().path, "test", "rules", "test.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules(), encoding="utf-8")
    said = subprocess.run(
        [promtool().path, "check", "rules", "rules.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
