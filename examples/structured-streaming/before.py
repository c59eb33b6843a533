"""What each shop took in each minute, as a Structured Streaming job of one's own.

Called with the folder that has `taps/`, which it reads, and gets `totals/`, which it writes.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

folder = sys.argv[1]
spark = SparkSession.builder.appName("shops").getOrCreate()
schema = "id string, at timestamp, seen timestamp, shop string, paise bigint"
taps = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{folder}/taps")
paid = taps.where("paise > 0")
minutes = paid.withWatermark("at", "30 seconds").groupBy(F.window("at", "1 minute"), "shop")
totals = minutes.agg(F.sum("paise").alias("paise"))
writer = totals.writeStream.format("json").option("path", f"{folder}/totals")
writer = writer.option("checkpointLocation", f"{folder}/checkpoints/totals")
writer.trigger(availableNow=True).start().awaitTermination()
