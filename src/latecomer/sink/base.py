"""What every sink promises: a batch is applied whole, once, and in order of publication.

A sink keeps its own progress, in the same step as the panes: after a crash at any moment the engine
asks `last_batch()` and applies whatever came after it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.errors import SinkError
from latecomer.errors.system import refusal_of
from latecomer.model.durations import iso


@dataclass(frozen=True)
class PaneShape:
    """What the panes of an output look like."""

    output: str
    keys: tuple[str, ...]
    """May be empty; a key's value may be null, and null is a key like any other."""
    values: tuple[str, ...]
    schema: pa.Schema
    """The published columns in order: window_start, window_end, the keys, the values, sequence, timing,
    op, batch, fired_at."""

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that say which number this is: one pane at most stands for each."""
        return ("window_start", "window_end", *self.keys)

    @property
    def standing(self) -> pa.Schema:
        """The columns of a table of what stands: there an op has no meaning."""
        return self.schema.remove(self.schema.get_field_index("op"))


class SinkLogic(ABC):
    """An open sink."""

    kind: ClassVar[str]

    def __init__(self, path: Path, pipeline: str, shape: PaneShape) -> None:
        self.path = path
        self.pipeline = pipeline
        self.shape = shape

    @abstractmethod
    def last_batch(self) -> int:
        """The last batch applied, -1 before any; read from the sink itself."""

    def apply(self, batch: int, panes: pa.Table) -> None:
        """Apply a batch's panes, in order of publication: all of them or none. Twice is once."""
        if panes.num_rows:
            self._apply(batch, panes.select(self.shape.schema.names).cast(self.shape.schema))

    @abstractmethod
    def _apply(self, batch: int, panes: pa.Table) -> None: ...

    def close(self) -> None:
        """Let go of the sink; most hold nothing between two batches."""
        return

    def _system_refusal(self, error: Exception, batch: int | None = None) -> SinkError | None:
        """The error to raise where it was the operating system that refused."""
        found = refusal_of(error)
        return None if found is None else self._refusal(found.reason, found.fix, batch)

    def _refusal(self, reason: str, fix: str, batch: int | None = None) -> SinkError:
        """The error to raise; while opening, no batch is known yet."""
        goes_on = "catches this sink up" if batch is None else f"continues with batch {batch}"
        return SinkError(
            f"{self.kind} sink {self.path}: {reason}; {fix}. Nothing is lost: the next run {goes_on}."
        )


def differing(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """How the columns that are there differ from those that should be; empty where they do not.

    >>> differing({"paise": "TEXT", "payer": "TEXT"}, {"paise": "INTEGER", "payments": "INTEGER"})
    'without payments, with payer, paise TEXT instead of INTEGER'
    """
    parts = [f"without {name}" for name in wanted if name not in found]
    parts += [f"with {name}" for name in found if name not in wanted]
    parts += [
        f"{name} {found[name] or 'untyped'} instead of {kind or 'untyped'}"
        for name, kind in wanted.items()
        if name in found and found[name] != kind
    ]
    if not parts and list(found) != list(wanted):
        parts = [f"in the order {', '.join(found)}"]
    return ", ".join(parts)


def micros(column: pa.ChunkedArray) -> list[Any]:
    """A column of moments as microseconds."""
    listed: list[Any] = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return listed


def bounds(moments: pa.ChunkedArray) -> tuple[str | None, str | None]:
    """The earliest and the latest moment, as ISO-8601."""
    limits = pc.min_max(moments.cast(pa.int64())).as_py()
    return iso(limits["min"]), iso(limits["max"])
