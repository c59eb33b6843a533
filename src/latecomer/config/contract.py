"""The contract of a sink: it applies a batch whole, once, and in order of publication. docs/sinks.md has an example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

CAME_LATER = ("published_at",)
"""Columns of a pane that the first versions did not have. A table or folder made by them stays without these."""


@dataclass(frozen=True)
class PaneShape:
    """The columns of an output's panes."""

    appends: ClassVar[bool] = False
    """A pane may replace another one, or take it back."""

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
        """The owner of the rows within the pipeline."""
        return self.output

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that identify a number: at most one pane stands for each."""
        return ("window_start", "window_end", *self.keys)

    @property
    def standing(self) -> pa.Schema:
        """The columns of a table of standing panes: there an op has no meaning."""
        return self.schema.remove(self.schema.get_field_index("op"))

    def going_by(self, existing: Collection[str]) -> PaneShape:
        """The same, without the later columns that a table of an earlier version lacks."""
        kept = [each for each in self.schema if each.name not in CAME_LATER or each.name in existing]
        return replace(self, schema=pa.schema(kept))


@dataclass(frozen=True)
class RowShape:
    """The columns of rows that are only appended: an output's side output, or dead letters."""

    appends: ClassVar[bool] = True
    """Rows have neither op nor sequence."""

    name: str
    """A name for a table of them: totals_late, dead_letters."""
    owner: str
    """The owner of the rows within the pipeline; no output can have this name."""
    place: tuple[str, ...]
    """The columns that identify a row."""
    schema: pa.Schema

    @property
    def standing(self) -> pa.Schema:
        """The columns of a table of them."""
        return self.schema

    def going_by(self, existing: Collection[str]) -> RowShape:
        """The same: these rows have no later columns."""
        return self

    def without(self, left_out: Collection[str]) -> RowShape:
        """The same without some columns: those of the old shape, in the last phase of a migration."""
        kept = [each for each in self.schema if each.name not in left_out]
        return replace(self, schema=pa.schema(kept)) if left_out else self


Shape = PaneShape | RowShape


class SinkLogic(ABC):
    """An open sink, in a thread of its own. It stores its progress in the same step as the rows. So after a crash at
    any moment it is opened again, asked for its last batch, and given every batch after that.

    `SinkOutage`, and any `OSError`, mean that it is down for a reason that may pass: it is closed, and opened again
    after a while. Any other error stops the run.
    """

    @abstractmethod
    def open(self) -> None:
        """Create the sink where it does not exist, and refuse one that is not ours (`SinkError`). It may be opened
        again after it was closed."""

    @abstractmethod
    def last_batch(self) -> int:
        """The last batch applied, -1 before any; read from the sink itself."""

    @abstractmethod
    def apply(self, batch: int, panes: pa.Table) -> None:
        """Apply a batch's panes, or rows, in order of publication: all or none. A second call changes nothing."""

    def skip(self, batch: int) -> None:  # noqa: B027
        """Called for a batch without rows for this sink; most sinks ignore it."""

    def close(self) -> None:
        """Release the sink's resources; most hold none between two batches."""
        return

    def peek(self) -> int | None:
        """The last batch applied, read without opening or creating the sink; None where that is not possible."""
        return None
