"""What a sink promises: a batch is applied whole, once, and in order of publication. docs/sinks.md shows one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

CAME_LATER = ("published_at",)
"""Columns of a pane that the first versions did not have: a table or folder of theirs goes on without them."""


@dataclass(frozen=True)
class PaneShape:
    """What the panes of an output look like."""

    appends: ClassVar[bool] = False
    """A pane may take the place of another, or take it back."""

    output: str
    keys: tuple[str, ...]
    """May be empty; a key's value may be null, and null is a key like any other."""
    values: tuple[str, ...]
    schema: pa.Schema
    """The published columns in order: window_start, window_end, the keys, the values, sequence, timing,
    op, is_last, batch, fired_at, published_at."""

    @property
    def name(self) -> str:
        """A name for a table of them."""
        return self.output

    @property
    def owner(self) -> str:
        """Whose rows they are, among all that a pipeline has."""
        return self.output

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that say which number this is: one pane at most stands for each."""
        return ("window_start", "window_end", *self.keys)

    @property
    def standing(self) -> pa.Schema:
        """The columns of a table of what stands: there an op has no meaning."""
        return self.schema.remove(self.schema.get_field_index("op"))

    def going_by(self, existing: Collection[str]) -> PaneShape:
        """The same without the columns that came later, where what an earlier version made does not have them."""
        kept = [each for each in self.schema if each.name not in CAME_LATER or each.name in existing]
        return replace(self, schema=pa.schema(kept))


@dataclass(frozen=True)
class RowShape:
    """What rows look like that come once and are never replaced: an output's side output, or dead letters."""

    appends: ClassVar[bool] = True
    """Rows have neither op nor sequence."""

    name: str
    """A name for a table of them: totals_late, dead_letters."""
    owner: str
    """Whose rows they are, among all that a pipeline has; no output can be called so."""
    place: tuple[str, ...]
    """The columns that say which row this is."""
    schema: pa.Schema

    @property
    def standing(self) -> pa.Schema:
        """The columns of a table of them."""
        return self.schema

    def going_by(self, existing: Collection[str]) -> RowShape:
        """The same: no column of theirs came later."""
        return self

    def without(self, left_out: Collection[str]) -> RowShape:
        """The same without some columns: those of an old shape, once a migration is in its last phase."""
        kept = [each for each in self.schema if each.name not in left_out]
        return replace(self, schema=pa.schema(kept)) if left_out else self


Shape = PaneShape | RowShape


class SinkLogic(ABC):
    """A sink at work, in a thread of its own. It keeps its progress in the same step as the rows: after a crash at
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
        """Apply a batch's panes, or rows, in order of publication: all or none. Doing it again changes nothing."""

    def skip(self, batch: int) -> None:  # noqa: B027
        """A batch has nothing for this sink; most need not know."""

    def close(self) -> None:
        """Let go of the sink; most hold nothing between two batches."""
        return

    def peek(self) -> int | None:
        """The last batch applied, asked without opening or making the sink; None where it cannot be asked so."""
        return None
