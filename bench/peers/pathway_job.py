"""The job in Pathway. It publishes every change of a window, early and late, and has no watermark but a cutoff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pathway as pw

from bench.peers.feed import DELAY, LATENESS, WINDOW, Finished, run_job, total


class Events(pw.Schema):
    event_time: str
    merchant: str
    paise: int


def job(source: Path, work: Path, events: str) -> None:
    """A folder never ends for Pathway: the job does when its windows hold so many events."""
    lines = pw.io.fs.read(source, format="json", schema=Events, mode="streaming")
    at = lines.event_time.dt.strptime("%Y-%m-%dT%H:%M:%S%.fZ")
    windows = lines.with_columns(at=at).windowby(
        pw.this.at,
        window=pw.temporal.tumbling(duration=WINDOW),
        instance=pw.this.merchant,
        behavior=pw.temporal.common_behavior(cutoff=DELAY + LATENESS),
    )
    numbers = windows.reduce(
        start=pw.this._pw_window_start.dt.timestamp(unit="us"),
        merchant=pw.this._pw_instance,
        payments=pw.reducers.count(),
        paise=pw.reducers.sum(pw.this.paise),
    )
    with open(work / "totals" / "totals.json", "w") as totals:
        held = 0

        def changed(row: dict[str, Any], is_addition: bool, **_: Any) -> None:
            nonlocal held
            held += row["payments"] if is_addition else -row["payments"]
            if is_addition:
                totals.write(
                    total(round(row["start"]), row["merchant"], row["payments"], row["paise"]) + "\n"
                )

        def finished(_: int) -> None:
            if held == int(events):
                totals.flush()
                raise Finished

        pw.io.subscribe(numbers, changed, on_time_end=finished)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    run_job(job)
