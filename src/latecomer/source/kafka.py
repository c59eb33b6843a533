"""Topics of a Kafka cluster: the broker is asked how far they reach, and Spark's connector reads what lies between.
Small batches are read without it (`kafka_in_process.py`).

The broker's metadata name the partitions, also those that never had a record, and how much of each is still to be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.kafka import METADATA, KafkaTopics, StartAt
from latecomer.config.own import PolledSource
from latecomer.decode.frames import HEAD_SIZE, LARGEST_ID
from latecomer.errors import MachineError, SourceError
from latecomer.source.kafka_broker import Broker
from latecomer.source.kafka_fetch import Fetcher
from latecomer.source.kafka_ranges import (
    Answer,
    Gone,
    MadeAgain,
    lag_of,
    next_answer,
    partitions_of,
    ranges_of,
    remaining,
    waiting,
)
from latecomer.source.kafka_settings import java_settings
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.spark.packages import kafka_connector, with_jars
from latecomer.spark.session import no_rows

_BY_BROKER = 1
"""What Spark calls LogAppendTime."""
WHOLE_FETCHES = {"kafka.fetch.max.wait.ms": "5", "kafka.max.poll.records": "50000"}
"""After each poll Spark asks how far the partition reaches, and drops what else was fetched. So a poll takes all that a
fetch has brought, a megabyte, and not 500 records of it; and a fetch does not wait for more than is there, for the
answer to Spark's question waits behind it, half a second where nothing new has come."""
CLIENTS = 1024
"""How many clients Spark keeps; each may hold a megabyte that it has fetched ahead."""


class KafkaReader(PolledSource):
    """Reads the topics that a pipeline file names."""

    kind: ClassVar[str] = "kafka"
    topics: KafkaTopics
    base: Path
    """The folder of the pipeline file."""
    id_header: str | None = None
    """The header that has the id of a record's schema. The record is given Confluent's framing for it."""

    @cached_property
    def _broker(self) -> Broker:
        return Broker(self.topics, self.base)

    @cached_property
    def fetcher(self) -> Fetcher:
        """Reads records without Spark."""
        return Fetcher(self._broker.settings)

    @cached_property
    def _clients(self) -> SparkClients:
        return SparkClients()

    def check(self) -> None:
        self._broker.require_secrets()
        java_settings(self._broker.settings())
        with self._broker.asked() as questions:
            for name, topic in questions.described(first=True).items():
                self._require_offsets(name, len(topic.end))
                if self.topics.arrival == "broker" and not questions.stamped_by_broker(name):
                    raise SourceError(
                        f"kafka source: source.kafka.arrival is broker, and topic {name} has CreateTime: its "
                        "timestamps are the producers' clocks; set message.timestamp.type=LogAppendTime on the topic, "
                        "or write arrival: read"
                    )

    def waiting(self, since: Answer | None) -> dict[str, list[int]]:
        """For each topic, how many records each of its partitions has that are not read yet."""
        with self._broker.asked() as questions:
            topics = questions.described(first=since is None)
        return waiting(since, topics)

    def settings(self) -> Mapping[str, str]:
        return {**with_jars(kafka_connector()), "spark.kafka.consumer.cache.capacity": str(CLIENTS)}

    def latest(self, since: Answer | None) -> Answer | None:
        with self._broker.asked() as questions:
            topics = questions.described(first=since is None)
        rows, continues = self.topics.max_rows_per_batch, self.topics.on_data_loss == "continue"
        try:
            return next_answer(since, topics, rows, continues) or since
        except MadeAgain as gone:
            raise SourceError(
                f"kafka source: topic {gone.topic} was deleted and made again since it was read: its offsets mean "
                "other records now; start a new store for it, or read another topic"
            ) from None
        except Gone as gone:
            raise _gone(gone) from None

    def partitions(self, until: Answer) -> dict[str, bool]:
        return partitions_of(until)

    def unread(self, until: Answer) -> int:
        return lag_of(until)

    def skips_tombstones(self) -> bool:
        return self.topics.tombstones == "skip"

    def remaining(self, until: Answer) -> Answer:
        places = [(name, number) for name, numbers in ranges_of(until).items() for number in numbers]
        if not places:
            return until
        with self._broker.asked() as questions:
            begins = questions.begins(places)
        try:
            return remaining(until, begins, self.topics.on_data_loss == "continue")
        except Gone as gone:
            raise _gone(gone) from None

    def read(self, spark: SparkSession, since: Answer | None, until: Answer) -> DataFrame:
        ranges = ranges_of(until)
        if not ranges:
            return no_rows(spark, self._columns())
        starts, ends = (
            {name: {str(number): each[end] for number, each in of.items()} for name, of in ranges.items()}
            for end in (0, 1)
        )
        client = java_settings(self._broker.settings())
        options = {
            **WHOLE_FETCHES,
            **client,
            "kafka.group.id": self._clients.group(client),
            "assign": json.dumps({name: sorted(numbers) for name, numbers in ranges.items()}),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
            "failOnDataLoss": str(self.topics.on_data_loss == "stop").lower(),
            "includeHeaders": str(
                self.id_header is not None or "headers" in self.topics.metadata.values()
            ).lower(),
        }
        try:
            found = spark.read.format("kafka").options(**options).load()
        except SPARK_ERRORS as error:
            if "Failed to find data source: kafka" not in str(error) and "DATA_SOURCE_NOT_FOUND" not in str(
                error
            ):
                raise
            raise MachineError(
                "this Spark session has no Kafka connector; start it with "
                f"{kafka_connector().parts[0].coordinates} in spark.jars.packages, or leave the session to latecomer"
            ) from None
        return found.select(*(column.alias(name) for name, column in self._selected().items()))

    def _selected(self) -> dict[str, Column]:
        """Columns of Spark's connector under the names that a source gives them."""
        origin = F.concat(F.col("topic"), F.lit("/"), F.col("partition").cast("string"))
        chosen = {
            self.RECORD: F.col("value") if self.id_header is None else framed_by(self.id_header),
            self.ORIGIN: origin,
            self.PARTITION: origin,
            self.POSITION: F.col("offset"),
            **{name: _metadata(what) for name, what in self.topics.metadata.items()},
        }
        if self.topics.arrival != "read":
            chosen[self.ARRIVAL] = F.when(F.col("timestampType") == _BY_BROKER, F.col("timestamp"))
        return chosen

    def _columns(self) -> dict[str, str]:
        return {
            self.RECORD: "binary",
            self.ORIGIN: "string",
            self.PARTITION: "string",
            self.POSITION: "bigint",
            **{name: METADATA[what] for name, what in self.topics.metadata.items()},
        }

    def _require_offsets(self, name: str, partitions: int) -> None:
        """Refuse offsets to start at of partitions that there are not."""
        start = self.topics.start
        given = start.offsets if isinstance(start, StartAt) else None
        for partition in (given or {}).get(name, ()):
            if partition >= partitions:
                raise SourceError(
                    f"kafka source: source.kafka.start names partition {partition} of topic {name}, which has "
                    f"{partitions}; correct it"
                )


class SparkClients:
    """Spark keeps the clients with which its tasks read, one for each partition of a topic, and looks for them by the
    group that they are of. It would make a new group for each batch, and so a new client for each partition; and a
    client must not be used with other settings than it was made with. Nobody joins the groups."""

    def __init__(self) -> None:
        self._made: tuple[Mapping[str, str], str] | None = None

    def group(self, settings: Mapping[str, str]) -> str:
        """The group of clients with these settings."""
        if self._made is None or self._made[0] != settings:
            self._made = settings, f"latecomer-{uuid4()}"
        return self._made[1]


def _gone(gone: Gone) -> SourceError:
    return SourceError(
        f"kafka source: topic {gone.topic}, partition {gone.partition}: offsets {gone.since} to {gone.until - 1} are "
        "gone before they were read, by retention or because the broker lost them; let the topic keep its records "
        "longer, and write on_data_loss: continue to go on without these"
    )


def framed_by(header: str) -> Column:
    """The value of a record in Confluent's framing, with the id that a header has; as it is, where that has none.

    The id is four bytes, the five of the framing, or a decimal number. Four bytes that are digits are a number: ids
    are not that large.
    """
    last = F.try_element_at(F.filter("headers", lambda each: each["key"] == header), F.lit(-1))["value"]
    size, is_number = F.length(last), last.cast("string").rlike(r"^[0-9]{1,10}\z")
    number = F.when(is_number, last.cast("string").try_cast("bigint"))
    in_range = (number >= 1) & (number <= LARGEST_ID)
    written = F.unhex(F.lpad(F.hex(number), 8, "0"))
    found = (
        F.when(is_number, F.when(in_range, written))
        .when(size == HEAD_SIZE - 1, last)
        .when(
            (size == HEAD_SIZE) & (F.substring(last, 1, 1) == F.expr("X'00'")),
            F.substring(last, 2, HEAD_SIZE),
        )
    )
    return F.when(found.isNotNull(), F.concat(F.expr("X'00'"), found, F.col("value"))).otherwise(
        F.col("value")
    )


def _metadata(what: str) -> Column:
    """What Kafka says of a record, as a column."""
    by_broker = F.col("timestampType") == _BY_BROKER
    match what:
        case "key":
            return F.col("key").cast("string")
        case "headers":
            texts = F.transform(
                "headers", lambda each: F.struct(each["key"], each["value"].cast("string").alias("value"))
            )
            return F.to_json(texts)
        case "timestamp_type":
            return F.when(by_broker, F.lit("LogAppendTime")).otherwise(F.lit("CreateTime"))
    return F.col(what)
