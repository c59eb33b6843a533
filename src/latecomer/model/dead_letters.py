"""The reasons of dead letters, and what each means."""

from __future__ import annotations

from collections.abc import Mapping

UNREADABLE = "unreadable"
"""Its raw bytes are those of the source; the raw bytes of all other reasons are JSON."""
TOO_LONG = "too_long"
"""Only the first bytes are kept."""
REST = "unreadable_rest"
"""The first bytes are kept."""
TOMBSTONE = "tombstone"
"""Kafka's word for a record without a value."""
INVALID_RECORD = "invalid"
UNKNOWN_FIELDS = "unknown_fields"
UNREADABLE_FILE = "unreadable_file"
DELIVER_AGAIN = (
    "correct the file or, if that is right, the pipeline file; then deliver the file once more under another name: "
    "what was read is not read again"
)
"""The fix for a file that is a dead letter."""
FAILED = "failed"
"""The event is in the log, and an output cannot compute it."""

REASONS: Mapping[str, str] = {
    UNREADABLE: "the row is not in the format of the source, or a value is not of its column's type",
    "no_event_time": "the column of the event time is missing or empty",
    "unreadable_event_time": "the event time is no time, or beyond the calendar",
    "no_arrival_time": "the column of the arrival time (order_by) is missing or empty",
    "unreadable_arrival_time": "the arrival time is no time, or beyond the calendar",
    "too_far_ahead": "the event time is more than watermark.max_future ahead of the arrival",
    "beyond_the_ledger": "an amount has more digits before the point than the ledger adds up",
    UNKNOWN_FIELDS: "the row has fields that are no columns, and unknown_fields is dead_letter",
    INVALID_RECORD: "the schema that the record was written with does not allow it",
    TOMBSTONE: "the record has a key and no value: in a compacted topic, the key was deleted",
    TOO_LONG: "the line is longer than files.max_line; its first bytes are kept",
    UNREADABLE_FILE: "the file cannot be read to its end, or its folder says a value that its column does not take; it "
    "is one dead letter",
    REST: "a message in a file has no end; the rest of the file is one dead letter",
    FAILED: "the event is in the log, and an output cannot compute it: a derived column or its where fails",
}
"""Reason → what it means, in the order in which they are documented."""
