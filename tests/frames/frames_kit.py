"""A stream of small files, and a pipeline that their rows are handed in to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import latecomer

START = datetime(2026, 11, 8, 14, 0, tzinfo=UTC)
SCHEMA = "id bigint, at timestamp, came timestamp, shop string, paise bigint"
PIPELINE = """\
name: taps
store: ./store
source: {dataframe: {order_by: came}}
event: {time: at, id: id}
watermark: {delay: 10s}
ledger: [paise]
outputs:
  minutes:
    window: {tumbling: 1m}
    by: [shop]
    aggregates: {taps: count(*), paise: sum(paise)}
    allowed_lateness: 2m
    late: retract
"""


def write_pipeline(folder: Path, text: str = PIPELINE) -> Path:
    file = folder / "pipeline.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def tap(nth: int, at: float, came: float, shop: str = "a", paise: int = 1) -> dict[str, Any]:
    """A row; times are seconds after the start."""

    def moment(seconds: float) -> str:
        return (START + timedelta(seconds=seconds)).isoformat()

    return {"id": nth, "at": moment(at), "came": moment(came), "shop": shop, "paise": paise}


def drop(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """A file that is there all at once."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(folder / f"{name}.json")


def taps_of(count: int = 6) -> list[list[dict[str, Any]]]:
    """Batches of taps, of which some are late, some come again, and some are too late."""
    batches = []
    for batch in range(count):
        base, now = 40 * batch, 40.0 * batch + 39
        rows = [tap(100 * batch + nth, base + nth, now, "ab"[nth % 2], 100 + nth) for nth in range(0, 40, 4)]
        if batch:
            rows.append(tap(100 * batch + 50, max(base - 70, 0), now, "a", 7))
            rows.append(tap(100 * batch + 51, 0, now, "b", 9))
            rows.append(tap(100 * (batch - 1), base - 40, now, "a", 100))  # came before
        batches.append(rows)
    return batches


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


@contextmanager
def query_into(
    stream: DataFrame, sink: latecomer.Into, checkpoint: Path, **trigger: Any
) -> Iterator[StreamingQuery]:
    writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query
    finally:
        query.stop()
        sink.close()


def left(file: Path) -> dict[str, list[Any]]:
    """What a store says in the end, without what is of the moment."""
    reader = latecomer.Reader(latecomer.load_pipeline(file))
    panes = reader.panes("minutes").select(["window_start", "shop", "op", "taps", "paise", "sequence"])
    late = reader.late("minutes").select(["id", "shop", "paise"])
    return {
        "results": sorted(map(str, reader.results("minutes").drop_columns(["sequence"]).to_pylist())),
        "panes": sorted(map(str, panes.to_pylist())),
        "late": sorted(map(str, late.to_pylist())),
        "ledger": [
            {"unit": row["unit"], "received": row["received"], "duplicate": row["duplicate"]}
            for row in reader.ledger().to_pylist()
        ],
    }
