"""Several sources: each has its own strategy, and the watermark is the minimum over all of them.

The partitions of a source have its name in front: `app/payments-0`, or `app` where it has none. As long as no partition
of a source is known, the source's name stands for its partitions, and holds the watermark like any partition without
events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from pydantic import SerializeAsAny

from latecomer.model.strategies import Strategy

BETWEEN = "/"


def partition_of(source: str, partition: str | None) -> str:
    """The timeline's name for a partition of a source.

    >>> partition_of("app", "payments-0"), partition_of("app", "")
    ('app/payments-0', 'app')
    """
    return f"{source}{BETWEEN}{partition}" if source and partition else source or partition or ""


def split_partition(partition: str) -> tuple[str, str]:
    """The source of a partition, and the source's own name for it.

    >>> split_partition("app/eu/0"), split_partition("app")
    (('app', 'eu/0'), ('app', ''))
    """
    source, _, own = partition.partition(BETWEEN)
    return source, own


class BySource(Strategy):
    """Each source by its own strategy. Ticks are the same for all of them."""

    strategy: Literal["by source"] = "by source"
    sources: dict[str, SerializeAsAny[Strategy]]

    @classmethod
    def of_strategies(cls, strategies: Mapping[str, Strategy]) -> BySource:
        """The strategy for sources with these strategies. Where all sources are silent, the watermark follows the clock
        only if each strategy allows that."""
        each = list(strategies.values())
        holds = any(strategy.on_idle == "hold" for strategy in each)
        return cls(
            sources=dict(strategies),
            every="event" if each[0].every == "event" else f"{each[0].every}us",
            on_idle="hold" if holds else "advance",
        )

    def own(self, partition: str) -> tuple[Strategy, str]:
        source, own = split_partition(partition)
        return self.sources[source], own

    def of_source(self, source: str) -> Strategy:
        return self.sources[source]

    def place(self, partition: str) -> str:
        return f"sources.{split_partition(partition)[0]}.watermark"

    def stand_in(self, partition: str) -> str | None:
        source, own = split_partition(partition)
        return source if own else None

    @property
    def keeps(self) -> str:
        return ", ".join(f"{name}: {strategy.keeps}" for name, strategy in sorted(self.sources.items()))


def named_partitions(
    read: Mapping[str, Mapping[str, bool] | None],
    known: Mapping[str, bool],
    sources: Collection[str],
    behind: Collection[str],
) -> dict[str, bool]:
    """The partitions of all sources while some of them are read, and whether each has more data.

    `read` has the sources that are read, each with the partitions that it names, if any, under its own names. `known`
    has the partitions of all sources before. For the sources that are `behind`, it is not known what is still to come:
    all of their partitions have more.
    """
    own = {
        partition_of(source, partition): more
        for source, named in read.items()
        for partition, more in (named or {}).items()
    }
    others = {
        partition: False if split_partition(partition)[0] in read else more
        for partition, more in known.items()
    }
    every = {**others, **own}
    heard = {split_partition(partition)[0] for partition in every}
    every |= {name: False for name in sources if name not in heard}
    return {partition: more or split_partition(partition)[0] in behind for partition, more in every.items()}
