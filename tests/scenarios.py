"""Inputs that many tests share: the streams of the seeds, and Hypothesis strategies for arrivals.

Times are microseconds. The random inputs stay within a few dozen microseconds, so that window ends,
watermarks and silences meet exactly as often as they miss each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.config.outputs import Output
from latecomer.model.durations import UNITS, to_micros
from latecomer.model.oracle.interpreter import Arrival, Interpretation
from latecomer.model.strategies import Adaptive, Ascending, Bounded, Percentile, Punctuated, Strategy
from latecomer.model.verdicts import Fate, LatePolicy, TooLatePolicy

SECOND = UNITS["s"]
MINUTE = UNITS["m"]
HOUR = UNITS["h"]

quick = drawn(15)
thorough = drawn(40)


def clock(text: str, day: str = "2026-04-25") -> int:
    """Microseconds of a UTC wall-clock time: `clock("14:00:30")`."""
    return to_micros(datetime.fromisoformat(f"{day}T{text}").replace(tzinfo=UTC))


def cut(arrivals: Sequence[Arrival], sizes: Iterable[int]) -> list[list[Arrival]]:
    """The arrivals in batches of these sizes; the remaining ones are one more batch."""
    batches, start = [], 0
    for size in sizes:
        batches.append(list(arrivals[start : start + size]))
        start += size
    if start < len(arrivals):
        batches.append(list(arrivals[start:]))
    return batches


def one_by_one(arrivals: Sequence[Arrival]) -> list[list[Arrival]]:
    """Every arrival a batch of its own."""
    return cut(arrivals, [1] * len(arrivals))


# The streams of the seeds


def upi_payments(count: int = 600, seed: int = 11) -> list[Arrival]:
    """The first seed: a payment a second; 92 % prompt, 7 % behind by 20-60 s, 1 % by 15-20 minutes."""
    rng = random.Random(seed)
    payments = []
    for second in range(count):
        luck = rng.random()
        shortest, longest = (0, 1) if luck < 0.92 else (20, 60) if luck < 0.99 else (900, 1200)
        delay = rng.randint(shortest, longest)
        payload = {"paise": rng.randint(100, 50_000), "txn_id": f"upi_{second:04d}"}
        payments.append(
            Arrival(second * SECOND, (second + delay) * SECOND, "", payload, event_id=payload["txn_id"])
        )
    return sorted(payments, key=lambda payment: payment.arrival_time)


def seven_clicks() -> list[Arrival]:
    """The third seed: seven clicks around 14:00, in the order in which they came, a second apart."""
    times = ("14:00:30", "14:02:11", "14:04:50", "14:05:02", "14:03:01", "14:08:30", "13:58:45")
    return [
        Arrival(clock(time), clock("14:10:00") + place * SECOND, "", {"user": f"u{place + 1}"})
        for place, time in enumerate(times)
    ]


def scrambled_units(count: int = 20_000, seed: int = 7) -> list[Arrival]:
    """The fourth seed: an event each half second, delays exponential with mean 6 s, at most 25 s."""
    rng = random.Random(seed)
    seen = []
    for number in range(count):
        event_time = number * 0.5
        seen.append((event_time + min(rng.expovariate(1 / 6), 25), event_time))
    seen.sort(key=lambda pair: pair[0])
    return [Arrival(round(at * SECOND), round(arrived * SECOND)) for arrived, at in seen]


def morning_checkouts() -> list[Arrival]:
    """The fifth seed: E1-E4 of user `ann` for the window 09:00-09:05, amid prompt traffic of others.

    Another user's event each minute, two seconds under way, carries the watermark.
    """
    named = [
        ("E1", "09:02:14", "09:02:18", 100),
        ("E2", "09:03:55", "09:04:30", 200),
        ("E3", "09:02:14", "09:34:00", 50),
        ("E4", "09:02:14", "11:15:00", 75),
    ]
    ann = [
        Arrival(clock(happened), clock(arrived), "", {"user": "ann", "amount": amount}, event_id=name)
        for name, happened, arrived, amount in named
    ]
    others = [
        Arrival(at, at + 2 * SECOND, "", {"user": "others", "amount": 1})
        for at in range(clock("09:00:00"), clock("11:20:00"), MINUTE)
    ]
    return sorted([*ann, *others], key=lambda arrival: arrival.arrival_time)


# Hypothesis strategies


_STEPS = st.tuples(
    st.sampled_from((0, 0, 1, 1, 2, 3, 5, 13)),  # since the arrival before
    st.sampled_from((0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, -1, -4)),  # event time behind arrival
    st.sampled_from("aaabbc"),
    st.sampled_from(("x", "y", None)),
    st.sampled_from((None, -9, 0, 1, 7, 99)),
    st.sampled_from((True, True, True, False, None)),
    st.sampled_from((None, None, None, *range(8))),
    st.sampled_from((False,) * 9 + (True,)),
)


@st.composite
def arrivals(draw: st.DrawFn, max_size: int = 25, rejects: bool = True) -> list[Arrival]:
    """Arrivals in arrival order, from up to three partitions, some far behind and some a little ahead.

    With `rejects` there are dead letters and repeated ids among them.
    """
    size, now = draw(st.integers(0, max_size)), draw(st.integers(-20, 40))
    steps = draw(st.lists(_STEPS, min_size=size, max_size=size))  # left alone, lists stay short
    read = []
    for wait, behind, partition, key, paise, ok, event_id, dead in steps:
        now += wait
        payload = {"key": key, "paise": paise, "ok": ok}
        read.append(
            Arrival(now - behind, now, partition, payload, event_id if rejects else None, rejects and dead)
        )
    return read


def duplicates_of(outcome: Interpretation, output: str = "out") -> list[int]:
    """The duplicates, by their places in the input. An id is forgotten at the end of a batch (ADR 0020), so they are
    what may depend on where batches are cut."""
    return [each.position for each in outcome.judged[output] if each.fate is Fate.DUPLICATE]


def micros(least: int, most: int) -> st.SearchStrategy[str]:
    """A duration of so many microseconds."""
    return st.integers(least, most).map(lambda length: f"{length}us")


@st.composite
def rhythms(draw: st.DrawFn) -> dict[str, object]:
    """What every strategy has: with and without idleness, ticks of any length or `event`."""
    return {
        "idle_after": draw(st.one_of(st.none(), micros(1, 20))),
        "on_idle": draw(st.sampled_from(("advance", "advance", "hold"))),
        "every": draw(st.one_of(st.just("event"), micros(1, 9))),
    }


@st.composite
def delays(draw: st.DrawFn) -> dict[str, object]:
    """A delay, and now and then another one for some partitions."""
    some = st.dictionaries(st.sampled_from("abc"), micros(0, 12), max_size=2)
    return {"delay": draw(micros(0, 12)), "delays": draw(st.one_of(st.just({}), some))}


@st.composite
def bounded(draw: st.DrawFn) -> Bounded:
    """A bounded watermark with one delay for all partitions."""
    return Bounded(draw(micros(0, 12)), **draw(rhythms()))


@st.composite
def watermarks(draw: st.DrawFn) -> Strategy:
    """A watermark of any strategy, small enough to slide, widen and be marked within a few events.

    The marks are in the payload of `arrivals`: `ok` marks the event's own time, `paise` is a time.
    """
    kind = draw(st.sampled_from((Bounded, Bounded, Ascending, Percentile, Adaptive, Punctuated)))
    fields = draw(rhythms())
    if kind in (Bounded, Percentile, Punctuated):
        fields |= draw(delays())
    if kind is Percentile:
        p = draw(st.sampled_from((0.1, 0.25, 0.5, 0.75, 0.8)))
        least = {0.75: 4, 0.8: 5}.get(p, 2)
        fields |= {"p": p, "of": draw(st.integers(least, 8)), "resolution": draw(micros(1, 6))}
    elif kind is Adaptive:
        fields |= {
            "completeness": draw(st.sampled_from((0.25, 0.5, 0.9, 1))),
            "of": draw(st.integers(1, 8)),
            "at_least": draw(micros(0, 5)),
            "at_most": draw(micros(5, 30)),
            "resolution": draw(micros(1, 6)),
        }
    elif kind is Punctuated:
        fields |= {"marker": draw(st.sampled_from(("ok", "paise"))), "max_future": draw(micros(5, 60))}
    return kind(**fields)


KEEPING_VALUES = {
    "kinds": "count(distinct paise)",
    "begins": "first(paise)",
    "ends": "last(ok)",
    "middle": "median(paise)",
    "often": "top_k(paise, 2)",
    "some": "collect(key, 3)",
}
"""Aggregates whose states hold values: they cannot be added up, so panes that discard do without."""


@st.composite
def outputs(draw: st.DrawFn) -> Output:
    """An output of any policy, by key or without one; every other one has aggregates that keep values."""
    return Output(
        window={"tumbling": f"{draw(st.integers(1, 15))}us", "offset": f"{draw(st.integers(-20, 20))}us"},
        by=draw(st.sampled_from(((), ("key",)))),
        aggregates={
            "paise": "sum(paise)",
            "rows": "count(*)",
            "largest": "max(paise)",
            **draw(st.sampled_from(({}, KEEPING_VALUES))),
        },
        allowed_lateness=f"{draw(st.integers(0, 25))}us",
        late=draw(st.sampled_from(LatePolicy)),
        too_late=draw(st.sampled_from(TooLatePolicy)),
    )


def cuts() -> st.SearchStrategy[list[int]]:
    """Batch sizes; empty batches among them."""
    return st.lists(st.integers(0, 6), max_size=15)


@st.composite
def out_of_step(draw: st.DrawFn, rejects: bool = True) -> list[list[Arrival]]:
    """Batches of a source whose partitions are read out of step: arrival order holds nowhere."""
    read = draw(arrivals(rejects=rejects))
    return cut(draw(st.permutations(read)), draw(cuts()))
