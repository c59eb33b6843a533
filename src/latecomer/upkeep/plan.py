"""Which files of a table are better merged. Pure: files in, groups of files out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from latecomer.model.durations import DAY, UNITS, to_micros
from latecomer.store.table import DataFile, batch_of, batches_of, is_merged, kind_of, token_of

SETTLED = 32 << 20
"""A file of so many bytes is large enough."""
MOST_ROWS = 1_000_000
MOST_BYTES = 256 << 20
"""A clustered file has no more rows and no more bytes before compression, unless one minute has: so much is
sorted in memory at a time."""


@dataclass(frozen=True)
class Group:
    """Files to be merged. `by` is the column whose days they are clustered by; None where they are joined."""

    files: Sequence[DataFile]
    by: str | None = None

    @property
    def expected(self) -> int:
        """How many files it comes to, as far as the files' bounds tell."""
        if self.by is None:
            return 1
        return len({day for file in self.files for day in _days(file, self.by)})


def complete(files: Iterable[DataFile], last: int) -> list[DataFile]:
    """The files of batches that are complete."""
    return [file for file in files if batch_of(file) <= last]


def final(files: Iterable[DataFile], reach: int) -> list[DataFile]:
    """The pane files whose windows all ended at or before a moment."""
    return [
        file
        for file in files
        if (end := file.maximum.get("window_end")) is not None and to_micros(end) <= reach
    ]


def clustered(files: Iterable[DataFile], by: str) -> list[Group]:
    """Groups of files that share days, so that each day can have files of its own.

    A file that spans days ties them together: it is rewritten with all that is there of them.
    """
    loose = [file for file in files if _days(file, by) and not _settled(file, by)]
    tied = _Ties()
    for file in loose:
        tied.tie(_days(file, by))
    groups: dict[int, list[DataFile]] = {}
    for file in loose:
        groups.setdefault(tied.found(_days(file, by)[0]), []).append(file)
    found = (Group(_ordered(group), by) for _, group in sorted(groups.items()))
    return [group for group in found if _pays(group)]


def joined(files: Iterable[DataFile]) -> list[Group]:
    """Groups of small files of one kind, batch after batch."""
    groups: list[list[DataFile]] = []
    for _, each in groupby(sorted(files, key=lambda file: (kind_of(file), *_place(file))), key=kind_of):
        size = 2 * SETTLED
        for file in each:
            if file.size >= SETTLED:
                size = 2 * SETTLED
                continue
            if size + file.size > 2 * SETTLED:
                groups.append([])
                size = 0
            groups[-1].append(file)
            size += file.size
    return [Group(group) for group in groups if len(group) > 1]


def most_rows(rows: int, size: int) -> int:
    """How many rows a file may have, where so many rows have so many bytes before compression.

    >>> most_rows(1000, 100_000), most_rows(1000, 1 << 20)
    (1000000, 256000)
    """
    return max(1, min(MOST_ROWS, rows * MOST_BYTES // max(size, 1)))


def parts(minutes: Mapping[int, int], most: int) -> list[tuple[int, int]]:
    """Stretches of time, each within one day and with no more rows than `most`.

    `minutes` says how many rows each minute has, by the microsecond at which it starts.
    """
    found: list[tuple[int, int]] = []
    rows = 0
    for minute, count in sorted(minutes.items()):
        end = minute + UNITS["m"]
        if found and found[-1][0] // DAY == minute // DAY and rows + count <= most:
            found[-1] = found[-1][0], end
            rows += count
        else:
            found.append((minute, end))
            rows = count
    return found


def _pays(group: Group) -> bool:
    """Whether there is anything to gain: what one merge has made of whole days is left as it is."""
    if all(map(is_merged, group.files)) and len(set(map(token_of, group.files))) == 1:
        return False
    return len(group.files) > 1 or group.expected > 1


def _settled(file: DataFile, by: str) -> bool:
    large = file.size >= SETTLED or file.rows >= MOST_ROWS // 2
    return large and is_merged(file) and len(_days(file, by)) == 1


def _days(file: DataFile, by: str) -> range:
    """The days that a file touches; none where its bounds are not known."""
    low, high = file.minimum.get(by), file.maximum.get(by)
    if not isinstance(low, datetime) or not isinstance(high, datetime):
        return range(0)
    return range(to_micros(low) // DAY, to_micros(high) // DAY + 1)


def _ordered(files: Iterable[DataFile]) -> list[DataFile]:
    return sorted(files, key=_place)


def _place(file: DataFile) -> tuple[int, str]:
    return batches_of(file)[0], file.path


class _Ties:
    """Days that have to be rewritten together."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}

    def found(self, day: int) -> int:
        """The first of the days that this one is tied to."""
        while (above := self.parent.setdefault(day, day)) != day:
            self.parent[day] = self.parent[above]
            day = self.parent[day]
        return day

    def tie(self, days: Sequence[int]) -> None:
        first = self.found(days[0])
        for day in days[1:]:
            other = self.found(day)
            self.parent[max(first, other)] = first = min(first, other)
