"""The private columns of queries that make and serve corrections. The columns of states that a correction stores are in
`store/private_columns.py`."""

from __future__ import annotations

from latecomer.config.names import PRIVATE

GATHERED = f"{PRIVATE}gathered_"
"""The prefix of a source column: the late events of a group, with their values of it."""
STATES = f"{PRIVATE}states_"
"""The prefix of an aggregate: its states in base and corrections."""
