"""An event that comes twice counts once: the first to arrive stands, the others are kept aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from latecomer import gaps
from latecomer.after.reading.reader import Reader
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.ids import event_id
from source.source_kit import dead_letters, ledger_lines, pipeline_in, rows_of, run_once, write_json

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND  # 2026-11-08T12:00:00Z
OUTPUTS = {
    "totals": {
        "window": {"tumbling": "1m"},
        "aggregates": {"paise": "sum(paise)", "n": "count(*)"},
        "allowed_lateness": "2m",
        "late": "update",
    }
}


def row(txn: str | None, paise: int, seen: float, at: float | None = None, **more: Any) -> dict[str, Any]:
    """A payment `seen` so many seconds after the beginning, made `at` (then, unless said)."""
    when = seen if at is None else at
    return {
        "txn": txn,
        "paise": paise,
        "at": BEGIN + int(when * SECOND),
        "seen": BEGIN + int(seen * SECOND),
        **more,
    }


BATCHES = [
    [
        row("a", 1000, seen=9, at=5),
        row("a", 1, seen=5),  # stands later in the file, and came first
        row("a", 2000, seen=9, at=5),
        row("b", 2, seen=6),
        row(None, 4, seen=7),
        row(None, 4, seen=7),
        {**row("dead", 8, seen=8), "at": None},
        row("dead", 16, seen=9),  # its namesake never became an event
        row("", 32, seen=10),
        row("", 3000, seen=11),
        row("forward", 64, seen=100),
    ],
    [
        row("b", 4000, seen=110, at=6),  # across batches
        row("late", 128, seen=111, at=20),
        row("late", 5000, seen=112, at=20),  # a late event twice in a batch
        row(None, 256, seen=113),
        row("c", 512, seen=114),
    ],
    [
        row("late", 6000, seen=120, at=20),  # and once more, a batch later
        row("c", 7000, seen=119, at=130),  # with another time
        row("too_late", 1024, seen=121, at=-600),
        row("too_late", 8000, seen=122, at=-600),
    ],
]


def test_each_id_counts_once_and_every_other_is_on_record(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(
        tmp_path,
        files={"order_by": "seen", "max_files_per_batch": 1},
        schema={"txn": "string", "paise": "bigint", "at": "bigint", "seen": "bigint"},
        event={"id": "txn", "unit": "us"},
        outputs=OUTPUTS,
        ledger=["paise"],
    )
    for nth, batch in enumerate(BATCHES):
        write_json(tmp_path, f"{nth}.json", batch, nth)
    store = run_once(pipeline, spark, drain=True)

    kept = rows_of(store.events, "select batch, event_id, paise from t order by paise")
    assert [(each["batch"], each["event_id"], each["paise"]) for each in kept] == [
        (0, "a", 1), (0, "b", 2), (0, None, 4), (0, None, 4), (0, "dead", 16), (0, "", 32), (0, "forward", 64),
        (1, "late", 128), (1, None, 256), (1, "c", 512), (2, "too_late", 1024),
    ]  # fmt: skip
    again = rows_of(store.duplicates, "select batch, event_id, paise, origin, position from t order by paise")
    assert [tuple(each.values()) for each in again] == [
        (0, "a", 1000, "0.json", 0),
        (0, "a", 2000, "0.json", 2),
        (0, "", 3000, "0.json", 9),
        (1, "b", 4000, "1.json", 0),
        (1, "late", 5000, "1.json", 2),
        (2, "late", 6000, "2.json", 0),
        (2, "c", 7000, "2.json", 1),
        (2, "too_late", 8000, "2.json", 3),
    ]
    assert [reason for reason, *_ in dead_letters(store)] == ["no_event_time"]

    lines = ledger_lines(store, "totals")
    assert [lines[batch, "events"]["duplicate"] for batch in range(3)] == [3, 2, 3]
    assert [lines[batch, "paise"]["duplicate"] for batch in range(3)] == [6000, 9000, 21000]
    assert lines[0, "paise"] == {"received": 6131, "on_time": 123, "duplicate": 6000, "dead_letter": 8}
    assert lines[1, "paise"]["late_accepted"] == 128
    assert lines[2, "paise"] == {"received": 22024, "side_output": 1024, "duplicate": 21000}

    standing = Reader(pipeline).results("totals").to_pylist()
    assert [(each["paise"], each["n"]) for each in standing] == [(187, 7), (832, 3)]
    assert check_ledger(pipeline, spark) == []


def test_an_id_may_be_several_columns(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(
        tmp_path,
        files={"order_by": "seen", "max_files_per_batch": 1},
        schema={"txn": "string", "number": "bigint", "paise": "bigint", "at": "bigint", "seen": "bigint"},
        event={"id": ["txn", "number"], "unit": "us", "producer": "txn", "producer_seq": "number"},
        outputs=OUTPUTS,
        ledger=["paise"],
    )
    batches = [
        [
            row("a", 1, seen=1, number=17),
            row("a", 1000, seen=2, number=17),
            row("a1", 2, seen=3, number=7),
            row('a"\\\n', 4, seen=4, number=1),
            row("a", 8, seen=5, number=None),
            row("a", 8, seen=6, number=None),
            row(None, 16, seen=7, number=17),
            {**row("a", 32, seen=7, number=18), "at": None},
        ],
        [row('a"\\\n', 2000, seen=8, number=1), row("a", 64, seen=9, number=21)],
    ]
    for nth, batch in enumerate(batches):
        write_json(tmp_path, f"{nth}.json", batch, nth)
    store = run_once(pipeline, spark, drain=True)

    kept = rows_of(store.events, "select event_id, txn, number, paise from t order by paise")
    assert [tuple(each.values()) for each in kept] == [
        ('["a","17"]', "a", 17, 1),
        ('["a1","7"]', "a1", 7, 2),
        (event_id(['a"\\\n', "1"]), 'a"\\\n', 1, 4),
        (None, "a", None, 8),
        (None, "a", None, 8),
        (None, None, 17, 16),
        ('["a","21"]', "a", 21, 64),
    ]
    again = rows_of(store.duplicates, "select batch, paise from t order by paise")
    assert [tuple(each.values()) for each in again] == [(0, 1000), (1, 2000)]
    (gap,) = gaps(pipeline).to_pylist()  # 18 is a dead letter
    assert (gap["producer"], gap["first"], gap["last"]) == ("a", 19, 20)
    assert check_ledger(pipeline, spark) == []
