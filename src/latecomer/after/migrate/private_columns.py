"""The private columns of events whose two shapes are compared."""

from __future__ import annotations

from latecomer.config.names import PRIVATE

BY_SPARK = f"{PRIVATE}made_"
"""The prefix of the columns that Spark computes; the number of the expression follows."""
ENVELOPE = ("arrival_time", "producer", "schema_id", "event_id", "batch", "origin", "position")
"""The columns of the log that a comparison needs besides the two shapes."""
