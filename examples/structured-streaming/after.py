"""What each shop took in each minute, as a Structured Streaming job of one's own.

Called with the folder that has `taps/`, which it reads, and gets `totals/`, which it writes.
"""

import sys

from pyspark.sql import SparkSession

import latecomer

folder = sys.argv[1]
spark = SparkSession.builder.appName("shops").getOrCreate()
schema = "id string, at timestamp, seen timestamp, shop string, paise bigint"
taps = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{folder}/taps")
paid = taps.where("paise > 0")
writer = paid.writeStream.foreachBatch(latecomer.into(f"{folder}/shops.yaml"))
writer = writer.option("checkpointLocation", f"{folder}/checkpoints/paid")
writer.trigger(availableNow=True).start().awaitTermination()
