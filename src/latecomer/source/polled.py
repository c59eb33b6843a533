"""A source of the user's own that is asked how far it reaches: a slice is what lies between two answers.

Each answer that is news is written down as a file in the store, durably, and these files are what Structured
Streaming finds. So a batch that was interrupted has the same bounds again, whatever the source has got since.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.config.own import PolledSource
from latecomer.errors import LatecomerError, SourceError, SourceOutage, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.source.base import Rows, Slice, StreamedSource
from latecomer.source.checkpoint import files_of_batch, repair_found, sync_found
from latecomer.source.files import found_files
from latecomer.source.records import RecordSource
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.store.answers import FOLDER, last_answer
from latecomer.store.files import make_folder, read_text, replace_text, url

LOG = logging.getLogger(__name__)
_Written = TypeVar("_Written")
_PAUSE = 1.0
"""Seconds between two questions."""


@dataclass(frozen=True)
class Range(Slice):
    """What lies between two answers."""

    since: Any
    """None: from the very beginning."""
    until: Any


@dataclass
class _Asked:
    """When the source was asked last, and what it said; that it could not be asked is told once."""

    at: float = 0.0
    number: int = -1
    until: Any = None
    known: bool = False
    down: bool = False


@dataclass(frozen=True)
class Polled(RecordSource, StreamedSource):
    """Rows between the answers of a class that latecomer does not know."""

    reader: PolledSource
    _asked: _Asked = field(default_factory=_Asked, compare=False)

    @property
    def named(self) -> str:
        return f"source {self.reader.kind}"

    def session(self) -> Mapping[str, str]:
        with self._asking("settings"):
            return self.reader.settings()

    def require(self) -> None:
        with self._asking("check"):
            self.reader.check()

    def look(self, root: Path, bounded: bool) -> None:
        """Ask how far the source reaches. In a bounded run it has to answer, and is asked until nothing is new."""
        asked = self._asked
        if bounded:
            while self._news(root):
                LOG.info("asking how far the source reaches")
        elif time.monotonic() >= asked.at + _PAUSE:
            asked.at = time.monotonic()
            try:
                self._news(root)
                asked.down = False
            except SourceOutage as error:
                if not asked.down:
                    LOG.warning("%s; it is asked again every second", error)
                asked.down = True

    def _news(self, root: Path) -> bool:
        """Whether the source reaches further than before; if so, it is written down."""
        asked, folder = self._asked, root / FOLDER
        if not asked.known:
            asked.number, asked.until, asked.known = *last_answer(root), True
        latest = self._latest(asked.until)
        if latest is None or latest == asked.until:
            return False
        make_folder(folder)
        answer = json.dumps({"since": asked.until, "until": latest})
        replace_text(folder / f"{asked.number + 1:012}.json", answer + "\n")
        asked.number, asked.until = asked.number + 1, latest
        return True

    def stream(self, spark: SparkSession, root: Path) -> DataFrame:
        make_folder(root / FOLDER)
        return found_files(spark).load(url(root / FOLDER)).select("path")

    def slices(self, checkpoint: Path, root: Path, source_batch: int) -> list[Range]:
        files = sorted(file.local for file in files_of_batch(checkpoint, source_batch))
        answers = [json.loads(read_text(file)) for file in files if file.suffix == ".json"]
        now = time.time_ns() // 1000  # the arrival of rows that say none
        return [
            Range(
                now,
                each["since"],
                each["until"],
                partitions=self._partitions(each["until"]),
                unread=self._unread(each["until"]),
            )
            for each in answers
        ]

    def repair(self, checkpoint: Path, accepted: int, logged: bool) -> None:
        repair_found(checkpoint, accepted, logged)

    def sync(self, checkpoint: Path, source_batch: int) -> None:
        sync_found(checkpoint, source_batch)

    def found(self, spark: SparkSession, piece: Slice) -> DataFrame:
        if not isinstance(piece, Range):
            raise TypeError(f"a {type(piece).__name__} is nothing that {self.named} has")
        with self._asking("read"):
            rows = self.reader.read(spark, piece.since, piece.until)
            if isinstance(rows, pa.Table):
                return spark.createDataFrame(rows)
            if not isinstance(rows, DataFrame):
                raise TypeError(f"it returned {rows!r}; return a DataFrame or an Arrow table")
        return rows

    def _partitions(self, until: Any) -> Mapping[str, bool] | None:
        """The partitions that the source names, unless a column of the rows does."""
        if self.pipeline.partition_column is not None:
            return None
        with self._asking("partitions"):
            return self.reader.partitions(until)

    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        """Where Spark fails, the source is asked whether that is its doing: an outage of its may pass."""

        def blaming(rows: Rows) -> _Written:
            try:
                return write(rows)
            except SPARK_ERRORS:
                self.require()
                raise

        return super().read(spark, piece, blaming)

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
            told = f"{type(error).__name__}: {without_secrets(first_line(error))}"
            raise SourceError(f"{self.named}: {method}() failed with {told}; correct the class") from error
