"""When each batch was published, by the wall clock (ADR 0013).

A batch is published by the commit of the ledger that completes it. That commit has the time. Delta deletes old
commits, so the table `publications` has the times of all batches. It follows the ledger: missing times are read from
the commits. Commits of earlier versions have Delta's own timestamp only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import pyarrow as pa

from latecomer.model.durations import iso, to_micros, to_moment
from latecomer.model.publications import last_known, publication_time
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.delta.commits import Commit, commits_of
from latecomer.store.delta.readable import APPLICATION
from latecomer.store.delta.table import NOTHING_REACHED, moments
from latecomer.store.failpoints import failpoint
from latecomer.store.layout import PUBLICATIONS
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.store import Store, joining

PUBLISHED_AT = "published_at"
_LATELY = 1000
"""The times of so many batches are kept in memory for sinks, which are hardly ever further behind."""


def wall_clock() -> int:
    """The time of day in microseconds."""
    return time.time_ns() // 1000


class Publications:
    """The publication times of a store. Each thread needs an object of its own."""

    def __init__(self, store: Store) -> None:
        self._ledger = store.own_table(store.ledger)
        self._table = store.own_table(store.publications)
        self._lately = store.published_lately

    def last_by(self, moment: int, output: str) -> int | None:
        """The last batch of an output that was published by a moment; None where that is not known."""
        complete = self._ledger.last_batch()
        known = last_known(moment, self._around(moment), complete)
        if known is None:
            known = last_known(moment, {**self._around(moment), **self._in_commits(APPLICATION)}, complete)
        joined, at = self._joined(output)
        if known is None or joined > known or (at is not None and at <= moment):
            return known
        return joined - 1 if at is not None else known if joined < known else None

    def times(self, first: int, last: int, output: str) -> dict[int, int]:
        """When the batches of an output from `first` to `last` were published, as far as that is known."""
        lately = {batch: self._lately[batch] for batch in range(first, last + 1) if batch in self._lately}
        if len(lately) == last + 1 - first:
            return lately
        self._ledger.refresh()
        times = self._in_table(f"output is null and batch between {first} and {last}")
        if self._table.last_batch() < min(last, self._ledger.last_batch()):
            times |= self._in_commits(APPLICATION)
        joined, at = self._joined(output)
        times.pop(joined, None)
        times |= {} if at is None else {joined: at}
        return {batch: at for batch, at in times.items() if first <= batch <= last}

    @property
    def by_delta(self) -> bool:
        """Whether all times are Delta's own timestamps: the store is of a version that wrote no others."""
        newest = None if self._table.exists else next(commits_of(self._ledger.root), None)
        return newest is not None and PUBLISHED_AT not in newest.info

    def _around(self, moment: int) -> dict[int, int]:
        """The last batch that was published by a moment, and the one after it, in the table."""
        last = f"select max(batch) from t where output is null and published_at <= {moment_literal(moment)}"
        return self._in_table(f"output is null and batch >= coalesce(({last}), -1) order by batch limit 2")

    def _joined(self, output: str) -> tuple[int, int | None]:
        """The batch after which an output was computed from the log, and when that was published, if known. -1 where
        the output was there from the beginning."""
        batch = self._ledger.last_batch(joining(output))
        if batch < 0:
            return batch, BEGIN_OF_TIME
        times = self._in_table(f"output = {text_literal(output)}") or self._in_commits(joining(output))
        return batch, times.get(batch)

    def _in_table(self, condition: str) -> dict[int, int]:
        rows = self._table.query_rows(f"select batch, published_at from t where {condition}")
        return {row["batch"]: to_micros(row[PUBLISHED_AT]) for row in rows}

    def _in_commits(self, application: str) -> dict[int, int]:
        """The commit times of the batches that are not in the table yet."""
        written = self._table.last_batch(application)
        if written >= self._ledger.last_batch(application):
            return {}
        return _times_of(commits_of(self._ledger.root), application, written)


class BatchCloser:
    """Publishes batches: closes them in the ledger, each with a time that is never before that of another."""

    def __init__(self, store: Store, clock: Callable[[], int] = wall_clock) -> None:
        self._store = store
        self._clock = clock
        self._last: int | None = None
        self._begun = False

    def begin(self) -> None:
        """Write the times that earlier runs did not: of an interrupted batch, or, for an earlier version, of all
        batches."""
        table, ledger = self._store.publications, self._store.ledger
        joined = {joining(name): name for name in self._store.pipeline.outputs}
        for application, output in {APPLICATION: None, **joined}.items():
            last = ledger.last_batch(application)
            if last > (before := table.last_batch(application)):
                times = _times_of(commits_of(ledger.root), application, before)
                table.append(last, _rows(times, output), application)
        for row in table.query_rows("select max(published_at) as last from t"):
            self._last = None if row["last"] is None else to_micros(row["last"])
        self._begun = True

    def close(
        self,
        batch: int,
        lines: pa.Table,
        reached: Mapping[str, int] = NOTHING_REACHED,
        output: str | None = None,
    ) -> int:
        """Close a batch in the ledger, or the past of an output that joins after it. Gives the time.

        One commit completes the batch and has the time: so a batch never gets another time.
        """
        if not self._begun:
            self.begin()
        application = APPLICATION if output is None else joining(output)
        self._last = at = publication_time(self._last, self._clock())
        metadata = {PUBLISHED_AT: str(iso(at))}
        self._store.ledger.append(batch, lines, application, reached, metadata)
        failpoint("ledger.committed", batch)
        lately = self._store.published_lately
        if output is None:
            lately[batch] = at
            lately.pop(batch - _LATELY, None)
        else:
            lately.clear()
        self._store.publications.append(batch, _rows({batch: at}, output), application)
        failpoint("publications.committed", batch)
        return at


def _times_of(commits: Iterator[Commit], application: str, after: int) -> dict[int, int]:
    """When the batches after one were committed; made ascending."""
    committed: dict[int, int] = {}
    for commit in commits:
        if commit.application == application and commit.batch <= after:
            break
        if commit.application == application and (at := _time_of(commit)) is not None:
            committed[commit.batch] = at
    times: dict[int, int] = {}
    last: int | None = None
    for batch, at in sorted(committed.items()):
        times[batch] = last = publication_time(last, at)
    return times


def _time_of(commit: Commit) -> int | None:
    """When a commit was made, by its metadata or else by Delta; None where neither can be read."""
    published_at = commit.info.get(PUBLISHED_AT)
    try:
        if published_at is not None:
            return to_micros(datetime.fromisoformat(published_at))
        return to_micros(to_moment(int(commit.info["timestamp"]) * 1000))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _rows(times: Mapping[int, int], output: str | None) -> pa.Table:
    return pa.table(
        {
            "batch": pa.array(list(times), pa.int64()),
            "output": pa.array([output] * len(times), pa.string()),
            PUBLISHED_AT: moments(list(times.values())),
        },
        schema=PUBLICATIONS,
    )
