"""A user's own source, which is asked how far it reaches: a slice is what lies between two answers.

Each new answer is written down in the store, durably, before it is read. So a batch that was interrupted has the same
bounds again, whatever the source has received since.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.user_classes import PolledSource
from latecomer.errors import LatecomerError, SourceError, SourceOutage, StoreError, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.source.base import Chunk, FollowedSource, Slice, Split
from latecomer.source.checkpoint import CHECKPOINT
from latecomer.source.decode.base import other_columns
from latecomer.source.decode.private_columns import RECORD
from latecomer.source.private_columns import LANDED, ORIGIN, PARTITION, POSITION
from latecomer.source.records import RecordSource
from latecomer.source.staging import StagedSplit, Staging, staged_rows
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.store import files
from latecomer.store.answers import SourceAnswer, SourceAnswers
from latecomer.store.files import Location
from latecomer.store.recovery import RESTORE

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PolledRange(Slice):
    """The rows between two answers."""

    since: Any
    """None: from the beginning."""
    until: Any


class StandIn(PolledSource):
    """Takes the place of a user's own source in tasks: its rows are staged, and it is not asked for anything."""

    like: str
    skips: bool

    def skips_tombstones(self) -> bool:
        return self.skips


def resume_answers(root: Location, accepted: int, logged: bool) -> None:
    """Refuse answers that do not belong to the store: they must reach the last `accepted` batch of the source, and the
    next one if that is `logged` already. Earlier answers are forgotten."""
    last = SourceAnswers(root).last()
    if last < accepted + logged or (accepted >= 0 and SourceAnswers(root).read(accepted) is None):
        raise StoreError(
            f"store {root}: what the source has answered ends with answer {last}, and batch {accepted + logged} of "
            f"it was read already: rows would be read twice; {RESTORE}"
        )
    SourceAnswers(root).forget(accepted)


@dataclass(frozen=True)
class Polled(RecordSource, FollowedSource):
    """Rows between the answers of a class outside latecomer."""

    reader: PolledSource
    pause = 1.0

    @property
    def named(self) -> str:
        """The source as messages name it."""
        return f"source {self.reader.kind}"

    @property
    def skips_tombstones(self) -> bool:
        with self._asking("skips_tombstones"):
            return self.reader.skips_tombstones()

    @property
    def stamps_arrivals(self) -> bool:
        with self._asking("stamps_arrivals"):
            return self.reader.stamps_arrivals()

    def portable(self) -> Self:
        reader = StandIn(like=self.reader.kind, skips=self.skips_tombstones)
        return replace(super().portable(), reader=reader)

    def session(self) -> Mapping[str, str]:
        with self._asking("settings"):
            return self.reader.settings()

    def require(self) -> None:
        with self._asking("check"):
            self.reader.check()

    def resume(self, root: Location, accepted: int, logged: bool, parts: int = 1) -> None:
        if files.exists(root / CHECKPOINT):
            raise StoreError(
                f"store {root} is of a version that counted the batches of this source in another way; start a new "
                "store, and read the source again"
            )
        resume_answers(root, accepted, logged)

    def find_all(self, root: Location, number: int = 0) -> None:
        """Ask until nothing is new, or until nothing is unread after an answer."""
        LOG.info("asking how far the source reaches")
        while (answer := self._ask(root)) is not None and self._unread(answer.until) != 0:
            pass

    def has_slice(self, root: Location, number: int) -> bool:
        """Whether an answer was written down."""
        return SourceAnswers(root).read(number) is not None

    def slice_of(self, root: Location, number: int) -> PolledRange | None:
        """The slice of an answer that was written down, if there is one; without rows that are gone since then."""
        answers = SourceAnswers(root)
        answer = answers.read(number)
        if answer is None:
            return None
        with self._asking("remaining"):
            remaining = self.reader.remaining(answer.until)
        if remaining != answer.until:
            answer = SourceAnswer(answer.since, remaining)
            answers.write(number, answer)
        return self._slice(answer)

    def next_slice(self, root: Location, number: int) -> PolledRange | None:
        """The slice up to a new answer of the source, if it reaches further than before. All answers before this
        `number` are accepted."""
        answer = self._ask(root)
        if answer is None:
            return None
        SourceAnswers(root).forget(number - 1)
        return self._slice(answer)

    def _ask(self, root: Location) -> SourceAnswer | None:
        """A new answer of the source, written down, if it reaches further than before."""
        answers = SourceAnswers(root)
        last = answers.last()
        before = answers.read(last)
        since = before.until if before else None
        with self._asking("latest"):
            until = json.loads(json.dumps(self.reader.latest(since)))
        if until is None or until == since:
            return None
        answer = SourceAnswer(since, until)
        answers.write(last + 1, answer)
        return answer

    def _slice(self, answer: SourceAnswer) -> PolledRange:
        now = time.time_ns() // 1000  # the arrival of rows that have none of their own
        partitions = None
        if self.pipeline.partition_column is None:
            with self._asking("partitions"):
                partitions = self.reader.partitions(answer.until)
        unread = self._unread(answer.until)
        return PolledRange(now, answer.since, answer.until, partitions=partitions, unread=unread)

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """Spark, or the class itself, computes the rows; they are staged."""
        if not isinstance(slice_, PolledRange):
            raise TypeError(f"a {type(slice_).__name__} is no slice of {self.named}")
        with self._asking("read"):
            rows = self.reader.read(staging.spark, slice_.since, slice_.until)
            if isinstance(rows, pa.Table):
                rows = staging.spark.createDataFrame(rows)
            if not isinstance(rows, DataFrame):
                raise TypeError(f"it returned {rows!r}; return a DataFrame or an Arrow table")
        try:
            return staging.staged(self._prepared(rows), slice_.newest)
        except SPARK_ERRORS:
            self.require()  # raises an outage if the source has one
            raise

    def _prepared(self, made: DataFrame) -> DataFrame:
        """The rows that the class has made, checked, and decoded as far as only Spark can."""
        for name, what in ((ORIGIN, "ORIGIN"), (POSITION, "POSITION")):
            if name not in made.columns:
                raise SourceError(
                    f"{self.named}: its rows have no column {what} ({', '.join(made.columns)} are there); name it by "
                    f"the constant of the class, self.{what}. A row has self.ORIGIN, text that says where it comes "
                    "from, and self.POSITION, its number there; it may have self.ARRIVAL, self.PARTITION, self.RECORD"
                )
        wanted = self.read_columns
        if RECORD in made.columns:
            wanted = {name: kind for name, kind in wanted.items() if name in made.columns}
        for actual, _, kind in other_columns(dict(made.dtypes), wanted):
            raise SourceError(
                f"{self.named}: its rows have other columns than the pipeline: {actual}, and it should be {kind}; "
                "cast it, or correct source.schema"
            )
        private = {ORIGIN: "string", POSITION: "bigint", LANDED: "timestamp", PARTITION: "string"}
        casts = {name: F.col(name).try_cast(kind) for name, kind in private.items() if name in made.columns}
        rows = made.withColumns(casts)
        return self.decoded_by_spark(rows) if RECORD in rows.columns else rows

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        for split in splits:
            if isinstance(split, StagedSplit):
                for rows in staged_rows(split, self.read_columns):
                    yield self.chunk(rows, split.newest)

    def _unread(self, until: Any) -> int | None:
        with self._asking("unread"):
            return self.reader.unread(until)

    @contextmanager
    def _asking(self, method: str) -> Iterator[None]:
        """What the class raises, in one sentence. An error of the system is an outage."""
        try:
            yield
        except (SourceOutage, OSError) as error:
            raise SourceOutage(f"{self.named}: {without_secrets(first_line(error))}") from error
        except (LatecomerError, *SPARK_ERRORS):
            raise
        except Exception as error:
            raised = f"{type(error).__name__}: {without_secrets(first_line(error))}"
            raise SourceError(f"{self.named}: {method}() failed with {raised}; correct the class") from error
