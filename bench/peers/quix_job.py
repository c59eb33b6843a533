"""The job as a Quix Streams application.

It reads a topic, keyed by merchant. Windows close by their partition's time, and late events go to a callback.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

from bench.peers.feed import DELAY, WINDOW, run_job, total


def job(_: Path, work: Path, servers: str, topic: str, events: str) -> None:
    """It ends when it has processed so many events."""
    left = int(events)

    def processed(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            app.stop()

    app = Application(
        servers,
        consumer_group="bench",
        auto_offset_reset="earliest",
        state_dir=work / "state",
        loglevel="WARNING",
        on_message_processed=processed,
    )
    with open(work / "totals" / "totals.json", "w") as totals, open(work / "late.json", "w") as late:

        def publish(value: dict[str, Any], key: bytes, *_: Any) -> None:
            row = total(value["start"] * 1000, key.decode(), value["payments"], value["paise"])
            totals.write(row + "\n")

        def keep_late(value: dict[str, Any], *_: Any) -> bool:
            late.write(json.dumps(value) + "\n")
            return False  # no warning in the log

        events_in = app.topic(topic, value_deserializer="json", timestamp_extractor=milliseconds)
        windows = app.dataframe(events_in).tumbling_window(WINDOW, DELAY, on_late=keep_late)
        numbers = windows.agg(payments=Count(), paise=Sum("paise")).final(closing_strategy="partition")
        numbers.update(publish, metadata=True)
        app.run()


def milliseconds(value: dict[str, Any], *_: Any) -> int:
    return int(datetime.fromisoformat(value["event_time"]).timestamp() * 1000)


if __name__ == "__main__":
    run_job(job)
