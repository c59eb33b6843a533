"""Names that are latecomer's own, and those that no column can have."""

from __future__ import annotations

import re

RESERVED = (
    "window_start",
    "window_end",
    "sequence",
    "timing",
    "op",
    "is_last",
    "batch",
    "fired_at",
    "published_at",
    "watermark",
)
PRIVATE = "_lc_"
OWN_STATES = ("new_events", "new_behind", "new_assignments", "new_partly")
"""What a state has of its own, beside the measures of the ledger, whose names begin with `measure_`."""
STATE_PARTS = (
    *(
        "beyond",
        "count",
        "event",
        "events",
        "high",
        "low",
        "mean",
        "merged",
        "rough_squares",
        "rough_sum",
        "single",
    ),
    *("sketch", "spread", "squares", "states", "sum", "tally"),
)
"""What the parts of an aggregate's state are called, after its name."""
UNSTORABLE = re.compile(r"[ ,;{}()\n\t=]")
"""What no column of a Delta table may have in its name."""
