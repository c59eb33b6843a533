"""A store with a log, a timeline and panes, made by hand, and what verbs print of it: reading it needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.cli_kit import MINUTE, NOON, Lake, rows_of
from latecomer.cli import app

SECOND = MINUTE // 60

PIPELINE = """
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema:
    event_time: timestamp
    arrival_time: timestamp
    txn_id: string
    tower: string
    merchant: string
    paise: bigint
    status: string
event: {time: event_time, id: txn_id, partition: tower}
watermark: {delay: 30s}
outputs:
  totals:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: retract
  successes:
    window: {tumbling: 1m}
    by: [merchant]
    where: "status = 'OK'"
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: update
  lowered:
    window: {tumbling: 1m}
    by: [merchant]
    where: "lower(status) = 'ok'"
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: side_output
  parts:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: update
    accumulation: discarding
  dropping:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise)}
    late: drop
  sliding:
    window: {sliding: 2m, every: 1m}
    by: [merchant]
    aggregates: {payments: count(*)}
  visits:
    window: {session: 30s}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 2m
    late: update
ledger: [paise]
"""


class Story(Lake):
    """A pipeline whose batches are written one after the other, each with its events and its watermark."""

    def logged(self, batch: int, at: int, watermark: int | None, events: Sequence[Mapping[str, Any]]) -> None:
        """A batch of one tick that arrived `at` seconds after noon; likewise the watermark it met."""
        met = None if watermark is None else second(watermark)
        self.watermarks(batch, [{"tick": batch, "at": second(at), "watermark": met}])
        self._log(self.store.events, batch, at, events)

    def repeated(self, batch: int, at: int, events: Sequence[Mapping[str, Any]]) -> None:
        """Rows of a batch that were duplicates."""
        self._log(self.store.duplicates, batch, at, events)

    def _log(self, table: Any, batch: int, at: int, events: Sequence[Mapping[str, Any]]) -> None:
        base = {"batch": batch, "tick": batch, "arrival_time": second(at), "origin": f"{batch}.json"}
        rows = [{**base, "position": position, **event} for position, event in enumerate(events)]
        table.append(batch, rows_of(table.schema, rows))

    def set_aside(
        self, output: str, batch: int, event: Mapping[str, Any], position: int, **more: Any
    ) -> None:
        self.late(output, batch, [{**event, "origin": f"{batch}.json", "position": position, **more}])


def second(at: int) -> int:
    return NOON + at * SECOND


def paid(at: int, paise: int | None, merchant: str | None = "amul", **more: Any) -> dict[str, Any]:
    """A payment made `at` seconds after noon."""
    fixed = {"event_time": second(at), "paise": paise, "merchant": merchant, "source_partition": "t1"}
    return {**fixed, "event_id": f"{at}-{paise}", **more}


def shown(
    window: tuple[int, int],
    sequence: int,
    paise: int | None,
    payments: int,
    timing: str = "ON_TIME",
    op: str = "insert",
    merchant: str | None = "amul",
    **more: Any,
) -> dict[str, Any]:
    """A pane of a window given in seconds after noon, with the counts behind it."""
    return {
        "window_start": second(window[0]),
        "window_end": second(window[1]),
        "merchant": merchant,
        "paise": paise,
        "payments": payments,
        "sequence": sequence,
        "timing": timing,
        "op": op,
        "is_last": False,
        "fired_at": second(window[1] + 30),
        "watermark": second(window[1]),
        "_lc_events": payments,
        "_lc_measure_paise": paise,
        **more,
    }


def new_story(folder: Path, pipeline: str = PIPELINE) -> Story:
    file = folder / "pipeline.yaml"
    file.write_text(pipeline, encoding="utf-8")
    story = Story(file)
    story.store.pin()
    return story


def printed(*arguments: object) -> str:
    """What a verb of the command line prints."""
    ended = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout
