"""A query downstream that follows a pipeline while a late batch corrects what it has already read.

The pipeline adds up what each shop takes in a minute. The query keeps the takings of each shop over all minutes, from
the changes that the pipeline publishes: an insert adds a number, a retract takes one back. It never looks back.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import latecomer

HERE = Path(__file__).parent
ON_TIME = [
    ("09:00:10", "09:00:11", "tea stall", 1_000),
    ("09:00:40", "09:00:41", "bookshop", 45_000),
    ("09:01:05", "09:01:06", "tea stall", 1_500),
    ("09:03:00", "09:03:01", "bookshop", 12_000),
    ("09:03:20", "09:03:21", "bookshop", 500),
]
LATE = [
    ("09:00:30", "09:04:00", "tea stall", 2_000),  # from a tunnel, for a minute that is published
    ("09:06:00", "09:06:01", "bookshop", 9_000),
    ("09:07:00", "09:07:01", "bookshop", 700),
]


def arrive(folder: Path, name: str, payments: list[tuple[str, str, str, int]]) -> None:
    """Payments come, in a file."""
    (folder / "arrivals").mkdir(exist_ok=True)
    rows = [
        {"at": f"2026-04-25T{at}Z", "arrived": f"2026-04-25T{arrived}Z", "shop": shop, "paise": paise}
        for at, arrived, shop, paise in payments
    ]
    (folder / "arrivals" / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Takings:
    """What each shop has taken so far, as the changes say."""

    def __init__(self) -> None:
        self.paise: dict[str, int] = {}

    def apply(self, changes: DataFrame, _batch: int) -> None:
        """A micro-batch of changes."""
        signed = F.when(F.col("op") == "insert", F.col("paise")).otherwise(-F.col("paise"))
        for row in changes.groupBy("shop").agg(F.sum(signed).alias("paise")).collect():
            self.paise[row.shop] = self.paise.get(row.shop, 0) + int(row.paise)


def follow(spark: SparkSession, folder: Path) -> list[dict[str, int]]:
    """The takings after the first batch, and after the late one."""
    (folder / "upi.yaml").write_text((HERE / "upi.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    pipeline = latecomer.load_pipeline(folder / "upi.yaml")
    arrive(folder, "1.json", ON_TIME)
    latecomer.run(pipeline, once=True, spark=spark)

    takings, seen = Takings(), []
    changes = latecomer.changes(spark, pipeline, "minutes")
    query = (
        changes.writeStream.foreachBatch(takings.apply)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        seen.append(dict(sorted(takings.paise.items())))
        arrive(folder, "2.json", LATE)
        latecomer.run(pipeline, once=True, spark=spark)
        query.processAllAvailable()
        seen.append(dict(sorted(takings.paise.items())))
    finally:
        query.stop()
    return seen


def main() -> None:
    spark = SparkSession.builder.master("local[2]").appName("downstream").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        before, after = follow(spark, Path(folder))
    sys.stdout.write(f"before the late payment: {before}\nafter it:                {after}\n")
    spark.stop()


if __name__ == "__main__":
    main()
