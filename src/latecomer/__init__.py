"""The late-data layer for Apache Spark."""
