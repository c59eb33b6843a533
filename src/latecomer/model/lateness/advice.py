"""Settings, each with its reason.

The delay is the percentile of how far events come behind the newest of their own partition. The allowed lateness of
an output covers what still comes after that, by how far the timeline is past the windows' ends. Both are rounded up to
what people would write. Beside them stand cautions, where a history is too short or drifts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from latecomer.model.counting import counted
from latecomer.model.durations import DAY, UNITS, format_duration, shown_duration
from latecomer.model.lateness.histogram import Histogram, Whole

SECOND, MINUTE, HOUR = UNITS["s"], UNITS["m"], UNITS["h"]
COMPLETENESS = 0.99
ENOUGH_BEYOND = 10
"""A percentile needs so many events beyond it."""
DIFFERS = 2.0
"""A partition has a delay of its own where it needs so many times as much, or so many times less, than all."""
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
    """What was asked for: which share should be on time, and how long a number may take at most."""

    completeness: float = COMPLETENESS
    max_latency: int | None = None
    asked: bool = False
    """Whether the completeness was asked for."""

    @property
    def beyond(self) -> float:
        """The share that the allowed lateness is to cover: nine tenths of what the delay leaves."""
        return 1 - (1 - self.completeness) / 10


@dataclass(frozen=True)
class Advised:
    """A setting: where it is in the pipeline file, what to write, and why. None advises to leave it out."""

    field: str
    value: int | None
    reason: str
    current: int | None = None
    said: bool = False
    """Whether the pipeline sets it now. The name is a key of `advise --json`."""

    @property
    def written(self) -> str:
        return "off" if self.value is None else format_duration(self.value)

    @property
    def changes(self) -> bool:
        return self.value != self.current


def rounded_up(duration: int) -> int:
    """A duration that one would write, not less than this one.

    >>> [format_duration(rounded_up(each)) for each in (0, 1, 1_234_567, 61_000_000, 3_700_000_000)]
    ['0s', '100ms', '2s', '1m10s', '1h10m']
    """
    step = next((step for below, step in STEPS if duration <= below), HOUR)
    return -(-duration // step) * step


def percent(share: float) -> str:
    """A share in per cent, with as many nines as it has.

    >>> percent(0.99), percent(0.9999), percent(0.5)
    ('99 %', '99.99 %', '50 %')
    """
    return f"{share * 100:.6f}".rstrip("0").rstrip(".") + " %"


def percentile(share: float) -> str:
    """A percentile by its name.

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
    """What a delay would have meant for the output that it serves worst: the share on time, and how long after a
    window's end its first number is published, on average; None where no window closes."""

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
    """The delays among which targets are looked for: those that each output needs to be as complete as is asked, the
    `usual` one, and round ones from none to beyond the longest that may meet them."""
    needed = {usual, *(_complete_with(each, max(kept[name], 1), wish) for name, each in overdue.items())}
    top = max(wish.max_latency or 0, *needed)
    steps = MOST_TRIED - 2 * len(needed) - 1
    round_ones = {rounded_up(top * nth // steps) for nth in range(steps + 1)} if steps > 0 else set()
    return sorted({*needed, *map(rounded_up, needed), *round_ones})


def _complete_with(overdue: Histogram, events: int, wish: Wish) -> int:
    """The shortest delay with which so many events are on time."""
    may_miss = int((1 - wish.completeness) * events + 1e-9)
    if overdue.count <= may_miss:
        return 0
    return overdue.quantile(1 - may_miss / overdue.count) + 1


def delay_under(tried: Sequence[Tried], usual: int, wish: Wish) -> tuple[int, str]:
    """The longest of the delays that meet both targets, and why; but none beyond the `usual` one, which is complete
    enough in any case. Where none meets them, the longest that is quick enough; and that it falls short."""
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
    """The allowed lateness of an output under a delay, and why. `overdue` has only events past their window's end."""
    missed = ceil((1 - wish.beyond) * events - 1e-9)
    late = overdue.count
    beyond = overdue.at_least(delay)  # who comes exactly at the delay is late
    if not beyond:
        return 0, f"no event of the history missed its window under a delay of {format_duration(delay)}"
    if beyond <= missed:
        return 0, f"{percent(round(1 - beyond / events, 5))} of the events are on time without any"
    # The smallest bound that leaves no more than `missed` events beyond it.
    needed = overdue.quantile(1 - missed / late) + 1
    lateness = max(rounded_up(needed - delay), 0)
    return lateness, (
        f"{percentile(wish.beyond)} of how far the timeline is past the window's end is {shown_duration(needed)}, "
        f"less the delay of {format_duration(delay)}"
    )


def own_delays(overall: int, behind: Mapping[str, Histogram], wish: Wish) -> dict[str, tuple[int, str]]:
    """The partitions that need a delay of their own, by much."""
    found = {}
    for name, each in behind.items():
        if each.count * (1 - wish.completeness) < ENOUGH_BEYOND:
            continue
        mine, reason = delay_for(each, wish)
        if wish.max_latency is not None and mine > wish.max_latency:
            mine, reason = wish.max_latency, f"--max-latency allows no more; {reason}"
        apart = abs(mine - overall) > SECOND
        if apart and (mine > overall * DIFFERS or mine * DIFFERS < overall):
            found[name] = mine, reason
    return found


def idle_for(silences: Mapping[str, Whole], every: int) -> tuple[int | None, str]:
    """When a partition counts as idle, and why; None where there is one partition, which holds nobody."""
    if len(silences) < 2:
        return None, "there is one partition, which holds no other back"
    usual = {name: int(np.quantile(each, 0.999, method="higher")) for name, each in silences.items()}
    slowest = max(usual, key=lambda name: usual[name])
    # A silence is taken for idleness only where it is twice as long as any partition's usual ones.
    needed = max(2 * usual[slowest], LEAST_SILENCE, 2 * every)
    return rounded_up(needed), (
        f"twice {shown_duration(usual[slowest])}, the {percentile(0.999)} of the silences of {slowest}; a partition "
        "that is silent for longer would hold the others back"
    )


def future_for(age: Histogram) -> tuple[int, str]:
    """How far ahead of its arrival an event may be, and why."""
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
    """What speaks against relying on the advice: too few events, too short a history, one that drifts."""
    found = []
    for share in (wish.completeness, wish.beyond):
        needed = ceil(ENOUGH_BEYOND / (1 - share) - 1e-6) if share < 1 else 0
        if behind.count < needed:
            rests = f"{percentile(share)} rests on {counted(behind.count, 'event')}"
            found.append(f"{rests} and needs {needed:,}: take it as a guess")
    if span < DAY:
        found.append(
            f"the history is {shown_duration(span)} long: what happens once a day or a week is not in it"
        )
    elif span < 7 * DAY:
        found.append(f"the history is {shown_duration(span)} long: it has no whole week in it")
    if delay and span < 20 * delay:
        found.append(f"the history is shorter than 20 times the advised delay of {format_duration(delay)}")
    return [*found, *_drift(slices, wish)]


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
