"""The events of a log, or the messages of topics, counted by schema. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from latecomer.config.all_columns import SOURCE
from latecomer.config.models import Pipeline
from latecomer.config.registered import Registered, RegisteredJson
from latecomer.errors import SourceError
from latecomer.schemas.inventory import Inventory
from latecomer.source.kafka.ranges import Place
from latecomer.source.kafka.reader import KafkaReader
from latecomer.store.sql import double_quoted, text_literal
from latecomer.store.store import Store

LOG = "the event log"
_AT_ONCE, _SECONDS, _PATIENCE = 1_000, 1.0, 30
"""Messages to ask for at once, the seconds to wait for them, and how many empty answers in a row end the read."""


def of_log(store: Store) -> Inventory:
    """The events of a log, by the id of their schema. Events of files, and of sources without a registry, have none."""
    inventory = Inventory()
    rows = store.events.query_rows(
        f"select {_id_sql(store)} as schema_id, count(*) as events, min(arrival_time) as first, "
        "max(arrival_time) as last from t group by 1"
    )
    for row in rows:
        inventory.add_events(LOG, row["schema_id"], row["events"], row["first"], row["last"])
    return inventory


def _id_sql(store: Store) -> str:
    """The id of an event's schema, in SQL. The log has 1 for events whose source has none."""
    views = store.pipeline.views
    named = [
        name
        for name, view in views.items()
        if isinstance(view.format, Registered) and view.source.has_records
    ]
    if len(named) == len(views):
        return "schema_id"
    if not named:
        return "cast(null as int)"
    sources = ", ".join(map(text_literal, named))
    return f"case when {double_quoted(store.layout.view[SOURCE])} in ({sources}) then schema_id end"


def of_topics(
    pipeline: Pipeline, newest: int | None = None, watch: Callable[[int, int], None] = lambda *_: None
) -> Inventory:
    """The messages of a pipeline's topics as they are now; with `newest`, only so many of each partition. `watch` is
    called with how many messages were read, and how many there are."""
    inventory = Inventory()
    kafka = [
        (view.source.kafka, view.format.id_header if isinstance(view.format, RegisteredJson) else None)
        for view in pipeline.views.values()
        if view.source.kafka
    ]
    if not kafka:
        raise SourceError("the pipeline reads no topics; ask for its log instead")
    for topics, id_header in kafka:
        broker = KafkaReader(topics=topics, base=pipeline.base)
        broker.require_secrets()
        with broker.questions() as questions:
            described = questions.described(first=False)
            ranges = {
                (name, number): (begin if newest is None else max(begin, end - newest), end)
                for name, topic in described.items()
                for number, (begin, end) in enumerate(zip(topic.begin, topic.end, strict=True))
            }
            total = sum(end - begin for begin, end in ranges.values())
            for read, message in enumerate(_messages(broker.client_settings(), ranges), start=1):
                kind, millis = message.timestamp()
                at = datetime.fromtimestamp(millis / 1000, UTC) if kind else None
                headers = dict(message.headers() or [])  # the last one of each name
                header = headers.get(id_header) if id_header is not None else None
                inventory.add_message(message.topic(), message.value(), at, header)
                if read % _AT_ONCE == 0:
                    watch(read, total)
    return inventory


def _messages(settings: Mapping[str, str], ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Any]:
    """The messages in ranges of offsets. Some offsets have no message: it was compacted away, or it is the end of a
    transaction."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    ends = {place: end for place, (begin, end) in ranges.items() if begin < end}
    own = {
        "group.id": "latecomer-inventory",  # nobody joins it: partitions are assigned, and nothing is committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    consumer, silent = Consumer({**settings, **own}), 0
    try:
        consumer.assign([TopicPartition(*place, ranges[place][0]) for place in ends])
        while ends and silent < _PATIENCE:
            messages = consumer.consume(_AT_ONCE, _SECONDS)
            silent = 0 if messages else silent + 1
            for message in messages:
                place, error = (message.topic(), message.partition()), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if place not in ends:
                    continue
                if error is None and message.offset() < ends[place]:
                    yield message
                if error is not None or message.offset() >= ends[place] - 1:
                    del ends[place]
    finally:
        consumer.close()
    if ends:
        raise SourceError(
            f"kafka source: no message came for {int(_PATIENCE * _SECONDS)} s, and {len(ends)} partitions were not "
            "read to their end; see that the broker is up, and ask again"
        )
