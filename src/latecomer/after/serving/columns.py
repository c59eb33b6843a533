"""The private columns of queries that make and serve corrections. A correction's own are those of states, in
`store/columns.py`."""

from __future__ import annotations

from latecomer.config.names import PRIVATE

GATHERED = f"{PRIVATE}gathered_"
"""Before a source column's name: the late events of a group with their values of it."""
STATES = f"{PRIVATE}states_"
"""Before an aggregate's name: its states on both sides."""
