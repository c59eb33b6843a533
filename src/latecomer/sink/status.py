"""The progress of each sink, and why it is behind: what `latecomer status` prints.

A run notes in the store how far its sinks are and which are down. A built-in sink is asked as well, which needs no run.
The note of a run that has ended says what was wrong then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from latecomer.config.sinks import Stream
from latecomer.errors import SinkError, SinkOutage, StoreError
from latecomer.errors.redacting import without_secrets
from latecomer.sink.published import FedSink
from latecomer.sink.worker import SinkWorker
from latecomer.store.files import Location, read_text, replace_text
from latecomer.store.lock import running_on

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
    since: str | None = None
    """When it went down, if it is."""
    reason: str | None = None
    stream: str = Stream.PANES


def write_notes(root: Location, workers: Sequence[SinkWorker]) -> None:
    """Note how far the sinks are. This is only for people: where it cannot be written, the run goes on."""
    notes = [asdict(_note(worker)) for worker in workers]
    with suppress(OSError, StoreError):
        replace_text(root / NOTES, json.dumps(notes, indent=1) + "\n")


def _note(worker: SinkWorker) -> Note:
    outage = worker.outage
    since = None if outage is None else outage.since.isoformat()
    reason = None if outage is None else outage.reason
    if worker.failure is not None:
        reason = _reason(worker.failure)
    output, stream = worker.feed.listed.output, worker.feed.listed.stream
    return Note(output, worker.sink.kind, worker.target, worker.reached, since, reason, stream)


def read_notes(root: Location) -> dict[tuple[str | None, str, str, str], Note]:
    """The notes of the last run, by output, stream, kind and target; none where they cannot be read."""
    try:
        listed: Any = json.loads(read_text(root / NOTES))
        notes = [Note(**each) for each in listed]
        for note in notes:
            if type(note.reached) is not int:
                return {}
            if note.since is not None:
                datetime.fromisoformat(note.since)
        return {(note.output, note.stream, note.sink, note.target): note for note in notes}
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _note_of(root: Location, fed: FedSink) -> Note | None:
    listed = fed.feed.listed
    return read_notes(root).get((listed.output, listed.stream, fed.sink.kind, fed.target))


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
        "since": None if since is None else datetime.fromisoformat(since),
        "reason": reason,
        "on_outage": str(fed.sink.on_outage),
    }


def _reason(error: BaseException) -> str:
    return (
        error.reason if isinstance(error, SinkOutage) else without_secrets(str(error) or type(error).__name__)
    )
