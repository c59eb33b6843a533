"""How far each sink is, and why it is not further: what `latecomer status` prints.

A run keeps a note in the store of how far its sinks are and of those that are down. A sink of our own is asked as well,
which needs no run. A note that was left by a run that has ended says what was wrong then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from latecomer.config.contract import SinkLogic
from latecomer.config.sinks import Sink, Stream
from latecomer.errors import SinkError, SinkOutage
from latecomer.errors.redacting import without_secrets
from latecomer.sink.published import Feed
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
    """What a run wrote down about a sink."""

    output: str | None
    sink: str
    target: str
    reached: int
    since: str | None = None
    """When it went down, if it is."""
    reason: str | None = None
    stream: str = Stream.PANES


def write_notes(root: Location, workers: Sequence[SinkWorker]) -> None:
    """Write down how far the sinks are. It is news for people: where it cannot be written, the run goes on."""
    notes = [asdict(_note(worker)) for worker in workers]
    with suppress(OSError):
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
    """What the last run wrote down, by output, stream, kind and target; nothing where that cannot be read."""
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


def _noted(root: Location, sink: Sink, target: str, feed: Feed) -> Note | None:
    return read_notes(root).get((feed.listed.output, feed.listed.stream, sink.kind, target))


def reached_by(
    root: Location, sink: Sink, target: str, logic: SinkLogic, feed: Feed
) -> tuple[int | None, str | None]:
    """The last batch of a sink, asked from the sink where it can be, else from what the run noted; and why it
    could not be asked. None where nobody knows."""
    refused: str | None = None
    last: int | None = None
    try:
        last = logic.peek()
    except SinkError as error:
        refused = _reason(error)
    if last is None:
        note = _noted(root, sink, target, feed)
        last = note.reached if note is not None else None if refused else -1
    return last, refused


def status_row(
    root: Location, sink: Sink, target: str, logic: SinkLogic, feed: Feed, complete: int
) -> dict[str, Any]:
    """One sink's line."""
    note, running = _noted(root, sink, target, feed), running_on(root) is not None
    last, refused = reached_by(root, sink, target, logic, feed)
    behind = None if last is None else len(feed.missing(last, complete))
    reason = refused or (note.reason if note is not None and behind else None)
    if reason is None and behind and not running:
        reason = "no run is at work"
    down = refused is not None or bool(running and behind and note is not None and note.since)
    since = note.since if note is not None and reason is not None and note.reason else None
    return {
        "output": feed.listed.output,
        "stream": str(feed.listed.stream),
        "sink": sink.kind,
        "target": target,
        "state": "down" if down else "behind" if behind else "up to date",
        "last_batch": last,
        "complete": complete,
        "behind": behind,
        "since": None if since is None else datetime.fromisoformat(since),
        "reason": reason,
        "on_outage": str(sink.on_outage),
    }


def _reason(error: BaseException) -> str:
    return (
        error.reason if isinstance(error, SinkOutage) else without_secrets(str(error) or type(error).__name__)
    )
