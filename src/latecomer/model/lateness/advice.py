"""Advised settings, each with its reason.

The delay is a percentile of how far events come behind the newest event of their own partition. The allowed lateness
of an output covers the events that come later still, measured by how far the timeline is past the windows' ends. Both
are rounded up to usual durations. Cautions are added where the history is too short or drifts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from latecomer.model.array_types import Integers
from latecomer.model.counting import counted
from latecomer.model.durations import DAY, HOUR, MINUTE, SECOND, UNITS, format_duration, shown_duration
from latecomer.model.lateness.histogram import Histogram

COMPLETENESS = 0.99
ENOUGH_BEYOND = 10
"""A percentile needs at least this many events beyond it."""
DIFFERS = 2.0
"""A partition gets its own delay if its delay is larger or smaller than the common one by more than this factor."""
DRIFTS = 1.5
VARIES = 4.0
LEAST_FUTURE = MINUTE
LEAST_SILENCE = MINUTE
STEPS = (
    (SECOND, UNITS["ms"] * 100),
    (MINUTE, SECOND),
    (10 * MINUTE, 10 * SECOND),
    (HOUR, MINUTE),
    (DAY, 10 * MINUTE),
)


@dataclass(frozen=True)
class Wish:
    """The targets: the share of events that should be on time, and the longest latency of a first number."""

    completeness: float = COMPLETENESS
    max_latency: int | None = None
    asked: bool = False
    """Whether the user set the completeness."""

    @property
    def beyond(self) -> float:
        """The share of events on time or within the allowed lateness: it covers nine tenths of the events that the
        delay leaves."""
        return 1 - (1 - self.completeness) / 10


@dataclass(frozen=True)
class Advised:
    """An advised setting: its field in the pipeline file, its value and the reason. The value None means
    leaving it out."""

    field: str
    value: int | None
    reason: str
    current: int | None = None
    said: bool = False
    """Whether the pipeline sets it now. `said` is a key of `advise --json`."""

    @property
    def written(self) -> str:
        return "off" if self.value is None else format_duration(self.value)

    @property
    def changes(self) -> bool:
        return self.value != self.current


def rounded_up(duration: int) -> int:
    """A usual duration that is not shorter than this one.

    >>> [format_duration(rounded_up(each)) for each in (0, 1, 1_234_567, 61_000_000, 3_700_000_000)]
    ['0s', '100ms', '2s', '1m10s', '1h10m']
    """
    step = next((step for below, step in STEPS if duration <= below), HOUR)
    return -(-duration // step) * step


def percent(share: float) -> str:
    """A share in per cent, with all of its nines.

    >>> percent(0.99), percent(0.9999), percent(0.5)
    ('99 %', '99.99 %', '50 %')
    """
    return f"{share * 100:.6f}".rstrip("0").rstrip(".") + " %"


def percentile(share: float) -> str:
    """The name of a percentile.

    >>> percentile(0.999)
    'p99.9'
    """
    return "p" + percent(share).removesuffix(" %")


def delay_for(behind: Histogram, wish: Wish) -> tuple[int, str]:
    """The delay, and why."""
    needed = behind.quantile(wish.completeness)
    wanted = rounded_up(needed)
    reason = (
        f"{percentile(wish.completeness)} of how far events come behind the newest of their partition is "
        f"{shown_duration(needed)}"
    )
    return wanted, reason


@dataclass(frozen=True)
class Tried:
    """The effect of a delay on the worst output: the share on time, and the average time from a window's end to its
    first number; None where no window closes."""

    delay: int
    on_time: float
    latency: float | None

    def is_complete(self, wish: Wish) -> bool:
        return self.on_time >= wish.completeness

    def is_quick(self, wish: Wish) -> bool:
        return wish.max_latency is None or (self.latency is not None and self.latency <= wish.max_latency)


MOST_TRIED = 40


def delays_to_try(
    overdue: Mapping[str, Histogram], kept: Mapping[str, int], usual: int, wish: Wish
) -> list[int]:
    """The delays to test against the targets: the shortest complete one of each output, the `usual` one, and round ones
    from zero to beyond the longest that may meet the targets."""
    needed = {usual, *(_complete_with(each, max(kept[name], 1), wish) for name, each in overdue.items())}
    top = max(wish.max_latency or 0, *needed)
    steps = MOST_TRIED - 2 * len(needed) - 1
    round_ones = {rounded_up(top * nth // steps) for nth in range(steps + 1)} if steps > 0 else set()
    return sorted({*needed, *map(rounded_up, needed), *round_ones})


def _complete_with(overdue: Histogram, events: int, wish: Wish) -> int:
    """The shortest delay that reaches the completeness."""
    may_miss = int((1 - wish.completeness) * events + 1e-9)
    if overdue.count <= may_miss:
        return 0
    return overdue.quantile(1 - may_miss / overdue.count) + 1


def delay_under(tried: Sequence[Tried], usual: int, wish: Wish) -> tuple[int, str]:
    """The longest delay that meets both targets, and the reason. It is not longer than the `usual` one, which is
    complete enough in any case. Where none meets them: the longest one that is quick enough, and how it falls short."""
    meet = [each for each in tried if each.is_complete(wish) and each.is_quick(wish)]
    share = percent(wish.completeness)
    within = (
        "" if wish.max_latency is None else f" and a first number within {format_duration(wish.max_latency)}"
    )
    if meet:
        first, last = meet[0], meet[-1]
        chosen = max(
            (each for each in meet if each.delay <= usual), key=lambda each: each.delay, default=first
        )
        several = f" to {format_duration(last.delay)} meet" if first != last else " meets"
        return chosen.delay, (
            f"{format_duration(first.delay)}{several} what was asked for: {share} on time{within}"
        )
    quick = [each for each in tried if each.is_quick(wish)]
    complete = next((each for each in tried if each.is_complete(wish)), None)
    best = quick[-1] if quick else tried[0]
    would = (
        f"{share} would take a delay of {format_duration(complete.delay)}, with numbers after {_after(complete)}"
        if complete
        else f"no delay has {share} on time"
    )
    return best.delay, (
        f"no delay meets what was asked for: with {format_duration(best.delay)}, "
        f"{percent(round(best.on_time, 4))} are on time and numbers come after {_after(best)}; {would}"
    )


def _after(tried: Tried) -> str:
    return (
        "an unknown time, for no window closes"
        if tried.latency is None
        else shown_duration(round(tried.latency))
    )


def lateness_for(overdue: Histogram, events: int, delay: int, wish: Wish) -> tuple[int, str]:
    """The allowed lateness of an output with a delay, and the reason. `overdue` counts only events past their window's
    end."""
    missed = ceil((1 - wish.beyond) * events - 1e-9)
    late = overdue.count
    beyond = overdue.at_least(delay)  # an event exactly at the delay is late
    if not beyond:
        return 0, f"no event of the history missed its window under a delay of {format_duration(delay)}"
    if beyond <= missed:
        return 0, f"{percent(round(1 - beyond / events, 5))} of the events are on time without any"
    # The smallest bound with at most `missed` events beyond it.
    needed = overdue.quantile(1 - missed / late) + 1
    lateness = max(rounded_up(needed - delay), 0)
    return lateness, (
        f"{percentile(wish.beyond)} of how far the timeline is past the window's end is {shown_duration(needed)}, "
        f"less the delay of {format_duration(delay)}"
    )


def own_delays(overall: int, behind: Mapping[str, Histogram], wish: Wish) -> dict[str, tuple[int, str]]:
    """The partitions whose delay differs much from the common one, with their delays and reasons."""
    delays = {}
    for name, each in behind.items():
        if each.count * (1 - wish.completeness) < ENOUGH_BEYOND:
            continue
        mine, reason = delay_for(each, wish)
        if wish.max_latency is not None and mine > wish.max_latency:
            mine, reason = wish.max_latency, f"--max-latency allows no more; {reason}"
        apart = abs(mine - overall) > SECOND
        if apart and (mine > overall * DIFFERS or mine * DIFFERS < overall):
            delays[name] = mine, reason
    return delays


def idle_for(silences: Mapping[str, Integers], every: int) -> tuple[int | None, str]:
    """The `idle_after`, and the reason; None where there is a single partition, which holds no other back."""
    if len(silences) < 2:
        return None, "there is one partition, which holds no other back"
    usual = {name: int(np.quantile(each, 0.999, method="higher")) for name, each in silences.items()}
    slowest = max(usual, key=lambda name: usual[name])
    # A partition counts as idle only after twice the longest usual silence of any partition.
    needed = max(2 * usual[slowest], LEAST_SILENCE, 2 * every)
    return rounded_up(needed), (
        f"twice {shown_duration(usual[slowest])}, the {percentile(0.999)} of the silences of {slowest}; a partition "
        "that is silent for longer would hold the others back"
    )


def future_for(age: Histogram) -> tuple[int, str]:
    """The `max_future`, and the reason."""
    if not age.negative:
        return 5 * MINUTE, "no event is ahead of its arrival: the default guards against corrupt timestamps"
    ahead = -age.quantile(0.0001) if age.quantile(0.0001) < 0 else 0
    value = max(rounded_up(2 * ahead), LEAST_FUTURE)
    one = age.negative == 1
    ahead_of = "1 event is ahead of its" if one else f"{age.negative:,} events are ahead of their"
    return value, (
        f"{ahead_of} arrival, all but one in 10,000 of all events by no more than "
        f"{shown_duration(ahead)}; twice that leaves room"
    )


def cautions(behind: Histogram, slices: Sequence[Histogram], span: int, delay: int, wish: Wish) -> list[str]:
    """Reasons not to rely on the advice: too few events, a history that is too short or drifts."""
    cautions = []
    for share in (wish.completeness, wish.beyond):
        needed = ceil(ENOUGH_BEYOND / (1 - share) - 1e-6) if share < 1 else 0
        if behind.count < needed:
            rests = f"{percentile(share)} rests on {counted(behind.count, 'event')}"
            cautions.append(f"{rests} and needs {needed:,}: take it as a guess")
    if span < DAY:
        cautions.append(
            f"the history is {shown_duration(span)} long: what happens once a day or a week is not in it"
        )
    elif span < 7 * DAY:
        cautions.append(f"the history is {shown_duration(span)} long: it has no whole week in it")
    if delay and span < 20 * delay:
        cautions.append(f"the history is shorter than 20 times the advised delay of {format_duration(delay)}")
    return [*cautions, *_drift(slices, wish)]


def _drift(slices: Sequence[Histogram], wish: Wish) -> list[str]:
    quantiles = [
        each.quantile(wish.completeness) for each in slices if each.count * (1 - wish.completeness) >= 1
    ]
    if len(quantiles) < 4:
        return []
    third = max(len(quantiles) // 3, 1)
    first, last = (sum(part) / third for part in (quantiles[:third], quantiles[-third:]))
    name = percentile(wish.completeness)
    if abs(last - first) > SECOND and max(first, last) > DRIFTS * min(first, last):
        return [
            f"the history drifts: {name} is {shown_duration(round(first))} in its first third and "
            f"{shown_duration(round(last))} in its last; advise again soon, or consider strategy: adaptive"
        ]
    if max(quantiles) - min(quantiles) > SECOND and max(quantiles) > VARIES * max(min(quantiles), 1):
        return [
            f"lateness varies: {name} is between {shown_duration(min(quantiles))} and "
            f"{shown_duration(max(quantiles))} in tenths of the history; consider strategy: adaptive"
        ]
    return []
