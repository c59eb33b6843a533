"""The whole example with one command: Kafka, Postgres, payments, the pipeline, and what came out of it.

    python run.py

A broker and a database are started in a temporary folder, and are gone at the end. To use your own, set KAFKA_SERVERS
(host:port) or POSTGRES (postgresql://user:password@host/database), or both. There the example makes three topics and a
schema, refuses to start where they are there already, and removes them in the end unless `--keep` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import produce

from latecomer.errors import LatecomerError
from latecomer.testing.servers import running_kafka, running_postgres

try:
    import psycopg
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic
    from psycopg.rows import dict_row
except ImportError as missing:
    raise SystemExit(f"error: {missing}; pip install 'latecomer[kafka,postgres]'") from None

HERE = Path(__file__).parent
PAYMENTS, TOO_LATE, UNREADABLE = "shop-payments", "shop-payments-too-late", "shop-payments-unreadable"
SCHEMA = "shops"
PARTITIONS = 3
PATIENCE = 30.0
TEA_STALL = """
select to_char(window_start at time zone 'UTC', 'HH24:MI') as minute, payments, paise, timing, sequence + 1 as published
from shops.shop_minutes where shop = 'tea' order by window_start
"""
BY_TIMING = "select timing, count(*) as numbers from shops.shop_minutes group by timing order by timing"
TOTALS = "select count(*) as numbers, sum(payments) as payments, sum(paise) as paise from shops.shop_minutes"


def main() -> None:
    parser = argparse.ArgumentParser(description="Payments from Kafka, counted a minute, into Postgres.")
    parser.add_argument("--seed", type=int, default=7, help="other payments")
    parser.add_argument(
        "--folder", type=Path, help="where the store goes, and stays; else a temporary folder"
    )
    parser.add_argument("--keep", action="store_true", help="leave topics and tables on servers of your own")
    options = parser.parse_args()
    # Servers are ended, and what was made is removed, also when the command is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if (folder / "store").exists():
                raise SystemExit(f"error: {folder} has a store already; remove it, or name another folder")
            folder.mkdir(parents=True, exist_ok=True)
            os.environ["KAFKA_SERVERS"] = stack.enter_context(broker())
            os.environ["POSTGRES"] = stack.enter_context(database())
            stack.enter_context(places(options.keep))
            tell_story(folder, options.seed)
    except LatecomerError as error:
        raise SystemExit(f"error: {error}") from None
    except KafkaException as error:
        raise SystemExit(f"error: Kafka: {error.args[0].str()}; KAFKA_SERVERS names the broker") from None
    except psycopg.OperationalError as error:
        raise SystemExit(f"error: Postgres: {str(error).strip()}; POSTGRES names the database") from None


def tell_story(folder: Path, seed: int) -> None:
    """Half of the payments, a run; the other half, a run; and where everything went."""
    servers, target = os.environ["KAFKA_SERVERS"], os.environ["POSTGRES"]
    shutil.copy(HERE / "pipeline.yaml", folder)
    order = produce.records(seed)
    half = produce.MINUTES // 2
    title("What the pipeline does, and whether everything is there")
    latecomer(folder, "validate")
    latecomer(folder, "doctor")
    title(f"Minutes 0 to {half} are sent, and read")
    produce.send(servers, PAYMENTS, [each for each in order if each.minute < half], pace=0.25)
    latecomer(folder, "run", "--once", "--quiet")
    show(asked(target, TOTALS))
    title("The rest is sent, with what the tunnel held back; the run ends the input")
    produce.send(servers, PAYMENTS, [each for each in order if each.minute >= half], pace=0.25)
    latecomer(folder, "run", "--drain", "--quiet")
    title("Postgres: the tea stall, whose terminal was in a tunnel from 12:08 to 12:23")
    show(asked(target, TEA_STALL))
    title("Postgres: all shops; LATE numbers took in payments after their minute had closed")
    show(asked(target, BY_TIMING))
    show(asked(target, TOTALS))
    too_late, unreadable = consumed(servers, TOO_LATE), consumed(servers, UNREADABLE)
    title(f"Topic {TOO_LATE}: {len(too_late)} payments, by shop")
    show([dict(Counter(row["shop"] for row in too_late).most_common())])
    title(f"Topic {UNREADABLE}: {len(unreadable)} records")
    show([{name: row[name] for name in ("origin", "position", "reason", "detail")} for row in unreadable])
    title("The ledger: every record has one fate")
    latecomer(folder, "ledger")
    latecomer(folder, "status")
    require_all(order, asked(target, TOTALS)[0], too_late, unreadable)


def require_all(
    order: list[produce.Record], totals: dict[str, Any], too_late: list[Any], unreadable: list[Any]
) -> None:
    """Everything that was sent is in Postgres, too late, unreadable, or a repeat."""
    kinds = Counter(each.kind for each in order)
    found = totals["payments"] + len(too_late) + len(unreadable) + kinds["repeat"]
    title(
        f"{len(order)} sent = {totals['payments']} in Postgres + {len(too_late)} too late + {len(unreadable)} "
        f"unreadable + {kinds['repeat']} repeats"
    )
    if found != len(order):
        raise SystemExit(f"error: {found} of {len(order)} records were found again")


@contextmanager
def broker() -> Iterator[str]:
    """The user's own broker, or one for the example."""
    own = os.environ.get("KAFKA_SERVERS")
    if own:
        yield own
        return
    print("starting a Kafka broker (its jars are downloaded once)", flush=True)
    with tempfile.TemporaryDirectory() as data, running_kafka(Path(data, "kafka")) as server:
        yield server.servers


@contextmanager
def database() -> Iterator[str]:
    """The user's own database, or one for the example."""
    own = os.environ.get("POSTGRES")
    if own:
        yield own
        return
    print("starting a Postgres", flush=True)
    with running_postgres() as server:
        asked(server.url_with_password, "create database payments")
        yield server.url_with_password.rsplit("/", 1)[0] + "/payments"


@contextmanager
def places(keep: bool) -> Iterator[None]:
    """The topic of payments, and room for what latecomer makes; everything is removed at the end."""
    servers, target = os.environ["KAFKA_SERVERS"], os.environ["POSTGRES"]
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    there = {PAYMENTS, TOO_LATE, UNREADABLE} & set(client.list_topics(timeout=PATIENCE).topics)
    if there or asked(target, f"select 1 from pg_namespace where nspname = '{SCHEMA}'"):
        what = f"topic {min(there)}" if there else f"schema {SCHEMA}"
        raise SystemExit(f"error: there is a {what} already; remove it, or name other servers")
    # LogAppendTime: the time of a record is when the broker got it, and no producer's clock.
    settings = {"message.timestamp.type": "LogAppendTime"}
    finished(client.create_topics([NewTopic(PAYMENTS, PARTITIONS, config=settings)]))
    try:
        yield
    finally:
        if not keep:
            made = {PAYMENTS, TOO_LATE, UNREADABLE} & set(client.list_topics(timeout=PATIENCE).topics)
            finished(client.delete_topics(sorted(made)))
            asked(target, f"drop schema if exists {SCHEMA} cascade")


def finished(futures: dict[str, Any]) -> None:
    for future in futures.values():
        future.result(PATIENCE)


def latecomer(folder: Path, verb: str, *options: str) -> None:
    """A command as you would type it."""
    print(f"$ latecomer {' '.join([verb, 'pipeline.yaml', *options])}", flush=True)
    command = [
        sys.executable,
        "-c",
        "from latecomer.cli import main; main()",
        verb,
        "pipeline.yaml",
        *options,
    ]
    done = subprocess.run(command, cwd=folder)
    if done.returncode:
        raise SystemExit(done.returncode)


def asked(target: str, sql: str) -> list[dict[str, Any]]:
    """The rows that Postgres answers."""
    with psycopg.connect(target, autocommit=True, row_factory=dict_row) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def consumed(servers: str, topic: str) -> list[dict[str, Any]]:
    """The values of a topic to its end, as far as transactions are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "example",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found, numbers = [], list(consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    while numbers:
        (message,) = consumer.consume(1, PATIENCE) or [None]
        if message is None:
            raise SystemExit(f"error: topic {topic} was not read to its end")
        if message.error() is None:
            found.append(json.loads(message.value()))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            numbers.remove(message.partition())
    consumer.close()
    return found


def title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def show(rows: list[dict[str, Any]]) -> None:
    """A plain table."""
    if not rows:
        return
    texts = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
