"""How long a text, bytes or a list of an Avro record may claim to be.

A damaged record may claim any length. Java would make room for it first.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

LIMITS = {
    "org.apache.avro.limits.string.maxLength": 64 << 20,
    "org.apache.avro.limits.bytes.maxLength": 64 << 20,
    "org.apache.avro.limits.collectionItems.maxLength": 4 << 20,
}
"""Java's own names for them, in bytes and items."""


def limiting_options() -> str:
    """The limits as options of a JVM that has yet to start."""
    return " ".join(f"-D{name}={most}" for name, most in LIMITS.items())


def limit_avro(spark: SparkSession) -> None:
    """Set the limits in the JVM of a session. Those that its user has set stay as they are.

    Java reads its limits once, before its first record, and that may have been long ago: it is made to read them again.
    """
    jvm: Any = spark._jvm
    java = jvm.java.lang
    missing = [name for name in LIMITS if java.System.getProperty(name) is None]
    for name in missing:
        java.System.setProperty(name, str(LIMITS[name]))
    if missing:
        gateway: Any = spark.sparkContext._gateway
        none = gateway.new_array
        loader = java.Thread.currentThread().getContextClassLoader()
        limits = java.Class.forName("org.apache.avro.SystemLimitException", True, loader)
        read_again = limits.getDeclaredMethod("resetLimits", none(java.Class, 0))
        read_again.setAccessible(True)
        read_again.invoke(None, none(java.Object, 0))
