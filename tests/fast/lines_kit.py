"""Lines for both paths of reading: of all types of column, and spoilt a little."""

from __future__ import annotations

import random

COLUMNS = {
    "s": "string",
    "n": "bigint",
    "t": "tinyint",
    "d": "double",
    "b": "boolean",
    "m": "decimal(9,2)",
    "day": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
}


def mutated(line: str, draw: random.Random, letters: str) -> str:
    """The line with a character or two changed, taken out or put twice, or as it is."""
    found = list(line)
    for _ in range(draw.randrange(0, 3)):
        place = draw.randrange(len(found))
        found[place] = draw.choice(["", found[place] * 2, draw.choice(letters)])
    return "".join(found)
