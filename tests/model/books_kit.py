"""Outputs that count events, what the oracle makes of them, and its panes in a few letters."""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.config.outputs import Output
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.interpreter import Interpretation, interpret
from latecomer.model.panes import Op
from latecomer.model.strategies import Bounded, Strategy
from window_kit import WHENS

PER_EVENT = Bounded("0s", every="event")
TUMBLING = {"tumbling": "10us"}


def counting(window: object = None, late: str = "update", lateness: str = "0s", **fields: object) -> Output:
    return Output(
        window=window or TUMBLING,
        aggregates={"rows": "count(*)"},
        allowed_lateness=lateness,
        late=late,
        **fields,
    )


def events(*times: int) -> list[Arrival]:
    """Events with these times, arriving one microsecond after the other."""
    return [Arrival(time, place) for place, time in enumerate(times)]


def outcome_of(
    batches: Sequence[Sequence[Arrival] | Heartbeat],
    output: Output,
    strategy: Strategy = PER_EVENT,
    drain: bool = False,
) -> Interpretation:
    return interpret(batches, strategy, {"out": output}, measures=["paise"], drain=drain, when=WHENS)


def shown(outcome: Interpretation, key: tuple[object, ...] | None = None) -> list[str]:
    """Every pane, or those of a key, in a few letters: batch, timing, window, sequence, count; `-` takes back, `!` is
    the last."""
    return [
        f"{one.batch} {'-' if pane.op is Op.RETRACT else ''}{pane.timing.value} "
        f"[{pane.window_start},{pane.window_end}) {pane.sequence}: {pane.values['rows']}"
        f"{'!' if pane.is_last else ''}"
        for one in outcome.published["out"]
        for pane in [one.pane]
        if key is None or pane.key == key
    ]
