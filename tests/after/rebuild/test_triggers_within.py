"""Outputs that fire within batches: what their triggers keep in mind is no part of a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.after.rebuild import rebuilding
from latecomer.config.models import Output
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from spark_kit import PAYLOAD, Batch, Bench, assert_same, require_explained

TRIGGERS = {
    "late": {"late": {"count": 1}},
    "both": {"early": {"count": 2}, "late": {"count": 2}},
    "until": {"early": {"repeat": {"when": "ok"}, "until": {"count": 2}}},
}
WINDOWS = {"session": {"session": "10us"}, "tumbling": {"tumbling": "10us"}}


def came(key: str, *moments: tuple[int, int]) -> list[Arrival]:
    return [Arrival(time, at, "a", {"key": key, "paise": 1, "ok": True}) for time, at in moments]


@pytest.mark.parametrize(
    "accumulation",
    ["retracting", *(pytest.param(each, marks=pytest.mark.long) for each in ("accumulating", "discarding"))],
)
def test_what_is_right_is_not_rebuilt_and_each_pane_is_explained(tmp_path: Path, accumulation: str) -> None:
    outputs = {
        f"{kind}_{name}": Output(
            window=window,
            by=("key",),
            aggregates={"paise": "sum(paise)", "rows": "count(*)"},
            allowed_lateness="500us",
            late="retract" if accumulation == "retracting" else "update",
            accumulation=accumulation,
            trigger=trigger,
        )
        for kind, window in WINDOWS.items()
        for name, trigger in TRIGGERS.items()
    }
    bench = Bench(None, tmp_path, Bounded("15us", every="event"), outputs, PAYLOAD)  # type: ignore[arg-type]
    x = came("x", (100, 100), (120, 120), (102, 181), (101, 182), (111, 183), (195, 195), (115, 196))
    y = came("y", (180, 180), (190, 190))
    read = sorted([*x, *y], key=lambda each: each.arrival_time)
    batches: list[Batch] = [read[:7], read[7:]]
    store = bench.run(batches, drain=True)
    assert_same(bench, store, bench.oracle(batches, drain=True), batches)
    for name in outputs:
        require_explained(bench.pipeline, name)
        assert rebuilding.plan(bench.pipeline, name, 0, 1000).record.counts["changed"] == 0, name
