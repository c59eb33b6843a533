"""Names that are reserved for latecomer, and characters that no column name can have."""

from __future__ import annotations

import re

from latecomer.model.words import words

RESERVED = words("window_start window_end sequence timing op is_last batch fired_at published_at watermark")
PRIVATE = "_lc_"
OWN_STATES = ("new_events", "new_behind", "new_assignments", "new_partly")
"""Columns of a state besides its aggregates and the measures of the ledger, whose names begin with `measure_`."""
STATE_PARTS = words(
    "beyond count event events high low mean merged rough_squares rough_sum single sketch spread squares states sum "
    "tally"
)
"""The endings of the columns that hold the parts of an aggregate's state, after its name."""
UNSTORABLE = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that no column name of a Delta table may have."""
