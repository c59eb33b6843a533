"""What the oracle is given, and what it says of each arrival."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from latecomer.model.aggregates import Aggregate
from latecomer.model.panes import Accumulation, Pane
from latecomer.model.strategies import Strategy
from latecomer.model.triggers import Trigger
from latecomer.model.verdicts import Fate, LatePolicy, OnError, TooLatePolicy, Verdict
from latecomer.model.windows import AnyWindow, Window

Key = tuple[Any, ...]


class OutputRules(Protocol):
    """What the oracle reads of an output; `latecomer.config.outputs.Output` is one."""

    @property
    def window(self) -> AnyWindow: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def aggregates(self) -> Mapping[str, Aggregate]: ...
    @property
    def allowed_lateness(self) -> int: ...
    @property
    def settles_after(self) -> int: ...
    @property
    def late(self) -> LatePolicy: ...
    @property
    def too_late(self) -> TooLatePolicy: ...
    @property
    def trigger(self) -> Trigger: ...
    @property
    def accumulation(self) -> Accumulation: ...
    @property
    def emit_empty(self) -> bool: ...
    @property
    def on_error(self) -> OnError: ...
    @property
    def asked(self) -> Collection[str]:
        """The derived columns that its `where` names."""

    @property
    def counted(self) -> Collection[str]:
        """The derived columns that its keys and aggregates are."""


@dataclass(frozen=True)
class Arrival:
    """One row as it was read. Times are microseconds; a `dead` row could not become an event."""

    event_time: int
    arrival_time: int
    partition: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    event_id: Hashable | None = None
    dead: bool = False
    failed: frozenset[str] = frozenset()
    """The derived columns that cannot be computed for it; they are null in the payload."""


@dataclass(frozen=True)
class Heartbeat:
    """Between two batches the arrival clock is looked at. It is a batch only if something fires."""

    at: int


@dataclass(frozen=True)
class Drain:
    """The input has ended: every window closes, and whatever is read after it has come too late."""


@dataclass(frozen=True)
class Watermark:
    """The watermark is put here by hand, a batch without data. It never goes back."""

    to: int


@dataclass(frozen=True)
class Changed:
    """From the next tick on the watermark follows other settings of the same strategy."""

    strategy: Strategy


@dataclass(frozen=True)
class Partitions:
    """The source names its partitions; of those that are True it has more than the next batch reads.

    `sources` are all there are, where there are several: what is known of them and is not named is read, and one of
    which nothing is known stands as a partition under its own name.
    """

    named: Mapping[str, bool]
    sources: Collection[str] = ()


@dataclass(frozen=True)
class Repaired:
    """Dead letters that are taken in again, a batch of its own: each as it was, and what it is now.

    They meet the watermark in force and move nothing. The ledger moves what they were to what they become. One that
    is dead still stays what it was.
    """

    letters: Sequence[tuple[Arrival, Arrival]]


@dataclass(frozen=True)
class Joined:
    """An output that is new: what came before, it learns from the log; from now on it fires with the rest."""

    output: str


@dataclass(frozen=True)
class Judged:
    """What became of one arrival, for one output; where windows overlap, for one of its windows.

    `position` is the arrival's place in the whole input as read. A dead letter and a duplicate meet no
    watermark; they, a filtered and a failed event have no window and no verdict. A session is named as it stood
    with the event in it; one that rejects the event, as it stands.
    """

    batch: int
    position: int
    arrival: Arrival
    fate: Fate
    watermark: int | None = None
    window: Window | None = None
    verdict: Verdict | None = None

    @property
    def late_at_source(self) -> bool:
        """Behind the watermark when it was read, whatever its window says."""
        return self.watermark is not None and self.arrival.event_time < self.watermark


@dataclass(frozen=True)
class Published:
    """A pane, and the batch that published it."""

    batch: int
    pane: Pane
