"""A source of the user's own that is asked how far it reaches: a slice is what lies between two answers.

Each answer that is news is written down in the store, durably, before it is read. So a batch that was interrupted has
the same bounds again, whatever the source has got since.
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

from latecomer.config.own import PolledSource
from latecomer.errors import LatecomerError, SourceError, SourceOutage, StoreError, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.source.base import Chunk, Clock, FollowedSource, Slice, Split
from latecomer.source.checkpoint import CHECKPOINT
from latecomer.source.columns import LANDED, ORIGIN, PARTITION, POSITION
from latecomer.source.decode.base import other_columns
from latecomer.source.decode.columns import RECORD
from latecomer.source.records import RecordSource
from latecomer.source.staging import StagedSplit, Staging, staged_rows
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.store import files
from latecomer.store.answers import Answer, Answers
from latecomer.store.files import Location
from latecomer.store.layout import source_type
from latecomer.store.recovery import RESTORE

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Range(Slice):
    """What lies between two answers."""

    since: Any
    """None: from the very beginning."""
    until: Any


class StandIn(PolledSource):
    """What a task knows of a source of the user's own: its rows are staged, and it is not asked for anything."""

    like: str
    skips: bool

    def skips_tombstones(self) -> bool:
        return self.skips


def resume_answers(root: Location, accepted: int, logged: bool) -> None:
    """Refuse answers that are not those of the store: they end with the last `accepted` batch of the source, or go
    beyond it, and must, where the next is `logged` already. What they say of batches before is forgotten."""
    last = Answers(root).last()
    if last < accepted + logged or (accepted >= 0 and Answers(root).read(accepted) is None):
        raise StoreError(
            f"store {root}: what the source has answered ends with answer {last}, and batch {accepted + logged} of "
            f"it was read already: rows would be read twice; {RESTORE}"
        )
    Answers(root).forget(accepted)


@dataclass(frozen=True)
class Polled(RecordSource, FollowedSource):
    """Rows between the answers of a class that latecomer does not know."""

    reader: PolledSource
    pause = 1.0

    @property
    def named(self) -> str:
        return f"source {self.reader.kind}"

    @property
    def skips_tombstones(self) -> bool:
        with self._asking("skips_tombstones"):
            return self.reader.skips_tombstones()

    @property
    def clock(self) -> Clock:
        return Clock.BROKER if self.reader.kind == "kafka" else Clock.SOURCE

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

    def ask_for_all(self, root: Location, number: int = 0) -> None:
        """Ask until nothing is new, or until an answer says that nothing is left."""
        LOG.info("asking how far the source reaches")
        while (answer := self._ask(root)) is not None and self._unread(answer.until) != 0:
            pass

    def has_answered(self, root: Location, number: int) -> bool:
        """Whether an answer was written down."""
        return Answers(root).read(number) is not None

    def answered(self, root: Location, number: int) -> Range | None:
        """The slice of an answer that was written down, if there is one; what has gone since then is left out."""
        answers = Answers(root)
        answer = answers.read(number)
        if answer is None:
            return None
        with self._asking("remaining"):
            remaining = self.reader.remaining(answer.until)
        if remaining != answer.until:
            answer = Answer(answer.since, remaining)
            answers.write(number, answer)
        return self._slice(answer)

    def news(self, root: Location, number: int) -> Range | None:
        """The slice up to what the source says now, if that is more than before; it is asked when all answers before
        this `number` are accepted."""
        answer = self._ask(root)
        if answer is None:
            return None
        Answers(root).forget(number - 1)
        return self._slice(answer)

    def _ask(self, root: Location) -> Answer | None:
        """What the source says, if it reaches further than before; it is written down."""
        answers = Answers(root)
        last = answers.last()
        before = answers.read(last)
        since = before.until if before else None
        until = self._latest(since)
        if until is None or until == since:
            return None
        answer = Answer(since, until)
        answers.write(last + 1, answer)
        return answer

    def _slice(self, answer: Answer) -> Range:
        now = time.time_ns() // 1000  # the arrival of rows that say none
        partitions, unread = self._partitions(answer.until), self._unread(answer.until)
        return Range(now, answer.since, answer.until, partitions=partitions, unread=unread)

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """Spark, or the class itself, computes the rows; they are staged."""
        if not isinstance(slice_, Range):
            raise TypeError(f"a {type(slice_).__name__} is nothing that {self.named} has")
        with self._asking("read"):
            found = self.reader.read(staging.spark, slice_.since, slice_.until)
            if isinstance(found, pa.Table):
                found = staging.spark.createDataFrame(found)
            if not isinstance(found, DataFrame):
                raise TypeError(f"it returned {found!r}; return a DataFrame or an Arrow table")
        try:
            return staging.staged(self._prepared(found), slice_.newest)
        except SPARK_ERRORS:
            self.require()  # an outage of the source's may pass
            raise

    def _prepared(self, found: DataFrame) -> DataFrame:
        """What the class has made, checked, with what only Spark can decode of it."""
        for name, what in ((ORIGIN, "ORIGIN"), (POSITION, "POSITION")):
            if name not in found.columns:
                raise SourceError(
                    f"{self.named}: its rows have no column {what} ({', '.join(found.columns)} are there); name it by "
                    f"the constant of the class, self.{what}. A row has self.ORIGIN, text that says where it comes "
                    "from, and self.POSITION, its number there; it may have self.ARRIVAL, self.PARTITION, self.RECORD"
                )
        wanted = self.read_columns
        if RECORD in found.columns:
            wanted = {name: kind for name, kind in wanted.items() if name in found.columns}
        for there, _, kind in other_columns(dict(found.dtypes), wanted):
            raise SourceError(
                f"{self.named}: its rows have other columns than the pipeline: {there}, and it should be {kind}; "
                "cast it, or correct source.schema"
            )
        typed = {ORIGIN: "string", POSITION: "bigint"} | (
            {LANDED: "timestamp"} if LANDED in found.columns else {}
        )
        typed |= {PARTITION: "string"} if PARTITION in found.columns else {}
        rows = found.withColumns({name: F.col(name).try_cast(kind) for name, kind in typed.items()})
        return self.decoded_by_spark(rows) if RECORD in rows.columns else rows

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        kinds = {name: source_type(kind) for name, kind in self.read_columns.items()}
        for split in splits:
            if isinstance(split, StagedSplit):
                for rows in staged_rows(split, kinds):
                    yield self.chunk(rows, split.newest)

    def _partitions(self, until: Any) -> Mapping[str, bool] | None:
        """The partitions that the source names, unless a column of the rows does."""
        if self.pipeline.partition_column is not None:
            return None
        with self._asking("partitions"):
            return self.reader.partitions(until)

    def _unread(self, until: Any) -> int | None:
        with self._asking("unread"):
            return self.reader.unread(until)

    def _latest(self, since: Any) -> Any:
        with self._asking("latest"):
            return json.loads(json.dumps(self.reader.latest(since)))

    @contextmanager
    def _asking(self, method: str) -> Iterator[None]:
        """What the class raises, in one sentence. What the system refuses may pass."""
        try:
            yield
        except (SourceOutage, OSError) as error:
            raise SourceOutage(f"{self.named}: {without_secrets(first_line(error))}") from error
        except (LatecomerError, *SPARK_ERRORS):
            raise
        except Exception as error:
            raised = f"{type(error).__name__}: {without_secrets(first_line(error))}"
            raise SourceError(f"{self.named}: {method}() failed with {raised}; correct the class") from error
