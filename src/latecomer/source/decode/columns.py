"""The private columns of records, before and after they are decoded."""

from __future__ import annotations

from latecomer.config.names import PRIVATE
from latecomer.config.own import PolledSource

RECORD = PolledSource.RECORD
"""The bytes of a record that is to be decoded, binary."""
CORRUPT = f"{PRIVATE}corrupt"
"""The bytes of a record that could not be decoded; null for all others."""
KEPT = f"{PRIVATE}kept"
"""The fields of a record that the pipeline does not declare, as JSON text; null where it has none. A record that is
corrupt for nothing else has them too."""
INVALID = f"{PRIVATE}invalid"
"""Whether a record is corrupt because the schema that it was written with does not allow it, where that is checked."""
POSITION = PolledSource.POSITION
"""Which row of its origin it is, bigint."""
BROKEN = f"{PRIVATE}broken"
"""Why a whole file could not be read: such a row stands for it. A line that is too long has its size here, and its
first bytes in CORRUPT."""
SCHEMA_ID = f"{PRIVATE}schema_id"
"""The id of the schema that a record was written with, where it says one."""
EXTRA = f"{PRIVATE}extra_"
"""Before a column's place in a line of CSV: one that the pipeline does not declare, text."""
