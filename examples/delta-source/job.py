"""A Delta table as a stream, handed in to latecomer.

Called with the folder that has the Delta table `taps/` and `shops.yaml`. What is appended to the table while the job
runs is handed in too; with `--once` it ends when it has read what is there.
"""

import sys

from pyspark.sql import SparkSession

import latecomer

folder = sys.argv[1]
delta = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
spark = SparkSession.builder.appName("shops").config(map=delta).getOrCreate()
taps = spark.readStream.format("delta").load(f"{folder}/taps")
writer = taps.writeStream.foreachBatch(latecomer.into(f"{folder}/shops.yaml"))
writer = writer.option("checkpointLocation", f"{folder}/checkpoints/taps")
if "--once" in sys.argv:
    writer = writer.trigger(availableNow=True)
writer.start().awaitTermination()
