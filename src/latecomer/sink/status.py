"""The progress of each sink, and why it is behind: what `latecomer status` prints.

A run notes in the store how far its sinks are and which are down. A built-in sink is asked as well, which needs no run.
The note of a run that has ended says what was wrong then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from latecomer.config.sinks import Stream
from latecomer.errors import SinkError, SinkOutage, StoreError
from latecomer.errors.redacting import without_secrets
from latecomer.sink.published import FedSink
from latecomer.sink.worker import SinkWorker
from latecomer.store.files import Location
from latecomer.store.holding.lock import running_on
from latecomer.store.notes import read_note, write_note

NOTES = "sinks.json"
SCHEMA = pa.schema(
    [
        ("output", pa.string()),
        ("stream", pa.string()),
        ("sink", pa.string()),
        ("target", pa.string()),
        ("state", pa.string()),
        ("last_batch", pa.int64()),
        ("complete", pa.int64()),
        ("behind", pa.int64()),
        ("since", pa.timestamp("us", "UTC")),
        ("reason", pa.string()),
        ("on_outage", pa.string()),
    ]
)


@dataclass(frozen=True)
class Note:
    """A run's note about a sink."""

    output: str | None
    sink: str
    target: str
    reached: int
    since: datetime | None = None
    """When it went down, if it is."""
    reason: str | None = None
    stream: Stream = Stream.PANES


def write_notes(root: Location, workers: Sequence[SinkWorker]) -> None:
    """Note how far the sinks are. This is only for people: where it cannot be written, the run goes on."""
    with suppress(OSError, StoreError):
        write_note(root / NOTES, [_note(worker) for worker in workers], list[Note])


def _note(worker: SinkWorker) -> Note:
    listed, outage = worker.feed.listed, worker.outage
    reason = None if outage is None else outage.reason
    if worker.failure is not None:
        reason = _reason(worker.failure)
    since = None if outage is None else outage.since
    return Note(listed.output, worker.sink.kind, worker.target, worker.reached, since, reason, listed.stream)


def _note_of(root: Location, fed: FedSink) -> Note | None:
    """The last run's note about a sink; None where there is none that can be read."""
    listed = fed.feed.listed
    place = (listed.output, listed.stream, fed.sink.kind, fed.target)
    notes = read_note(root / NOTES, list[Note]) or []
    return next((each for each in notes if (each.output, each.stream, each.sink, each.target) == place), None)


def reached_by(root: Location, fed: FedSink) -> tuple[int | None, str | None]:
    """The last batch of a sink, as the sink itself says, else as the last run noted, else None; and why the sink did
    not answer."""
    refused: str | None = None
    last: int | None = None
    try:
        last = fed.logic.peek()
    except SinkError as error:
        refused = _reason(error)
    if last is None:
        note = _note_of(root, fed)
        last = note.reached if note is not None else None if refused else -1
    return last, refused


def status_row(root: Location, fed: FedSink, complete: int) -> dict[str, Any]:
    note, running = _note_of(root, fed), running_on(root) is not None
    last, refused = reached_by(root, fed)
    behind = None if last is None else len(fed.feed.missing(last, complete))
    reason = refused or (note.reason if note is not None and behind else None)
    if reason is None and behind and not running:
        reason = "no run is at work"
    down = refused is not None or bool(running and behind and note is not None and note.since)
    since = note.since if note is not None and reason is not None and note.reason else None
    return {
        "output": fed.feed.listed.output,
        "stream": str(fed.feed.listed.stream),
        "sink": fed.sink.kind,
        "target": fed.target,
        "state": "down" if down else "behind" if behind else "up to date",
        "last_batch": last,
        "complete": complete,
        "behind": behind,
        "since": since,
        "reason": reason,
        "on_outage": str(fed.sink.on_outage),
    }


def _reason(error: BaseException) -> str:
    return (
        error.reason if isinstance(error, SinkOutage) else without_secrets(str(error) or type(error).__name__)
    )
