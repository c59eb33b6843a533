"""The private columns of a source's rows. `source/decode/columns.py` has KEPT, CORRUPT, SCHEMA_ID and POSITION.

The first of them are for sources of a user's own, too: `PolledSource` has their texts.
"""

from __future__ import annotations

from latecomer.config.names import PRIVATE
from latecomer.config.own import PolledSource
from latecomer.source.decode.columns import BROKEN as BROKEN
from latecomer.source.decode.columns import POSITION as POSITION

ORIGIN = PolledSource.ORIGIN
"""Where a row comes from, as the log keeps it, text."""
LANDED = PolledSource.ARRIVAL
"""When a row came, by the source's clock: its arrival, unless a column of its own says that. May be left out where a
column does; the slice's newest counts then."""
PARTITION = PolledSource.PARTITION
"""The source partition of a row, where no column of its own says that. May be left out."""
FULL_ORIGIN = f"{PRIVATE}full_origin"
"""Where a row comes from, as a dead letter tells it, text."""


# Of dead letters that are tried again; some are in a replay that is under way, so that all of these texts stay

FIRST_ARRIVAL = f"{PRIVATE}first_arrival"
"""When a row came for the first time, where it was a dead letter then. It arrives when it landed, whatever a column of
its own says."""
GIVEN_TIME = f"{PRIVATE}given_time"
"""The event time that a fix has read, in microseconds; null where the row's own column says it."""
NUMBER = f"{PRIVATE}number"
"""Which of the letters of a slice it is, bigint."""
MISFIT = f"{PRIVATE}misfit"
"""What the fix makes and its column does not take, in words."""
FORM = f"{PRIVATE}form"
"""Which form a record has."""
FOLDERS = f"{PRIVATE}folders"
"""What the folders of a record's file say of its columns."""
