"""The private columns of records, before and after they are decoded."""

from __future__ import annotations

from latecomer.config.names import PRIVATE
from latecomer.config.user_classes import PolledSource

RECORD = PolledSource.RECORD
"""The bytes of a record before it is decoded, binary."""
CORRUPT = f"{PRIVATE}corrupt"
"""The bytes of a record that could not be decoded; null for all others."""
KEPT = f"{PRIVATE}kept"
"""The fields of a record that the pipeline does not declare, as JSON text; null if it has none. Also set for a record
that is corrupt only because of them."""
INVALID = f"{PRIVATE}invalid"
"""Whether a record is corrupt because its writer's schema does not allow it, if that is checked."""
POSITION = PolledSource.POSITION
"""The number of a row within its origin, bigint."""
BROKEN = f"{PRIVATE}broken"
"""Why a whole file could not be read; the row stands for the file. A line that is too long has its size here, and its
first bytes in CORRUPT."""
SCHEMA_ID = f"{PRIVATE}schema_id"
"""The id of the schema that a record was written with, if the record names one."""
EXTRA = f"{PRIVATE}extra_"
"""Prefix for the CSV columns that the pipeline does not declare; their place in the line follows. Text."""
WRONG = f"{PRIVATE}wrong"
"""Whether a record is corrupt, until its bytes take the place of this column."""
