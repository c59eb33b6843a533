"""The private columns of events whose two shapes are compared."""

from __future__ import annotations

from latecomer.config.names import PRIVATE

BY_SPARK = f"{PRIVATE}made_"
"""Before the number of an expression: the column in which Spark has computed it."""
ENVELOPE = ("arrival_time", "producer", "schema_id", "event_id", "batch", "origin", "position")
"""The columns of the log that a comparison keeps beside the two shapes."""
