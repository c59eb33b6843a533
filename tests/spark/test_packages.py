"""Jars that are downloaded by Spark's resolver: what is missing on this machine is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.errors import MachineError
from latecomer.spark.packages import _small_jvm


def test_a_spark_home_without_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(MachineError, match=r"jars has no py4j jar, .*; set SPARK_HOME"), _small_jvm(None):
        pass
