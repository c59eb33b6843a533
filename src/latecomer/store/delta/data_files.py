"""The Parquet files of a table: their statistics, and what the names of their folders mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

from latecomer.model.durations import to_micros
from latecomer.model.verdicts import END_OF_TIME

_COUNTED = (int, datetime, date)
_NUMBERED = frozenset({"INT32", "INT64", "INT96"})
_CUT_OFF = timedelta(microseconds=999)
"""Other programs that write Delta cut the moments in their statistics off at the millisecond."""
TO = "to"
"""Stands between the first and the last batch in the name of a folder of merged files."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table: its path relative to the table, and its statistics."""

    path: str
    size: int
    rows: int
    minimum: dict[str, Any] = field(default_factory=dict)
    maximum: dict[str, Any] = field(default_factory=dict)

    @property
    def windows(self) -> tuple[int | None, int | None]:
        """The earliest start and the latest end of its windows, in microseconds. Each is None where it is not known:
        Delta keeps no statistics of moments as far away as those of a global window."""
        start, end = self.minimum.get("window_start"), self.maximum.get("window_end")
        return None if start is None else to_micros(start), None if end is None else to_micros(end)

    @property
    def window_ends(self) -> tuple[int, int]:
        """The earliest and the latest end of its windows, in microseconds. An end that is not known is that of a global
        window: the end of time."""
        first, last = self.minimum.get("window_end"), self.maximum.get("window_end")
        return (
            END_OF_TIME if first is None else to_micros(first),
            END_OF_TIME if last is None else to_micros(last),
        )

    def bounds(self, column: str) -> tuple[int, int] | None:
        """The first and the last moment of a column, in microseconds; None where they are not known."""
        low, high = self.minimum.get(column), self.last(column)
        return None if low is None or high is None else (to_micros(low), to_micros(high))

    def last(self, column: str) -> Any:
        """The greatest value that a row of the file may have; None if it is not known."""
        last = self.maximum.get(column)
        if isinstance(last, datetime) and last.microsecond % 1000 == 0:
            return last + _CUT_OFF
        return last

    def may_hold(self, column: str, low: int | None, high: int | None) -> bool:
        """Whether a row may have a moment in [low, high); None is no bound."""
        known = self.bounds(column)
        return known is None or ((low is None or known[1] >= low) and (high is None or known[0] < high))


def attempt_token(file: DataFile) -> str:
    """The random token of the attempt that wrote a file, from the name of its folder."""
    return file.path.split("/")[1].split("-")[1]


def batches_of(file: DataFile) -> range:
    """The batches whose rows a file may hold, by the name of its folder: the one that wrote it, or those that were
    merged into it."""
    folder = _folder(file)
    if folder is None:  # written by another program
        return range(file.minimum["batch"], file.maximum["batch"] + 1)
    first, _, last = folder.split("-")[0].partition(TO)
    return range(int(first), int(last or first) + 1)


def batch_of(file: DataFile) -> int:
    """The last batch whose rows a file may hold."""
    return batches_of(file)[-1]


def is_merged(file: DataFile) -> bool:
    """Whether a file was merged from others, and may hold rows of several batches."""
    folder = _folder(file)
    return folder is None or TO in folder.split("-")[0]


def kind_of(file: DataFile) -> str:
    """The kind of files in the name of its folder; empty where there is none."""
    return (_folder(file) or "").partition("-")[2].partition("-")[2]


def _folder(file: DataFile) -> str | None:
    """The name of a file's folder; None where it is not one of ours."""
    data, _, rest = file.path.partition("/")
    return rest.partition("/")[0] if data == "data" and rest else None


def column_chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    """The metadata of every column in every row group of a file."""
    for nth in range(metadata.num_row_groups):
        group = metadata.row_group(nth)
        yield from map(group.column, range(group.num_columns))


def bounds_of(metadata: pq.FileMetaData) -> tuple[dict[str, Any], dict[str, Any]]:
    """The minimum and the maximum of each column of numbers and times, from the footer of a file."""
    minimum: dict[str, Any] = {}
    maximum: dict[str, Any] = {}
    out_of_range = set[str]()
    for column in column_chunks(metadata):
        name = column.path_in_schema
        # Bounds of text are not needed, and Arrow would have to decode them.
        if column.physical_type not in _NUMBERED or "." in name:
            continue
        statistics = column.statistics
        if statistics is None or not statistics.has_min_max:
            continue
        try:
            low, high = statistics.min, statistics.max
        except OverflowError:  # a date outside Python's years
            out_of_range.add(name)
            continue
        if isinstance(low, _COUNTED) and not isinstance(low, bool):
            minimum[name] = min(minimum.get(name, low), low)
            maximum[name] = max(maximum.get(name, high), high)
    for name in out_of_range:
        minimum.pop(name, None)
        maximum.pop(name, None)
    return minimum, maximum


def statistics_of(file: DataFile) -> str:
    """The statistics of a file in a commit, as JSON."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": _written_bounds(file.minimum),
            "maxValues": _written_bounds(file.maximum),
            "nullCount": {},
        }
    )


def _written_bounds(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _written(value) for name, value in bounds.items() if isinstance(value, _COUNTED)}


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value
