"""Outputs of every kind for Hypothesis: all windows, triggers, modes and policies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.clock import Predicate
from latecomer.model.panes import Accumulation
from latecomer.model.strategies import Strategy
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.windows import Global, Session
from scenarios import KEEPING_VALUES, arrivals, cut, cuts

AGGREGATES = {"paise": "sum(paise)", "rows": "count(*)", "largest": "max(paise)"}


def micros(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(lambda length: f"{length}us")


@st.composite
def sliding(draw: st.DrawFn) -> dict[str, Any]:
    every = draw(st.integers(1, 9))
    size = every + draw(st.integers(0, 12))
    return {"sliding": f"{size}us", "every": f"{every}us", "offset": draw(micros(0, 9))}


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Any]:
    gap = draw(st.integers(1, 9))
    longest = draw(st.one_of(st.none(), st.integers(gap, 30).map(lambda length: f"{length}us")))
    touching = draw(st.sampled_from(("separate", "joins")))
    final = draw(st.sampled_from(("at_once", "after_gap")))
    return {"session": f"{gap}us", "max": longest, "touching": touching, "final": final}


def windows() -> st.SearchStrategy[dict[str, Any]]:
    tumbling = st.fixed_dictionaries({"tumbling": micros(1, 15), "offset": micros(0, 9)})
    others = st.sampled_from([{"global": True}, {"calendar": "day"}])
    return st.one_of(tumbling, sliding(), sessions(), others)


PER = {"per": st.sampled_from(("firing", "batch"))}
WHENS: dict[str, Predicate] = {
    "paise > 3": lambda payload: payload["paise"] is not None and payload["paise"] > 3,
    "ok": lambda payload: payload["ok"],
}
"""Predicates of triggers, for the oracle."""


def rules(*clocks: str) -> st.SearchStrategy[dict[str, Any]]:
    """Rules of a trigger, by these clocks."""
    every = {"every": micros(1, 20), "clock": st.sampled_from(clocks)}
    count = {"count": st.integers(1, 4)}
    simple = st.fixed_dictionaries(every) | st.fixed_dictionaries(count)
    once = st.fixed_dictionaries({**every, **PER}) | st.fixed_dictionaries({**count, **PER})
    simple |= st.fixed_dictionaries({"after_first": micros(1, 20)})
    simple |= st.fixed_dictionaries({"when": st.sampled_from(sorted(WHENS))})
    parts = st.recursive(simple, lambda part: several(part), max_leaves=4)
    return once | parts


def several(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(part, min_size=2, max_size=3)
    return st.fixed_dictionaries({"any": some}) | st.fixed_dictionaries({"all": some})


def early() -> st.SearchStrategy[Any]:
    rule = rules("arrival", "event")
    part = rule.filter(lambda each: each.get("per") != "batch")
    return st.none() | rule | st.fixed_dictionaries({"repeat": part, "until": part})


def late() -> st.SearchStrategy[Any]:
    return st.just("batch") | rules("arrival")


@st.composite
def any_outputs(
    draw: st.DrawFn, window: st.SearchStrategy[dict[str, Any]] | None = None, **fixed: object
) -> Output:
    """An output of any kind that a pipeline accepts; `fixed` settles some of its keys."""
    policy = draw(st.sampled_from(LatePolicy))
    modes = [Accumulation.RETRACTING] if policy is LatePolicy.RETRACT else list(Accumulation)
    chosen = draw(windows() if window is None else window)
    fields: dict[str, Any] = {
        "window": chosen,
        "by": draw(st.sampled_from(((), ("key",)))),
        "aggregates": AGGREGATES,
        "allowed_lateness": draw(micros(0, 25)),
        "late": policy,
        "too_late": draw(st.sampled_from(TooLatePolicy)),
        "trigger": {
            "early": draw(early()),
            "late": draw(late()),
            "on_time": draw(st.sampled_from(("always", "if_changed"))),
            "closing": draw(st.booleans()),
        },
        "accumulation": draw(st.sampled_from(modes)),
    }
    if {**fields, **fixed}["accumulation"] is not Accumulation.DISCARDING and draw(st.booleans()):
        fields["aggregates"] = {**AGGREGATES, **KEEPING_VALUES}
    output = Output(**{**fields, **fixed})
    plain = isinstance(output.window, Session | Global) or "emit_empty" in fixed or output.closes_silently
    return output if plain else output.model_copy(update={"emit_empty": draw(st.booleans())})


def accepted(strategy: Strategy, output: Output) -> Output:
    """The output as a pipeline with this strategy may have it: what is dropped as too late must be allowed to
    be as late as a silent partition may be."""
    shortest = strategy.idle_after or 0
    drops = output.too_late is TooLatePolicy.DROP and output.late is not LatePolicy.DROP
    if not drops or output.allowed_lateness >= shortest:
        return output
    return output.model_copy(update={"allowed_lateness": shortest})


@st.composite
def quiet_batches(draw: st.DrawFn, rejects: bool = True) -> list[list[Arrival] | Heartbeat]:
    """Batches in arrival order, with heartbeats between some of them and after the last."""
    batches: list[list[Arrival] | Heartbeat] = []
    now = 0
    for batch in cut(draw(arrivals(rejects=rejects)), draw(cuts())):
        batches.append(batch)
        now = max([now, *(arrival.arrival_time for arrival in batch)])
        if draw(st.booleans()):
            now += draw(st.integers(0, 15))
            batches.append(Heartbeat(now))
    return [*batches, Heartbeat(now + draw(st.integers(0, 60)))]
