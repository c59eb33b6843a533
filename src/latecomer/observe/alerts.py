"""The alerts: each signal as a rule for Prometheus, and as a function of what the store recorded.

Both have the same meaning, so `latecomer check` needs no metrics server and a metrics server needs no store. A
condition is evaluated every five minutes, and an alert fires once it has held for as long as `hold`. While a backfill
runs, it explains a spike, and nobody is alerted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from latecomer.errors import BUG
from latecomer.model.durations import shown_duration
from latecomer.model.written_values import in_percent
from latecomer.observe.history import HOUR, MINUTE, SECOND, STEP, PipelineHistory, WatermarkStep, average_lag

SPIKE = 10
"""Side output of so many times its baseline is a spike."""
LEAST_BASELINE = 0.001
"""A lower baseline counts as this one: a healthy pipeline sets aside 0.1 to 1 %."""
SUSTAINED = 0.05
"""If the share of side output stays above this, the allowed lateness is too short."""
LEAST_EVENTS = 10
"""A share means nothing if fewer events were set aside."""
GROWTH = 0.5
"""Corrections drift if they have grown by more than this in four weeks."""
QUARTER = 15 * MINUTE


class SignalState(StrEnum):
    """The state of a signal."""

    OK = "ok"
    PENDING = "pending"
    """The condition holds, but not for long enough yet."""
    FIRING = "firing"
    BACKFILL = "backfill"
    """The condition holds, and a backfill explains it."""
    UNKNOWN = "unknown"
    """Too little was recorded to decide."""
    OFF = "off"
    """The pipeline file sets no limit."""


class Severity(StrEnum):
    """How urgent an alert is."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


@dataclass
class RecordedWeeks:
    """A pipeline's last four weeks, as its store recorded them."""

    outputs: Sequence[str]
    budget: int | None
    history: PipelineHistory = field(default_factory=PipelineHistory)
    steps: Sequence[WatermarkStep] = ()
    backfills: Sequence[tuple[int, str]] = ()
    """When a batch of a backfill was published, and of which kind."""
    working: Sequence[str] = ()
    """The kinds of backfill that run now."""
    differences: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    """Lines of the ledger that do not balance."""


@dataclass(frozen=True)
class MeasuredFigure:
    """A figure at a moment, and its limit."""

    value: float
    limit: float
    enough: bool = True
    """Whether the figure is of enough events."""

    @property
    def is_over(self) -> bool:
        return self.enough and self.value > self.limit


Ask = Callable[[RecordedWeeks, str, int], MeasuredFigure | None]
"""Measures an output at a moment; None where too little was recorded."""


@dataclass(frozen=True)
class Alert:
    """One signal. `holds` is its condition in PromQL, `ask` the same condition on what was recorded."""

    name: str
    rule: str
    holds: str
    hold: int
    severity: Severity
    summary: str
    advice: str
    ask: Ask
    in_words: Callable[[float], str]
    of_outputs: bool = True
    spike: bool = True
    """Whether a backfill may explain it."""

    @property
    def expression(self) -> str:
        """The expression that Prometheus evaluates."""
        return f"({self.holds}) unless on (pipeline) {BACKFILL}" if self.spike else self.holds


BACKFILL = "(max by (pipeline) (max_over_time(latecomer_backfill_under_way[15m])) > 0)"


def _set_aside(window: str) -> str:
    return f'sum by (pipeline, output) (increase(latecomer_events_total{{fate="side_output"}}[{window}]))'


def _share(window: str) -> str:
    received = f"sum by (pipeline, output) (increase(latecomer_received_total[{window}]) > 0)"
    return f"{_set_aside(window)} / {received}"


def _lag(recorded: RecordedWeeks, _: str, at: int) -> MeasuredFigure | None:
    average = average_lag(recorded.steps, at - STEP, at)
    if average is None or recorded.budget is None:
        return None
    return MeasuredFigure(average / SECOND, recorded.budget / SECOND)


def _spike(recorded: RecordedWeeks, output: str, at: int) -> MeasuredFigure | None:
    sums, baseline = recorded.history.total(output, at - QUARTER, at), recorded.history.baseline(output, at)
    if sums.side_share is None or baseline is None:
        return None
    limit = SPIKE * max(baseline, LEAST_BASELINE)
    return MeasuredFigure(sums.side_share, limit, sums.side_output >= LEAST_EVENTS)


def _sustained(recorded: RecordedWeeks, output: str, at: int) -> MeasuredFigure | None:
    hour = recorded.history.total(output, at - HOUR, at)
    quarter = recorded.history.total(output, at - QUARTER, at)
    if hour.side_share is None or quarter.side_share is None:
        return None
    lower = min(hour.side_share, quarter.side_share)
    return MeasuredFigure(lower, SUSTAINED, quarter.side_output >= LEAST_EVENTS)


def _drift(recorded: RecordedWeeks, output: str, at: int) -> MeasuredFigure | None:
    growth = recorded.history.growth(output, at)
    return None if growth is None else MeasuredFigure(growth, GROWTH)


def _ledger(recorded: RecordedWeeks, output: str, _: int) -> MeasuredFigure | None:
    off = [abs(amount) for (name, _), amount in recorded.differences.items() if name == output]
    return MeasuredFigure(float(max(off, default=Decimal(0))), 0.0)


def _seconds(value: float) -> str:
    return shown_duration(round(value * SECOND))


def _percent(value: float) -> str:
    return in_percent(value, 2)


ALERTS = (
    Alert(
        "lag",
        "LatecomerWatermarkLag",
        "avg_over_time(latecomer_watermark_lag_seconds[5m]) > latecomer_watermark_lag_budget_seconds",
        2 * STEP,
        Severity.PAGE,
        "the watermark is behind the wall clock by more than its budget",
        "the source stands still, or brings more than the run can read: look at source_lag_seconds, "
        "source_unread_rows and partition_holds_watermark",
        _lag,
        _seconds,
        of_outputs=False,
    ),
    Alert(
        "side_output_spike",
        "LatecomerSideOutputSpike",
        f"{_share('15m')} > {SPIKE} * clamp_min(max by (pipeline, output) "
        f"(latecomer_side_output_baseline_ratio), {LEAST_BASELINE}) and {_set_aside('15m')} >= {LEAST_EVENTS}",
        STEP,
        Severity.PAGE,
        "ten times as many events as usual were set aside",
        "a sender delivers events that it had held back: the next rebuild will have more to do",
        _spike,
        _percent,
    ),
    Alert(
        "side_output_sustained",
        "LatecomerSideOutputSustained",
        f"{_share('1h')} > {SUSTAINED} and {_share('15m')} > {SUSTAINED} "
        f"and {_set_aside('15m')} >= {LEAST_EVENTS}",
        30 * MINUTE,
        Severity.TICKET,
        "more than 5 % of the events were set aside, for long",
        "allowed_lateness or watermark.delay is too short for this source: make it longer, or plan for rebuilds",
        _sustained,
        _percent,
    ),
    Alert(
        "corrections_drift",
        "LatecomerCorrectionsDrift",
        f"max by (pipeline, output) (latecomer_corrections_growth_ratio) > {GROWTH}",
        HOUR,
        Severity.TICKET,
        "numbers are corrected more and more often, week by week",
        "the source is later than when the watermark was chosen: look at lateness_seconds and choose again",
        _drift,
        _percent,
        spike=False,
    ),
    Alert(
        "ledger",
        "LatecomerLedgerUnbalanced",
        "latecomer_ledger_difference != 0",
        0,
        Severity.PAGE,
        "received is not the sum of the fates",
        f"{BUG}, with what latecomer ledger FILE --check prints",
        _ledger,
        lambda value: f"{value:g}",
        spike=False,
    ),
)
DURING_BACKFILL = "LatecomerSpikeDuringBackfill"


@dataclass(frozen=True)
class SignalVerdict:
    """The state of a signal now."""

    alert: Alert
    output: str | None
    state: SignalState
    value: float | None
    limit: float | None
    reason: str


def judge(recorded: RecordedWeeks, now: int) -> list[SignalVerdict]:
    """Every signal, as it is now."""
    return [
        _judged(alert, recorded, output, now)
        for alert in ALERTS
        for output in (recorded.outputs if alert.of_outputs else [None])
    ]


def _judged(alert: Alert, recorded: RecordedWeeks, output: str | None, now: int) -> SignalVerdict:
    if alert.name == "lag" and recorded.budget is None:
        return SignalVerdict(
            alert, output, SignalState.OFF, None, None, "set alerts.lag in the pipeline file"
        )
    measures = [alert.ask(recorded, output or "", at) for at in range(now, now - alert.hold - 1, -STEP)]
    measured = measures[0]
    if measured is None:
        return SignalVerdict(alert, output, SignalState.UNKNOWN, None, None, "too little was recorded to say")
    over = f"{alert.in_words(measured.value)}, limit {alert.in_words(measured.limit)}"
    if not measured.is_over:
        return SignalVerdict(alert, output, SignalState.OK, measured.value, measured.limit, over)
    explained = _backfill(recorded, now - alert.hold - QUARTER) if alert.spike else None
    if explained is not None:
        state, reason = SignalState.BACKFILL, f"{over}, while a backfill runs ({explained})"
    elif all(each is not None and each.is_over for each in measures):
        state, reason = SignalState.FIRING, f"{alert.summary}: {over}; {alert.advice}"
    else:
        state, reason = SignalState.PENDING, f"{over}; fires if it lasts {shown_duration(alert.hold)}"
    return SignalVerdict(alert, output, state, measured.value, measured.limit, reason)


def _backfill(recorded: RecordedWeeks, since: int) -> str | None:
    kinds = [*recorded.working, *(kind for at, kind in recorded.backfills if at > since)]
    return kinds[0] if kinds else None
