"""The states of aggregates: what they are made of, and what they cost the aggregates that need none."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.config.outputs import Output
from latecomer.model.aggregates import FUNCTIONS, parse_aggregate
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.panes import surviving
from latecomer.model.strategies import Bounded
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import PaneLayout
from latecomer.store.state_types import state_parts
from latecomer.store.store import Store
from latecomer.windowing.aggregates import states_of
from latecomer.windowing.merge import Merger
from spark_kit import Bench, stored_panes

KINDS = {"whole": "int", "money": "decimal(18,4)", "real": "float", "city": "string", "when": "timestamp"}


def written(function: str, column: str) -> str:
    if function == "count_distinct":
        return f"count(distinct {column})"
    argument = {"top_k": ", 3", "collect": ", 3", "approx_percentile": ", 0.5"}.get(function, "")
    return f"{function}({column}{argument})"


def bench(spark: SparkSession | None, folder: Path, **aggregates: str) -> Bench:
    output = Output(window={"tumbling": "1m"}, by=["city"], aggregates=aggregates)
    return Bench(spark, folder, Bounded("1s"), {"out": output}, KINDS, measures=(), ids=False)  # type: ignore[arg-type]


def merger_of(made: Bench) -> Merger:
    store = Store(made.pipeline, made.pipeline.source.columns or {})
    return Merger(PaneLayout(made.outputs["out"], store.layout), {})


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("column", KINDS)
def test_who_merges_without_spark_knows_the_parts_of_a_state(
    function: str, column: str, tmp_path: Path
) -> None:
    merger = merger_of(bench(None, tmp_path, x=written(function, column)))
    (*_, logic) = states_of(merger.layout, {})
    known = state_parts(parse_aggregate(written(function, column)), KINDS[column])
    assert logic.columns == {f"_lc_x_{part}": kind for part, kind in known.items()}


def test_the_order_of_events_is_read_only_where_a_state_goes_by_it(tmp_path: Path) -> None:
    common = merger_of(bench(None, tmp_path / "a", s="sum(money)", n="count(*)", t="top_k(whole, 3)"))
    assert not {ORIGIN, POSITION} & set(common.columns)
    assert not any(state.needs_groups for state in common.states[:-1]), "Arrow folds it by itself"
    keeping = merger_of(bench(None, tmp_path / "b", s="sum(money)", b="first(whole)"))
    assert {ORIGIN, POSITION} <= set(keeping.columns)


def test_a_column_of_any_name_is_written_in_backticks(spark: SparkSession, tmp_path: Path) -> None:
    """The documents' own example, and names with backticks of their own."""
    output = Output(
        window={"tumbling": "1m"},
        aggregates={
            "net": "sum(`net amount`)",
            "kinds": "count(distinct `net amount`)",
            "begins": "first(`a``b`)",
            "often": "top_k(`a``b`, 1)",
        },
        allowed_lateness="1h",
        late="update",
    )
    payload = {"net amount": "bigint", "a`b": "string"}
    rows = [(0, 5, "x"), (1, 5, None), (0, 7, "y"), (130, 1, "z"), (2, 9, "y")]
    events = [
        Arrival(second * 1_000_000, 10_000_000 * nth, payload={"net amount": net, "a`b": text})
        for nth, (second, net, text) in enumerate(rows, 14)
    ]
    made = Bench(spark, tmp_path, Bounded("1s"), {"out": output}, payload, measures=(), ids=False)
    standing = surviving(
        pane for _, pane in stored_panes(made.run([events[:4], events[4:]], drain=True), "out")
    )
    assert standing[0, 60_000_000, ()].values == {
        "net": 26,
        "kinds": 3,
        "begins": "x",
        "often": '[{"value":"y","count":2}]',
    }
    found = Reader(made.pipeline).results("out").to_pylist()
    assert [row["net"] for row in found] == [26, 1]
