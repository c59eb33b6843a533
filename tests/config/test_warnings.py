"""What a pipeline file may say, and is warned of."""

from __future__ import annotations

from pathlib import Path

from config.mistakes_kit import GOOD, KAFKA
from latecomer.config.load import doubts, parse_pipeline, warnings


def test_dropping_what_returns_from_silence_is_warned_of(tmp_path: Path) -> None:
    """Allowed, for the allowed lateness covers idle_after; but a silence may last longer than both."""
    file = tmp_path / "pipeline.yaml"

    def warned(text: str) -> list[str]:
        file.write_text(text, encoding="utf-8")
        return [str(problem) for problem in warnings(parse_pipeline(text, file), file)]

    dropping = GOOD.replace("    late: update", "    late: update\n    too_late: drop")
    (one,) = warned(dropping)
    assert one.startswith(f"{file}:16: outputs.totals.too_late: a partition that is silent for longer than")
    assert "fix: write too_late: side_output" in one
    (other,) = warned(GOOD.replace("late: update", "late: drop"))
    assert other.startswith(f"{file}:15: outputs.totals.late: a partition")
    assert warned(GOOD) == []
    assert warned(dropping.replace(", idle_after: 2m", "")) == []


def test_partitions_without_idle_after_are_warned_of_by_validate(tmp_path: Path) -> None:
    """One row with a wrong name in the partition column would hold the watermark for ever."""
    file = tmp_path / "pipeline.yaml"

    def warned(text: str) -> list[str]:
        file.write_text(text, encoding="utf-8")
        return [str(problem) for problem in doubts(parse_pipeline(text, file), file)]

    assert warned(GOOD) == []
    (one,) = warned(GOOD.replace(", idle_after: 2m", ""))
    assert "watermark.idle_after: is not set, so the watermark waits for every" in one
    assert "idle_after: 5m" in one
    (of_kafka,) = warned(KAFKA)
    assert "waits for every partition of the topics: one that has no records, or falls silent" in of_kafka
    assert warned(KAFKA.replace("delay: 1m", "delay: 1m, idle_after: 5m")) == []
