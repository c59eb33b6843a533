"""What every sink promises: a batch is applied whole, once, and in order of publication.

A sink keeps its own progress, in the same step as the panes: after a crash at any moment the engine
asks `last_batch()` and applies whatever came after it again.
"""

from __future__ import annotations

import base64
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.errors import SinkError, SinkOutage
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
    """A sink at work. It may be opened again after it was closed."""

    kind: ClassVar[str]

    def __init__(self, path: Path, pipeline: str, shape: PaneShape) -> None:
        self.path = path
        self.pipeline = pipeline
        self.shape = shape

    @property
    def target(self) -> str:
        """Where it writes, for people."""
        return str(self.path)

    @abstractmethod
    def open(self) -> None:
        """Make the sink where there is none, and refuse one that is not ours."""

    @abstractmethod
    def last_batch(self) -> int:
        """The last batch applied, -1 before any; read from the sink itself."""

    def peek(self) -> int | None:
        """The last batch applied, asked without opening or making the sink; None where it cannot be asked so."""
        return None

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
        return None if found is None else self._outage(found.reason, found.fix, batch)

    def _refusal(self, reason: str, fix: str, batch: int | None = None) -> SinkError:
        """The error to raise where only people can help; while opening, no batch is known yet."""
        return SinkError(self._sentence(reason, fix, batch))

    def _outage(self, reason: str, fix: str, batch: int | None = None) -> SinkOutage:
        """The error to raise where it may pass."""
        return SinkOutage(f"{reason}; {fix}", self._sentence(reason, fix, batch))

    def _sentence(self, reason: str, fix: str, batch: int | None) -> str:
        goes_on = "catches this sink up" if batch is None else f"continues with batch {batch}"
        return f"{self.kind} sink {self.target}: {reason}; {fix}. Nothing is lost: the next run {goes_on}."


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


def plain(column: pa.ChunkedArray) -> list[Any]:
    """A column's values for formats without types of their own, nothing rounded: times and dates as
    ISO-8601, decimals as whole numbers where the type has no fraction and as text where it has one."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        moments = micros(column)
        # Panes share their windows: each moment is written once.
        written = {moment: iso(moment) for moment in set(moments)}
        if kind.tz is None:
            written = {moment: text and text.removesuffix("Z") for moment, text in written.items()}
        return [written[moment] for moment in moments]
    values: list[Any] = column.to_pylist()
    if pa.types.is_date(kind):
        return [None if value is None else value.isoformat() for value in values]
    if pa.types.is_decimal(kind):
        return [None if value is None else _exact(value, kind.scale) for value in values]
    return values


def _exact(value: Decimal, scale: int) -> int | str:
    return int(value) if scale <= 0 else format(value, "f")


def json_plain(column: pa.ChunkedArray) -> list[Any]:
    """The same for JSON, which has no word for NaN, infinity or bytes."""
    values = plain(column)
    if pa.types.is_floating(column.type):
        return [value if value is None or math.isfinite(value) else _named(value) for value in values]
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if value is None else base64.b64encode(value).decode() for value in values]
    return values


def _named(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
