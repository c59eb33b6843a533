"""How many panes a second the Postgres sink takes: new, replaced and corrected ones, and rows that are appended."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from latecomer.config.contract import PaneShape, RowShape, Shape, SinkLogic
from latecomer.config.sinks import PostgresSink
from latecomer.sink import open_sink

sys.path.append(str(Path(__file__).parents[1] / "tests"))

MOMENT = pa.timestamp("us", "UTC")
START, MINUTE = 1_777_125_600_000_000, 60_000_000
COLUMNS = {
    "window_start": MOMENT,
    "window_end": MOMENT,
    "merchant": pa.string(),
    "paise": pa.decimal128(38, 0),
}
COLUMNS |= {"payments": pa.int64(), "sequence": pa.int64(), "timing": pa.string(), "op": pa.string()}
COLUMNS |= {"is_last": pa.bool_(), "batch": pa.int64(), "fired_at": MOMENT}
PANES = PaneShape("totals", ("merchant",), ("paise", "payments"), pa.schema(list(COLUMNS.items())))
ROWS = RowShape("totals_late", "totals.late", ("batch",), PANES.standing)


def panes(batch: int, rows: int, window: int, sequence: int, op: str = "insert") -> pa.Table:
    """A batch of one pane a merchant, in one window."""
    start = START + window * MINUTE
    columns = {
        "window_start": pa.array([start] * rows, MOMENT),
        "window_end": pa.array([start + MINUTE] * rows, MOMENT),
        "merchant": pa.array([f"merchant-{number:07d}" for number in range(rows)]),
        "paise": pa.array([number * 7 + sequence for number in range(rows)]).cast(pa.decimal128(38, 0)),
        "payments": pa.array(range(rows), pa.int64()),
        "sequence": pa.array([sequence] * rows, pa.int64()),
        "timing": pa.array(["LATE" if sequence else "ON_TIME"] * rows),
        "op": pa.array([op] * rows),
        "is_last": pa.array([False] * rows),
        "batch": pa.array([batch] * rows, pa.int64()),
        "fired_at": pa.array([start + MINUTE] * rows, MOMENT),
    }
    return pa.table(columns, PANES.schema)


def corrected(batch: int, rows: int, window: int, sequence: int) -> pa.Table:
    """Likewise, each pane after one that takes back the one before: two rows a number."""
    back = panes(batch, rows, window, sequence - 1, "retract")
    both = pa.concat_tables([back, panes(batch, rows, window, sequence)])
    return both.take([each for row in range(rows) for each in (row, rows + row)])


WAYS: dict[str, tuple[Shape, Callable[[int, int], pa.Table]]] = {
    "new": (PANES, lambda batch, rows: panes(batch, rows, batch, 0)),
    "replaced": (PANES, lambda batch, rows: panes(batch, rows, 0, batch)),
    "retracted and inserted": (PANES, lambda batch, rows: corrected(batch, rows // 2, 0, batch + 1)),
    "appended": (ROWS, lambda batch, rows: panes(batch, rows, batch, 0).select(ROWS.schema.names)),
}


@contextmanager
def opened(target: str, schema: str, shape: Shape) -> Iterator[SinkLogic]:
    logic = open_sink(PostgresSink(target=target, schema=schema), Path(), "bench", shape)
    try:
        yield logic
    finally:
        logic.close()


def seconds_a_batch(target: str, way: str, rows: int, batches: int) -> float:
    """The median; the first batch is left out."""
    shape, batch_of = WAYS[way]
    taken = []
    with opened(target, f"{way} {rows}", shape) as sink:
        for batch in range(batches + 1):
            given = batch_of(batch, rows)
            began = time.perf_counter()
            sink.apply(batch, given)
            taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.postgres", description=__doc__)
    parser.add_argument(
        "--target", help="a server; without it one is started from the binaries that are installed"
    )
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--work", help="is not needed")
    asked = parser.parse_args()
    if asked.target:
        measure(asked.target, asked.batches)
        return
    from latecomer.testing.servers import postgres_binaries
    from postgres_kit import running

    found = postgres_binaries()
    if found is None:
        raise SystemExit(
            "no Postgres here; give --target, or LATECOMER_TEST_POSTGRES, the folder of its binaries"
        )
    with running(found, durable=True) as server:
        measure(server.url_with_password, asked.batches)


def measure(target: str, batches: int) -> None:
    found = [
        {"way": way, "rows": rows, "seconds": seconds_a_batch(target, way, rows, batches)}
        for way in WAYS
        for rows in (1_000, 20_000, 200_000)
    ]
    print(json.dumps({"runs": found}))


if __name__ == "__main__":
    main()
