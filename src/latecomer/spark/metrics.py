"""Numbers in Spark's own metrics system, which can be read by JMX, Graphite or Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession


class SparkMetrics:
    """Gauges under names such as `latecomer.NAME.lag_seconds`, in the source `AccumulatorSource` of the driver."""

    def __init__(self, spark: SparkSession, prefix: str, names: Iterable[str]) -> None:
        self.values = dict.fromkeys(names, 0.0)
        self._gauges = _registered(spark, prefix, tuple(self.values))

    def set(self, values: Mapping[str, float]) -> None:
        """Set some of the numbers."""
        for name, value in values.items():
            if value != self.values[name]:
                self._gauges[name].setValue(float(value))
        self.values |= values


def _registered(spark: SparkSession, prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The gauges of a prefix. A Spark context registers a name only once: the gauges of an earlier run are reused."""
    context, jvm = spark.sparkContext, spark._jvm
    assert jvm is not None  # noqa: S101
    known: dict[str, dict[str, Any]] = context.__dict__.setdefault("_latecomer_gauges", {})
    if prefix not in known:
        java = context._jsc.sc()
        gauges = {name: java.doubleAccumulator(f"{prefix}.{name}") for name in names}
        listed = jvm.java.util.HashMap()
        for name, gauge in gauges.items():
            listed.put(f"{prefix}.{name}", gauge)
        source = getattr(jvm, "org.apache.spark.metrics.source.DoubleAccumulatorSource$")
        getattr(source, "MODULE$").register(java, jvm.PythonUtils.toScalaMap(listed))
        known[prefix] = gauges
    for gauge in known[prefix].values():
        gauge.setValue(0.0)
    return known[prefix]
