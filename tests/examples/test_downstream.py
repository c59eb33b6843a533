"""The example of a query downstream: it follows a pipeline while a late batch corrects it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.script_kit import loaded

EXAMPLE = Path(__file__).parents[2] / "examples" / "downstream"


@pytest.mark.long
def test_a_late_payment_corrects_what_was_read(spark: SparkSession, tmp_path: Path) -> None:
    example = loaded("downstream_follow", EXAMPLE / "follow.py")
    before, after = example.follow(spark, tmp_path)
    assert before == {"bookshop": 45_000, "tea stall": 2_500}
    assert after == {"bookshop": 57_500, "tea stall": 4_500}
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert str(before) in text
    assert str(after) in text
