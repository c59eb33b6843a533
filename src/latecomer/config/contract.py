"""What a sink promises: a batch is applied whole, once, and in order of publication. docs/sinks.md shows one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class PaneShape:
    """What the panes of an output look like."""

    output: str
    keys: tuple[str, ...]
    """May be empty; a key's value may be null, and null is a key like any other."""
    values: tuple[str, ...]
    schema: pa.Schema
    """The published columns in order: window_start, window_end, the keys, the values, sequence, timing,
    op, is_last, batch, fired_at."""

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that say which number this is: one pane at most stands for each."""
        return ("window_start", "window_end", *self.keys)

    @property
    def standing(self) -> pa.Schema:
        """The columns of a table of what stands: there an op has no meaning."""
        return self.schema.remove(self.schema.get_field_index("op"))


class SinkLogic(ABC):
    """A sink at work, in a thread of its own. It keeps its progress in the same step as the panes: after a crash at
    any moment it is opened again, asked for its last batch, and handed whatever came after that.

    `SinkOutage`, and any `OSError`, mean that it is down for a reason that may pass: it is closed, and opened again
    after a while. Any other error stops the run.
    """

    @abstractmethod
    def open(self) -> None:
        """Make the sink where there is none, and refuse one that is not ours (`SinkError`). It may be opened again
        after it was closed."""

    @abstractmethod
    def last_batch(self) -> int:
        """The last batch applied, -1 before any; read from the sink itself."""

    @abstractmethod
    def apply(self, batch: int, panes: pa.Table) -> None:
        """Apply a batch's panes, in order of publication: all of them or none. Twice is once."""

    def close(self) -> None:
        """Let go of the sink; most hold nothing between two batches."""
        return

    def peek(self) -> int | None:
        """The last batch applied, asked without opening or making the sink; None where it cannot be asked so."""
        return None
