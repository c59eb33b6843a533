"""The report on a history: how late its events are, what settings would mean, and what is advised; also as rows and as
JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.advice import Advised, percentile
from latecomer.model.lateness.groups import Bias, LateGroup, Skew
from latecomer.model.lateness.histogram import COARSE, FINE, Elbow, Histogram, elbow_of
from latecomer.model.lateness.sweep import Setting, WhatIf
from latecomer.model.zoned import written

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
PANES = (
    "first_numbers",
    "corrections",
    "corrections_a_minute",
    "upserts_a_day",
    "retained",
    "retained_bytes",
)
"""What cannot be computed from a sample: a pane is published once, however many of its events are in the sample."""


@dataclass(frozen=True)
class Distribution:
    """One of the two delays."""

    count: int
    negative: int
    least: int
    most: int
    percentiles: Mapping[float, int]
    bars: Sequence[tuple[int, int, int]] = ()
    elbow: Elbow | None = None

    @classmethod
    def of(cls, found: Histogram, whole: bool = True) -> Distribution:
        return cls(
            found.count,
            found.negative,
            found.least,
            found.most,
            found.quantiles(),
            found.bars() if whole else (),
            elbow_of(found) if whole else None,
        )

    @property
    def figures(self) -> dict[str, str]:
        """The percentiles and the largest delay, by their names."""
        shown = {percentile(share): shown_duration(value) for share, value in self.percentiles.items()}
        return {**shown, "most": shown_duration(self.most)}

    def as_json(self) -> dict[str, Any]:
        percentiles = {percentile(share): value for share, value in self.percentiles.items()}
        return {
            "negative": self.negative,
            "least": self.least,
            "most": self.most,
            "percentiles": percentiles,
        }


@dataclass(frozen=True)
class GroupDelays:
    """Both delays of the events of a group."""

    column: str
    value: str | None
    age: Distribution
    behind: Distribution

    def as_json(self) -> dict[str, Any]:
        both = {"age": self.age.as_json(), "behind": self.behind.as_json()}
        return {"column": self.column, "value": self.value, "events": self.age.count, **both}


@dataclass(frozen=True)
class OutputReport:
    """What settings would have meant for an output."""

    name: str
    window: str
    drops_late: bool
    drops_too_late: bool
    accepts: bool
    settings: Sequence[WhatIf]
    advised: Setting
    current: Setting | None

    @property
    def usual(self) -> list[WhatIf]:
        """The settings to show first: each delay without lateness, and with the advised lateness."""
        graces = {0, self.advised.lateness}
        return [
            each
            for each in self.settings
            if each.setting.lateness in graces or each.setting in (self.advised, self.current)
        ]

    def answer(self, setting: Setting) -> WhatIf:
        return next(each for each in self.settings if each.setting == setting)

    def rows(self, of_sample: bool) -> list[dict[str, Any]]:
        """Each setting and what it would mean, as one flat row."""
        return [self.row(each, of_sample) for each in self.settings]

    def row(self, answer: WhatIf, of_sample: bool) -> dict[str, Any]:
        late, too_late = answer.late, answer.too_late
        refused = 0 if self.accepts else late
        dropped = (refused if self.drops_late else 0) + (too_late if self.drops_too_late else 0)
        return {
            "delay": answer.setting.delay,
            "allowed_lateness": answer.setting.lateness,
            "events": answer.events,
            "on_time": answer.on_time,
            "late_accepted": late if self.accepts else 0,
            "side_output": refused + too_late - dropped,
            "dropped": dropped,
            "on_time_share": answer.on_time_share,
            "completeness": answer.completeness if self.accepts else answer.on_time_share,
            "published_after": answer.published_after,
            "published_after_p99": answer.published_after_p99,
            "waits_for": answer.waits_for,
            "windows": answer.windows,
            **{name: None if of_sample else getattr(answer, name) for name in PANES},
            "error": answer.error,
        }

    def as_json(self, of_sample: bool) -> dict[str, Any]:
        return {
            "output": self.name,
            "window": self.window,
            "advised": asdict(self.advised),
            "current": None if self.current is None else asdict(self.current),
            "settings": self.rows(of_sample),
        }


@dataclass(frozen=True)
class Report:
    """How late events are, what settings would mean, which groups are late, and what is advised."""

    title: str
    kind: str
    """`log` or `files`."""
    events: int
    of_events: int
    """How many events there are; more than `events` if a sample was measured."""
    sample: float | None
    since: int
    until: int
    every: int | str
    age: Distribution
    behind: Distribution
    partitions: Sequence[GroupDelays]
    groups: Sequence[GroupDelays]
    outputs: Sequence[OutputReport]
    late_delay: int
    late_groups: Sequence[LateGroup]
    biases: Sequence[Bias]
    skews: Sequence[Skew]
    advised: Sequence[Advised]
    cautions: Sequence[str]
    notes: Sequence[str]

    @property
    def sampled(self) -> bool:
        return self.sample is not None

    @property
    def sampling_error(self) -> float | None:
        """Half the width of the 95 % interval of a share of one half, the widest; None where all events were read."""
        return None if self.sample is None or not self.events else 0.98 / sqrt(self.events)

    @property
    def precision(self) -> float:
        """By which share a percentile of all events may be too large."""
        return 1.0 / (1 << FINE)

    @property
    def group_precision(self) -> float:
        """The same for a partition or group."""
        return 1.0 / (1 << COARSE)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON has it. Durations are whole microseconds, moments ISO-8601."""
        return {
            "source": self.title,
            "kind": self.kind,
            "events": self.events,
            "of_events": self.of_events,
            "sample": self.sample,
            "sampling_error": self.sampling_error,
            "precision": {"overall": self.precision, "groups": self.group_precision},
            "since": written(self.since),
            "until": written(self.until),
            "tick": self.every if isinstance(self.every, str) else format_duration(self.every),
            "age": _whole(self.age),
            "behind": _whole(self.behind),
            "partitions": [each.as_json() for each in self.partitions],
            "groups": [each.as_json() for each in self.groups],
            "outputs": [each.as_json(self.sampled) for each in self.outputs],
            "late_beyond": self.late_delay,
            "late_groups": [asdict(each) for each in self.late_groups],
            "bias_if_dropped": [asdict(each) for each in self.biases],
            "clock_skew": [asdict(each) for each in self.skews],
            "advice": [{**asdict(each), "write": each.written} for each in self.advised],
            "cautions": list(self.cautions),
            "notes": list(self.notes),
        }


def _whole(delays: Distribution) -> dict[str, Any]:
    return {
        "events": delays.count,
        **delays.as_json(),
        "elbow": None if delays.elbow is None else asdict(delays.elbow),
        "histogram": [{"from": low, "to": high, "events": count} for low, high, count in delays.bars],
    }
