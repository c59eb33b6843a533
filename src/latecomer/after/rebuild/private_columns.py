"""The private columns of what a rebuild changes, beside START and END of `windowing/private_columns.py`."""

from __future__ import annotations

from latecomer.config.names import PRIVATE

CHANGE = f"{PRIVATE}change"
"""Whether the number of a window and key is new, changed or withdrawn, text."""
BEFORE = f"{PRIVATE}before"
"""The values and states that stand, as one struct; null where nothing does."""
AFTER = f"{PRIVATE}after"
"""The values and states that should stand, likewise."""
PRIOR = f"{PRIVATE}prior"
"""The panes that stand, to be taken back where the output takes back what it replaces: an array of structs."""
SEQUENCE = f"{PRIVATE}next"
"""The sequence of the next pane, bigint."""
