"""A pipeline file without mistakes, and what is wrong with it once it is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.load import check_against, check_renames, parse_pipeline
from latecomer.errors import PipelineError

GOOD = """\
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema: {event_time: string, arrival_time: string, txn: string, tower: string, paise: bigint, fare: double}
event: {time: event_time, id: txn, partition: tower}
watermark: {strategy: bounded, delay: 30s, idle_after: 2m}
ledger: [paise]
outputs:
  totals:
    window: {tumbling: 1m}
    by: [tower]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: update
    sinks: [{sqlite: results.db}]
"""

KAFKA = """
name: shops
store: ./store
source:
  kafka: {servers: "${env:NO_SERVERS}", topics: [a], options: {sasl.password: "${env:NO_WORD}"}}
  schema: {at: string}
event: {time: at}
watermark: {delay: 1m}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {events: count(*)}
    late_to: [{kafka: "${env:NO_SINK}"}]
dead_letters_to: [{postgres: "${env:NO_TARGET}"}]
"""


def problems(text: str, folder: Path) -> list[str]:
    file = folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PipelineError) as caught:
        load(text, file)
    return [str(problem) for problem in caught.value.problems]


def load(text: str, file: Path) -> None:
    pipeline = parse_pipeline(text, file)
    check_renames(pipeline, pipeline.source.columns or {}, file)
    check_against(pipeline, pipeline.declared_columns or {}, file)


def require_named(folder: Path, written: str, instead: str, line: int, field: str, fix: str) -> None:
    """With `instead` in place of what is `written`, the line and the field of the mistake are named, and its fix."""
    outcome = problems(GOOD.replace(written, instead, 1), folder)
    assert any(f"pipeline.yaml:{line}: {field}: " in each and fix in each for each in outcome), outcome
