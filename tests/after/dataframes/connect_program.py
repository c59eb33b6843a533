"""What a client of Spark Connect does with a store: a program of its own, for its server is a JVM of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import latecomer


def main(file: str, folder: str) -> None:
    spark = SparkSession.builder.remote("local[1]").getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    latecomer.register(spark)
    options = {"pipeline": file, "output": "minutes"}
    rows = spark.read.format("latecomer").options(**options).load().where("merchant = 'a'")
    outcome = {"results": sorted(int(row.paise) for row in rows.collect())}
    outcome["called"] = sorted(int(row.paise) for row in latecomer.results(spark, file, "minutes").collect())
    written = f"using latecomer options (pipeline '{file}', output 'minutes')"
    spark.sql(f"create temporary view minutes {written}")
    outcome["sql"] = [int(row[0]) for row in spark.sql("select sum(paise) from minutes").collect()]
    changes = latecomer.changes(spark, file, "minutes").writeStream.format("parquet")
    place = {"path": str(Path(folder) / "changes"), "checkpointLocation": str(Path(folder) / "checkpoint")}
    changes.options(**place).trigger(availableNow=True).start().awaitTermination()
    published = spark.read.parquet(place["path"])
    outcome["changes"] = sorted([row.op, int(row.paise)] for row in published.collect())
    try:
        _ = spark.read.format("latecomer").options(pipeline=file, output="hours").load().schema
    except AnalysisException as error:
        outcome["mistake"] = next(line for line in str(error).splitlines() if "option output" in line)
    spark.stop()
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
