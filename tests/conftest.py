"""One Spark session for each test process: small, two shuffle partitions, no noise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from latecomer.session import build_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1500m",
        "spark.master": "local[2]",
        "spark.sql.streaming.pollingDelay": "10",
        # The quick compiler alone: the tests' data is too small for the other to pay.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = build_session("tests", **settings)
    yield session
    session.stop()
