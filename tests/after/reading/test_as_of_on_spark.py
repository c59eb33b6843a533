"""By the arrival clock, a log that was read in one batch tells what event after event would have told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from after.explain.test_explain_on_spark import COUNTED, arrivals
from latecomer.after.reading.reader import Reader
from latecomer.config.outputs import Output
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.oracle.interpreter import Interpretation
from latecomer.model.panes import Pane, Place, Timing, surviving
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Sliding, Tumbling
from spark_kit import PAYLOAD, Bench

OUTPUTS = {
    "drops": Output(window=Sliding("20s", every="10s"), aggregates=COUNTED, late="drop"),
    "updates": Output(
        window=Tumbling("15s"), by=("key",), aggregates=COUNTED, allowed_lateness="10s", late="retract"
    ),
}


def test_a_backfill_in_one_batch_tells_what_was_known_when(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, Bounded("2s", every="event"), OUTPUTS, PAYLOAD, ids=False)
    # For how long an id is remembered depends on batches: here is none.
    made = [replace(each, event_id=None) for each in arrivals()]
    bench.run([made])
    oracle = bench.oracle([[each] for each in made])
    reader, merged = Reader(bench.pipeline), 0
    for nth, arrival in enumerate(made):
        if nth % 3:
            continue
        for name, output in OUTPUTS.items():
            rows = reader.results(name, as_of_arrival=to_moment(arrival.arrival_time)).to_pylist()
            found = {_place(row, output): {each: row[each] for each in COUNTED} for row in rows}
            expected, between = known(oracle, name, nth)
            merged += between
            assert found == expected, (name, nth)
    assert merged  # late events of one pane that did not come at once are part of this


def known(oracle: Interpretation, output: str, nth: int) -> tuple[dict[Place, Any], int]:
    """What stands after so many events; and for how many numbers some late events had come and some not.

    Late events of one batch make one pane: until the last of them has come, the number is what it was.
    """
    lives: dict[Place, list[tuple[int, Pane]]] = {}
    for each in oracle.published[output]:
        lives.setdefault(each.pane.place, []).append((each.batch, each.pane))
    stands, between = {}, 0
    for place, life in lives.items():
        panes = [pane for batch, pane in life if batch <= nth]
        late = [batch for batch, pane in life if pane.timing is Timing.LATE]
        if late and late[0] <= nth < late[-1]:
            panes = [pane for pane in panes if pane.timing is not Timing.LATE]
            between += 1
        stands |= {place: dict(pane.values) for place, pane in surviving(panes).items()}
    return stands, between


def _place(row: dict[str, Any], output: Output) -> Place:
    start, end = to_micros(row["window_start"]), to_micros(row["window_end"])
    return start, end, tuple(row[name] for name in output.by)
