"""What the built-in sinks share: their error messages, and how a table follows a pipeline whose columns are new or have
wider types.

A new column is null in past rows. A column of the source that is declared later is a column of the side output, too.
Any other difference is refused, as is the table of somebody else.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.contract import PaneShape, RowShape, Shape, SinkLogic
from latecomer.config.sinks import owner_in_words
from latecomer.errors import SinkError, SinkOutage
from latecomer.errors.system import nothing_lost, refusal_of
from latecomer.model.durations import iso
from latecomer.model.types import widened_type

LOG = logging.getLogger(__name__)
BRING_BACK = "bring it back, or it is made anew and filled from the store"
"""The fix where a table or folder of ours is gone."""
_BY_WIDTH = (
    ("smallint", "integer", "bigint"),  # Postgres
    ("real", "double precision"),
    ("byte", "short", "integer", "long"),  # Delta
    ("int8", "int16", "int32", "int64"),  # Arrow
    ("float", "double"),
)
_ARROW_LIST = re.compile(r"\blist<\w+: ")
_DECIMAL = re.compile(r"(?:numeric|decimal|decimal128)\((\d+), ?(\d+)\)")


@dataclass(frozen=True)
class Steps:
    """The changes that give a table the wanted columns."""

    added: Mapping[str, str]
    """Column → its type, as the database writes it."""
    widened: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)

    def __str__(self) -> str:
        parts = [f"{name} is new" for name in self.added]
        return ", ".join([*parts, *(f"{name} is {kind} now" for name, kind in self.widened.items())])


class BuiltInLogic(SinkLogic):
    """A sink that comes with latecomer."""

    kind: ClassVar[str]
    shape: Shape

    def __init__(self, place: str, pipeline: str, shape: Shape) -> None:
        self.place = place
        """Where it writes, for people."""
        self.pipeline = pipeline
        self.shape = self.whole_shape = shape
        self.left_out: tuple[str, ...] = ()
        """The columns that a migration has dropped, as noted in the sink."""

    def apply(self, batch: int, panes: pa.Table) -> None:
        if panes.num_rows:
            # For rows, the columns that are left out are only known inside `_apply`.
            shape = self.whole_shape if self.shape.appends else self.shape
            self._apply(batch, panes.select(shape.schema.names).cast(shape.schema))

    def _go_by(self, existing: Collection[str] | None = None) -> None:
        """Write only the columns that exist; all of them where the sink is about to be made."""
        self.shape = self.whole_shape if existing is None else self.whole_shape.going_by(existing)

    def _leave_out(self, columns: Collection[str]) -> None:
        """Write rows without the columns that a migration has dropped."""
        self.left_out = tuple(columns)
        if isinstance(self.whole_shape, RowShape):
            self.shape = self.whole_shape.without(columns)

    def _steps_to(
        self, found: Mapping[str, str], wanted: Mapping[str, str], ours: bool, what: str, fix: str
    ) -> Steps:
        """The steps by which a table gets the wanted columns; refused where that is impossible, or the table is not
        ours."""
        steps = steps_to(found, wanted, self.shape)
        if steps is None or (not ours and differing(found, wanted)):
            raise self._other_columns(found, wanted, what, fix)
        if steps:
            LOG.info("%s sink %s: %s follows: %s", self.kind, self.place, what, steps)
        return steps

    def _other_columns(
        self, found: Mapping[str, str], wanted: Mapping[str, str], what: str, fix: str
    ) -> SinkError:
        return self._refusal(f"{what} has other columns ({differing(found, wanted)})", fix)

    @abstractmethod
    def _apply(self, batch: int, panes: pa.Table) -> None: ...

    def _belongs_to(self, what: str, pipeline: str, owner: str) -> str:
        return f"the {what} belongs to {owner_in_words(owner)} of pipeline {pipeline}"

    def _system_refusal(self, error: Exception, batch: int | None = None) -> SinkError | None:
        """The error to raise where the operating system has refused; None where it has not."""
        refusal = refusal_of(error)
        return None if refusal is None else self._outage(refusal.reason, refusal.fix, batch)

    def _refusal(self, reason: str, fix: str, batch: int | None = None) -> SinkError:
        """The error to raise where only people can help. While opening, `batch` is None."""
        return SinkError(self._sentence(reason, fix, batch))

    def _outage(self, reason: str, fix: str, batch: int | None = None) -> SinkOutage:
        """The error to raise for a problem that may pass."""
        return SinkOutage(f"{reason}; {fix}", self._sentence(reason, fix, batch))

    def _sentence(self, reason: str, fix: str, batch: int | None) -> str:
        return f"{self.kind} sink {self.place}: {reason}; {fix}. {last_sentence(batch)}"


def last_sentence(batch: int | None) -> str:
    """The last sentence of a sink's error; `batch` is None while the sink is opened."""
    return nothing_lost("catches this sink up" if batch is None else f"continues with batch {batch}") + "."


class FileSinkLogic(BuiltInLogic):
    """A sink in a file or folder."""

    def __init__(self, path: PurePath, pipeline: str, shape: Shape) -> None:
        super().__init__(str(path), pipeline, shape)
        self.path = path


def steps_to(found: Mapping[str, str], wanted: Mapping[str, str], shape: Shape) -> Steps | None:
    """The changes from the columns that exist to the wanted ones; None where there is no way.

    A column that identifies a row cannot be added: it would be null in all existing rows. A column that is no longer
    wanted stays in a table of rows, and is null in new rows. In a table of the panes that stand it would keep values of
    panes that were replaced long ago: it is refused.
    """
    added = {name: kind for name, kind in wanted.items() if name not in found}
    changed = {name: kind for name, kind in wanted.items() if found.get(name, kind) != kind}
    unwanted = [name for name in found if name not in wanted]
    addable = set(shape.schema.names).difference(shape.place)
    if isinstance(shape, PaneShape):
        addable = set(shape.values)
    if not set(added) <= addable or (unwanted and not shape.appends):
        return None
    if not all(is_wider(kind, found[name]) for name, kind in changed.items()):
        return None
    return Steps(added, changed)


def is_wider(kind: str, than: str) -> bool:
    """Whether a type of a database holds every value of another type, and more.

    >>> is_wider("bigint", "integer"), is_wider("long", "integer"), is_wider("integer", "bigint")
    (True, True, False)
    >>> is_wider("numeric(20,2)", "numeric(10,2)"), is_wider("numeric(20,3)", "numeric(10,2)")
    (True, False)
    >>> is_wider("array<struct<n:long,t:string>>", "array<struct<n:integer>>")
    True
    >>> is_wider("map<string, list<element: int64>>", "map<string, list<element: int32>>")
    True
    """
    new, old = (_ARROW_LIST.sub("array<", each) for each in (kind, than))
    try:
        return widened_type(old, new, _is_wider_plain) not in (None, old)
    except ValueError:  # a file with type names that are not ours
        return False


def _is_wider_plain(kind: str, than: str) -> bool:
    if any(
        kind in family and than in family and family.index(kind) > family.index(than) for family in _BY_WIDTH
    ):
        return True
    if (kind, than) == ("", "INTEGER"):  # SQLite: whole numbers beyond 64 bits are kept as they are bound
        return True
    new, old = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(than)
    return bool(new and old and new[2] == old[2] and int(new[1]) > int(old[1]))


def differing(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """How the columns that exist differ from the wanted ones; empty where they do not.

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


def take_rows(rows: pa.Table, numbers: list[int]) -> pa.Table:
    """Some rows, by their numbers."""
    return rows.take(pa.array(numbers, pa.int64()))


def micros(column: pa.ChunkedArray) -> list[Any]:
    """A column of moments as microseconds."""
    values: list[Any] = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return values


def bounds(moments: pa.ChunkedArray) -> tuple[str | None, str | None]:
    """The earliest and the latest moment, as ISO-8601."""
    limits = pc.min_max(moments.cast(pa.int64())).as_py()
    return iso(limits["min"]), iso(limits["max"])
