"""The private columns of records, before and after they are decoded."""

from __future__ import annotations

import pyarrow as pa

from latecomer.config.checks import PRIVATE
from latecomer.config.own import PolledSource
from latecomer.store.layout import arrow_type

RECORD = PolledSource.RECORD
"""The bytes of a record that is to be decoded, binary."""
POSITION = PolledSource.POSITION
"""Which row of its file it is, bigint."""
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
"""Why a whole file could not be read: such a row stands for it. A line that is too long has an empty text here, and its
first bytes in CORRUPT."""
SCHEMA_ID = f"{PRIVATE}schema_id"
"""The id of the schema that a record was written with, where it says one."""
HEAD = f"{PRIVATE}head"
"""What a record begins with in Confluent's framing, where it names the schema that it was written with, binary."""
METADATA = f"{PRIVATE}metadata"
"""What Spark says of a row's file, where a reader has to be asked before anything is selected."""
EXTRA = f"{PRIVATE}extra_"
"""Before a column's place in a line of CSV: one that the pipeline does not declare, text."""


def arrow_kind(kind: str) -> pa.DataType:
    """The type of a column that is decoded: as it is stored, and a moment without a zone as such."""
    return pa.timestamp("us") if kind == "timestamp_ntz" else arrow_type(kind)
