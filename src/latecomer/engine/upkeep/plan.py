"""Decides which files of a table are merged. Pure: files in, groups of files out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from math import inf

from latecomer.model.durations import DAY, UNITS, to_micros
from latecomer.spark.base import in_turn_together
from latecomer.store.delta.data_files import DataFile, attempt_token, batch_of, batches_of, is_merged, kind_of

SETTLED = 32 << 20
"""A file of so many bytes is large enough."""
MOST_ROWS = 1_000_000
MOST_BYTES = 256 << 20
"""A clustered file has at most so many rows, and so many bytes before compression, unless a single minute has more: so
much is sorted in memory at a time."""
FULL = 128 * 1024
"""A clustered file of so many rows ends with its day: a busy day has files of its own, quiet days share one."""
ENOUGH = MOST_ROWS // 2
"""The files of one merge that have so many rows together are not merged again."""


@dataclass(frozen=True)
class Group:
    """Files that may be merged. They are clustered by the times in column `by`, or joined where that is None."""

    files: Sequence[DataFile]
    by: str | None = None


@dataclass(frozen=True)
class Merge:
    """A group, and the files that it is merged into: a dry run counts them, a real one writes them."""

    group: Group
    parts: Sequence[tuple[int, int]]
    """The interval of time of each file, where they are clustered; else everything."""

    @property
    def spared(self) -> int:
        """How many files fewer there are afterwards."""
        return len(self.group.files) - len(self.parts)


def complete(files: Iterable[DataFile], last: int) -> list[DataFile]:
    """The files of batches that are complete."""
    return [file for file in files if batch_of(file) <= last]


def final(files: Iterable[DataFile], reach: int) -> list[DataFile]:
    """The pane files of which all windows ended by a moment."""
    return [
        file
        for file in files
        if (end := file.maximum.get("window_end")) is not None and to_micros(end) <= reach
    ]


def clustered(files: Iterable[DataFile], by: str) -> list[Group]:
    """Groups of files that follow one another in time, each of about `ENOUGH` rows.

    Files that share a day are in the same group, so that their rows can be sorted together.
    """
    known = [file for file in files if _days(file, by)]
    settled = _settled(known)
    loose = [file for file in known if file.path not in settled]
    groups: list[list[DataFile]] = []
    rows, last = ENOUGH, -inf
    for file in sorted(loose, key=lambda file: _days(file, by)[0]):
        days = _days(file, by)
        if rows >= ENOUGH and days[0] > last:
            groups.append([])
            rows = 0
        groups[-1].append(file)
        rows, last = rows + file.rows, max(last, days[-1])
    return [Group(sorted(group, key=_place), by) for group in groups if len(group) > 1]


def joined(files: Iterable[DataFile]) -> list[Group]:
    """Groups of small files of one kind, batch after batch."""
    in_order = sorted(files, key=lambda file: (kind_of(file), *_place(file)))
    runs = groupby(in_order, key=lambda file: (kind_of(file), file.size < SETTLED))
    small = (run for (_, is_small), run in runs if is_small)
    groups = chain.from_iterable(in_turn_together(run, lambda file: file.size, 2 * SETTLED) for run in small)
    return [Group(group) for group in groups if len(group) > 1]


def most_rows(rows: int, size: int) -> int:
    """How many rows a file may have, where `rows` rows have `size` bytes before compression.

    >>> most_rows(1000, 100_000), most_rows(1000, 1 << 20)
    (1000000, 256000)
    """
    return max(1, min(MOST_ROWS, rows * MOST_BYTES // max(size, 1)))


def arranged(group: Group, minutes: Mapping[int, int], most: int) -> Merge | None:
    """The merge of a clustered group, whose rows lie in these minutes; None where it gains nothing.

    There are never more files than before. Files that were merged before are only merged again if they become fewer, so
    a second call has nothing to do.
    """
    before, full = len(group.files), min(FULL, most)
    if all(map(is_merged, group.files)):
        merge = Merge(group, parts(minutes, full, most))
        return merge if merge.spared > 0 else None
    share = -(-sum(minutes.values()) // before)
    merge = Merge(group, parts(minutes, max(full, share), most))
    return merge if merge.spared >= 0 else None


def parts(minutes: Mapping[int, int], full: int, most: int) -> list[tuple[int, int]]:
    """Intervals of time, one after the other: each with no more rows than `most`, and ending with its day once it
    has as many as `full`.

    `minutes` says how many rows each minute has, by the microsecond at which it starts.
    """
    intervals: list[tuple[int, int]] = []
    rows, day = 0, 0
    for minute, count in sorted(minutes.items()):
        ended = rows >= full and minute // DAY != day
        if intervals and not ended and rows + count <= most:
            intervals[-1] = intervals[-1][0], minute + UNITS["m"]
            rows += count
        else:
            intervals.append((minute, minute + UNITS["m"]))
            rows = count
        day = minute // DAY
    return intervals


def _settled(files: Sequence[DataFile]) -> set[str]:
    """The files of merges that are large enough not to be merged again."""
    merges: dict[str, list[DataFile]] = {}
    for file in filter(is_merged, files):
        merges.setdefault(attempt_token(file), []).append(file)
    return {
        file.path
        for made in merges.values()
        if sum(each.rows for each in made) >= ENOUGH or sum(each.size for each in made) >= 8 * SETTLED
        for file in made
    }


def _days(file: DataFile, by: str) -> range:
    """The days on which a file has rows; none where its bounds are not known."""
    low, high = file.minimum.get(by), file.maximum.get(by)
    if not isinstance(low, datetime) or not isinstance(high, datetime):
        return range(0)
    return range(to_micros(low) // DAY, to_micros(high) // DAY + 1)


def _place(file: DataFile) -> tuple[int, str]:
    return batches_of(file)[0], file.path
