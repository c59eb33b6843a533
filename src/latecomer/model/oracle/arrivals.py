"""The inputs of the oracle, and its result for each arrival."""

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
    """The settings of an output that the oracle reads; `latecomer.config.outputs.Output` has them."""

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
    def columns_in_where(self) -> Collection[str]:
        """The derived columns that its `where` names."""

    @property
    def columns_in_numbers(self) -> Collection[str]:
        """The derived columns among its keys and aggregated columns."""


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
    """The derived columns that cannot be computed for this row; they are null in the payload."""


@dataclass(frozen=True)
class Heartbeat:
    """The arrival clock moves on between two batches. It is a batch only if something fires."""

    at: int


@dataclass(frozen=True)
class Drain:
    """The input has ended: every window closes, and every event that is read after it is too late."""


@dataclass(frozen=True)
class Watermark:
    """A batch without data that sets the watermark. It never goes back."""

    to: int


@dataclass(frozen=True)
class Changed:
    """From the next tick on, the watermark uses other settings of the same strategy."""

    strategy: Strategy


@dataclass(frozen=True)
class Partitions:
    """The source names its partitions. For those that are True it has more data than the next batch reads.

    `sources` are the names of all sources, where there are several. Their known partitions that are not named have no
    more data. A source without any known partition is one partition, under its own name.
    """

    named: Mapping[str, bool]
    sources: Collection[str] = ()


@dataclass(frozen=True)
class Repaired:
    """A batch of dead letters that are read again: each as it was, and as it is now.

    They are judged by the watermark in force and do not move it. The ledger moves them from dead letters to their new
    fates. A row that is still dead stays a dead letter.
    """

    letters: Sequence[tuple[Arrival, Arrival]]


@dataclass(frozen=True)
class Joined:
    """A new output: it reads earlier events from the log, and from now on it fires with the other outputs."""

    output: str


@dataclass(frozen=True)
class JudgedArrival:
    """The fate of one arrival for one output; where windows overlap, for one of its windows.

    `position` is the arrival's place in the whole input as read. Dead letters and duplicates are not judged by a
    watermark. They and filtered and failed events have no window and no verdict. A session is given with the event
    in it; one that rejects the event, without it.
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
        """Whether it was behind the watermark when it was read, whatever its window."""
        return self.watermark is not None and self.arrival.event_time < self.watermark


@dataclass(frozen=True)
class OraclePane:
    """A pane, and the batch that published it."""

    batch: int
    pane: Pane
