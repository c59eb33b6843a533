"""Sources of records: a DataFrame of rows, or of bytes to decode, each with its origin and position."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, TypeVar

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.decode import json_rules
from latecomer.decode.base import RecordDecoder, other_columns
from latecomer.decode.choose import record_decoder
from latecomer.decode.columns import CORRUPT, INVALID, KEPT, RECORD, SCHEMA_ID
from latecomer.decode.detail import TOMBSTONE
from latecomer.decode.retrying import patiently
from latecomer.errors import SourceError
from latecomer.source.base import Clock, Letters, Rows, Slice, Source
from latecomer.source.columns import (
    BROKEN,
    FULL_ORIGIN,
    LANDED,
    ORIGIN,
    PARTITION,
    POSITION,
    READ,
    SKIPPED,
    STAMPED,
    UNKNOWN,
)
from latecomer.source.letters import RecordLetters
from latecomer.store.sql import quoted

_Written = TypeVar("_Written")
_VALUELESS = f"{PRIVATE}valueless"
TASKS_A_CORE = 4
"""A source may have hundreds of partitions with a few rows each, and a task costs time and leaves a file. They are more
than there are cores, so that what completes the batch before has its turn."""


@dataclass(frozen=True)
class RecordSource(Source):
    """What such sources have in common: how records become rows."""

    settings: ClassVar[Mapping[str, str]] = MappingProxyType(json_rules.SETTINGS)

    @abstractmethod
    def found(self, spark: SparkSession, piece: Slice) -> DataFrame:
        """A slice as the source has it: its columns, or RECORD; ORIGIN and POSITION; LANDED where it is known."""

    @property
    @abstractmethod
    def named(self) -> str:
        """The source, for people."""

    @property
    def skips_tombstones(self) -> bool:
        """Whether records without a value are left out, and only counted."""
        return False

    @property
    def clock(self) -> Clock:
        """What says when a row came, where its LANDED is not null."""
        return Clock.SOURCE

    @cached_property
    def decoder(self) -> RecordDecoder:
        return record_decoder(self.pipeline)

    def letters(self, piece: Slice) -> Letters:
        return RecordLetters(self.pipeline, self.read_columns)

    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        """Where a record turns out to need what is not known yet, that is learned, and all of it is read again."""

        def attempt() -> _Written:
            if self.decoder.knows_nothing:
                self.decoder.learn(self.found(spark, piece))
            self.decoder.prepare()
            rows = self.rows(spark, piece)
            written = write(rows)
            while rows.unknown():
                self.decoder.learn(self.found(spark, piece))
                rows = self.rows(spark, piece)
                written = write(rows)
            return written

        return patiently(attempt)

    def rows(self, spark: SparkSession, piece: Slice) -> Rows:
        """The rows of a slice: the source's columns, and where each row stands."""
        found, count = self.found(spark, piece), Observation()
        counted = self._with_arrival(self._counted(found, count), piece)
        if RECORD in found.columns:
            counted = counted.withColumn(_VALUELESS, F.col(RECORD).isNull())
            given = {name: kind for name, kind in self.read_columns.items() if name in found.columns}
            self._require_columns(dict(found.dtypes), given)
            asked = {name: kind for name, kind in self.read_columns.items() if name not in given}
            decoded = self.decoder.decoded(counted, asked)
        else:
            self._require_columns(dict(found.dtypes), self.read_columns)
            decoded = counted.withColumn(CORRUPT, F.lit(None).cast("string"))
        source_name = self.pipeline.source_name
        frame = decoded.select(
            *(F.col(quoted(source_name(column))).alias(column) for column in self.columns),
            CORRUPT,
            *(name for name in (KEPT, INVALID) if name in decoded.columns),
            self._tombstone(found).alias(BROKEN),
            F.col(ORIGIN).cast("string").alias(ORIGIN),
            F.col(FULL_ORIGIN if FULL_ORIGIN in found.columns else ORIGIN).cast("string").alias(FULL_ORIGIN),
            F.col(POSITION).cast("bigint").alias(POSITION),
            LANDED,
            *([PARTITION] if PARTITION in found.columns else []),
            *([SCHEMA_ID] if SCHEMA_ID in decoded.columns else []),
        )
        return Rows(
            frame, [count], tasks=TASKS_A_CORE * spark.sparkContext.defaultParallelism, clock=self.clock
        )

    def _counted(self, rows: DataFrame, count: Observation) -> DataFrame:
        """The rows, counted where they come in; without tombstones, which are counted too, where they are skipped."""
        skips = RECORD in rows.columns and self.skips_tombstones
        kept = F.col(RECORD).isNotNull() if skips else F.lit(True)
        stamped = self._landed(rows).isNotNull() if LANDED in rows.columns else F.lit(False)
        wanted = {READ: kept, SKIPPED: ~kept, STAMPED: kept & stamped}
        if RECORD in rows.columns and (unknown := self.decoder.unknown(F.col(RECORD))) is not None:
            wanted[UNKNOWN] = kept & F.coalesce(unknown, F.lit(False))
        counted = rows.observe(count, *(F.count_if(which).alias(name) for name, which in wanted.items()))
        return counted.where(kept) if skips else counted

    def _tombstone(self, found: DataFrame) -> Column:
        """That a record has no value at all."""
        if RECORD not in found.columns:
            return F.lit(None).cast("string")
        return F.when(F.col(_VALUELESS), F.lit(TOMBSTONE))

    def _with_arrival(self, rows: DataFrame, piece: Slice) -> DataFrame:
        for name, what in ((ORIGIN, "ORIGIN"), (POSITION, "POSITION")):
            if name not in rows.columns:
                raise SourceError(f"{self.named}: its rows have no column {what}; select one under that name")
        read_at = F.timestamp_micros(F.lit(piece.newest))
        if LANDED not in rows.columns:
            return rows.withColumn(LANDED, read_at)
        return rows.withColumn(LANDED, F.coalesce(self._landed(rows), read_at))

    @staticmethod
    def _landed(rows: DataFrame) -> Column:
        return rows[LANDED].try_cast("timestamp")

    def _require_columns(self, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        for there, _, kind in other_columns(found, wanted):
            raise SourceError(
                f"{self.named}: its rows have other columns than the pipeline: {there}, and it should be {kind}; "
                "cast it, or correct source.schema"
            )
