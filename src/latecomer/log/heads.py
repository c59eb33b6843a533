"""What the log tells the timeline of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from latecomer.model.strategies import Head


@dataclass(frozen=True)
class Heads:
    """What the ticks of a batch brought, per partition; and the sums that the ledger starts from."""

    heads: Sequence[Head]
    earliest: int
    latest: int
    measures: dict[str, Decimal]
