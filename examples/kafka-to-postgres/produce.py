"""Payments of eight shops, made up, and sent to a Kafka topic in the order in which they would come.

    python produce.py --servers 127.0.0.1:9092 --topic shop-payments

A minute of the story is sent in a quarter of a second (`--pace`). Most payments come within seconds. One in twenty
is some minutes late. The tea stall's terminal is in a tunnel for a quarter of an hour, and sends everything when it
comes out. Terminals repeat themselves now and then, some records cannot be read, and one has no value (a tombstone).
The same seed always makes the same records.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

SHOPS = ("bakery", "bazaar", "books", "dosa", "fruit", "pharmacy", "tailor", "tea")
OPENING = datetime(2026, 4, 25, 12, tzinfo=UTC)
MINUTES = 30
TUNNEL = ("tea", 8, 23)
"""Whose terminal hears nothing from this minute to that."""
UNREADABLE = (
    b'{"txn": "t-torn", "at": "2026-04-25T12:0',
    b"<payment>120</payment>",
    b'{"txn": "t-words", "at": "2026-04-25T12:07:00Z", "paise": "twelve"}',
    b'{"txn": "t-timeless", "paise": 1200}',
    b'{"txn": "t-dateless", "at": "noon", "paise": 1200}',
)


@dataclass(frozen=True)
class Record:
    """A record of the topic, and in which minute of the story it is sent."""

    minute: int
    key: str
    value: bytes | None
    kind: str = "payment"
    """What it is: payment, repeat, unreadable or tombstone."""


def records(seed: int = 7, payments_a_minute: int = 40) -> list[Record]:
    """Every record, in the order in which they are sent."""
    random_ = random.Random(seed)  # noqa: S311
    paid = list(_payments(random_, payments_a_minute))
    repeated = [
        Record(min(each.minute + random_.randrange(4), MINUTES + 5), each.key, each.value, "repeat")
        for each in random_.sample(paid, len(paid) // 50)
    ]
    broken = [Record(random_.randrange(2, MINUTES), "bazaar", value, "unreadable") for value in UNREADABLE]
    closed = [Record(MINUTES // 2, "tailor", None, "tombstone")]
    order = [*paid, *repeated, *broken, *closed]
    random_.shuffle(order)
    # A repeat comes after what it repeats: in its minute, payments are sent first.
    return sorted(order, key=lambda each: (each.minute, each.kind != "payment"))


def _payments(random_: random.Random, a_minute: int) -> Iterator[Record]:
    shop_in_tunnel, enters, leaves = TUNNEL
    for number in range(MINUTES * a_minute):
        shop = random_.choice(SHOPS)
        second = number * 60 // a_minute
        at = OPENING + timedelta(seconds=second)
        minute = second // 60
        if random_.random() < 0.05:
            minute += random_.choice((2, 3, 4, 5, 6, 7, 12))
        if shop == shop_in_tunnel and enters <= minute < leaves:
            minute = leaves
        payment = {
            "txn": f"t-{number:05}",
            "at": at.isoformat().replace("+00:00", "Z"),
            "paise": random_.randrange(500, 90_000),
        }
        yield Record(minute, shop, json.dumps(payment).encode())


def send(servers: str, topic: str, sent: Iterable[Record], pace: float) -> int:
    """Send records, and wait `pace` seconds after each minute of the story; how many were sent."""
    from confluent_kafka import Producer

    failed = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            # As Java's producers choose a partition. With it each of three has shops.
            "partitioner": "murmur2_random",
            "log_level": 3,
        }
    )
    count = 0
    for _, minute in groupby(sent, key=lambda record: record.minute):
        for record in minute:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            count += 1
        if producer.flush(30) or failed:
            reason = failed[0].str() if failed else "no answer"
            raise SystemExit(f"error: {servers} does not take records for {topic}: {reason}")
        time.sleep(pace)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, help="host:port of a broker")
    parser.add_argument("--topic", default="shop-payments", help="it must be there")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pace", type=float, default=0.25, help="seconds that a minute of the story takes")
    asked = parser.parse_args()
    count = send(asked.servers, asked.topic, records(asked.seed), asked.pace)
    print(f"{count:,} records sent to {asked.topic}")


if __name__ == "__main__":
    main()
