"""A batch that stops says which column stopped it."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.errors import PipelineError
from latecomer.model.strategies import Bounded
from latecomer.store.layout import EventLayout, PaneLayout
from latecomer.windowing.aggregates import states_of
from latecomer.windowing.firing.stopping import stopping_in_words
from merging_kit import merged_groups

COLUMNS = {"at": "timestamp", "paise": "decimal(28,2)", "fee": "decimal(28,2)", "tax": "decimal(38,0)"}


def layout() -> PaneLayout:
    output = Output(window={"tumbling": "1m"}, aggregates={"paise": "sum(paise)", "fees": "sum(fee)"})
    pipeline = Pipeline(
        name="p",
        store="store",
        source=Source(files=Files(path="in"), columns=COLUMNS),
        event=Event(time="at"),
        watermark=Bounded("1s"),
        outputs={"o": output},
    )
    return PaneLayout(output, EventLayout(pipeline, COLUMNS))


@pytest.mark.parametrize(
    ("state", "column", "sum_"), [("fees", "fee", "sum(fee)"), ("_lc_measure_tax", "tax", "the ledger's tax")]
)
def test_of_several_sums_the_one_that_overflowed_is_named(state: str, column: str, sum_: str) -> None:
    measures = {"tax": "decimal(38,0)"}
    (chosen,) = (each for each in states_of(layout(), measures) if each.name == state)
    # No batch has so many events that a sum of such decimals overflows: the numbers are longer than their column.
    numbers = pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0))
    inputs = [chosen.stored(pa.table({state: numbers}), fresh=True)]
    with pytest.raises(PipelineError) as raised, stopping_in_words("o", layout()):
        merged_groups(chosen, [*inputs, *inputs, *inputs], [[0, 0]] * 3, 1)
    (problem,) = raised.value.problems
    assert (problem.field, problem.value) == ("outputs.o.aggregates", sum_)
    assert f"declare {column} with fewer digits" in str(problem.fix)
