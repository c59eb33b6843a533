"""How many random examples a test without Spark draws: a few in `make test`, many in `make test-long`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

VARIABLE = "LATECOMER_TEST_EXAMPLES"
"""How many times as many; it is set in `make test-long`, where the examples are also new ones each time."""
_TIMES = int(os.environ.get(VARIABLE, "1"))

usual = settings(max_examples=20 * _TIMES, derandomize=_TIMES == 1, deadline=None)  # machines are noisy


def drawn(examples: int, **others: Any) -> settings:
    """So many examples in `make test`."""
    return settings(usual, max_examples=examples * _TIMES, **others)
