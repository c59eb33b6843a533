"""The report on a history: how late its events are, what settings would mean, and what is advised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from latecomer.model.lateness.advice import Advised, Wish
from latecomer.model.lateness.elbow import Elbow, elbow_of
from latecomer.model.lateness.groups import Bias, LateGroup, Skew
from latecomer.model.lateness.histogram import COARSE, FINE, Histogram
from latecomer.model.lateness.sweep import Setting, WhatIf
from latecomer.observe.advise.drawn import drawn
from latecomer.observe.advise.page import fragment, page
from latecomer.observe.advise.rows import as_json

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


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


@dataclass(frozen=True)
class GroupDelays:
    """Both delays of the events of a group."""

    column: str
    value: str | None
    age: Distribution
    behind: Distribution


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


@dataclass(frozen=True)
class Wanted:
    """The targets, and the settings to measure."""

    wish: Wish = field(default_factory=Wish)
    delays: tuple[int, ...] = ()
    lateness: tuple[int, ...] = ()
    sample: float | None = None


@dataclass(frozen=True)
class Advice:
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

    def _repr_html_(self) -> str:
        return fragment(self)

    def html(self) -> str:
        """One page with plots, which loads nothing else."""
        return page(self)

    def svg(self) -> str:
        """The plots as one picture."""
        return drawn(self)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON has it. Durations are whole microseconds, moments ISO-8601."""
        return as_json(self)
