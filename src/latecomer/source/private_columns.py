"""The private columns of a source's rows. `source/decode/private_columns.py` has KEPT, CORRUPT, SCHEMA_ID and POSITION.

Users' own sources fill the first of them too: `PolledSource` defines their names.
"""

from __future__ import annotations

from latecomer.config.names import PRIVATE
from latecomer.config.user_classes import PolledSource
from latecomer.source.decode.private_columns import BROKEN as BROKEN
from latecomer.source.decode.private_columns import POSITION as POSITION

ORIGIN = PolledSource.ORIGIN
"""Where a row comes from, as the log keeps it, text."""
LANDED = PolledSource.ARRIVAL
"""When a row arrived, by the source's clock, unless one of its own columns says so. If it is left out, the newest of
the slice counts."""
PARTITION = PolledSource.PARTITION
"""The source partition of a row, unless one of its own columns says so. May be left out."""
FULL_ORIGIN = f"{PRIVATE}full_origin"
"""Where a row comes from, as a dead letter shows it, text."""


# For dead letters that are replayed. A replay that was interrupted has these names in its files: do not change them.

FIRST_ARRIVAL = f"{PRIVATE}first_arrival"
"""When a former dead letter arrived for the first time. Its arrival is LANDED, whatever its own column says."""
GIVEN_TIME = f"{PRIVATE}given_time"
"""The event time that a fix computes, in microseconds; null if the row's own column has it."""
NUMBER = f"{PRIVATE}number"
"""The number of the letter within its slice, bigint."""
MISFIT = f"{PRIVATE}misfit"
"""Which value of the fix its column does not take, in words."""
FORM = f"{PRIVATE}form"
"""The index of the record's form."""
FOLDERS = f"{PRIVATE}folders"
"""The column values in the folder names of a record's file."""
