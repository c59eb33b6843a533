"""The same batches into a store on this disk and into one in a bucket, in turn: `python -m bench.object_store SOURCE
--rows N --work FOLDER`.

The server is that of the tests, or the one that LATECOMER_BENCH_S3 names (`http://…`, with the credentials in the
environment and a bucket `bench`). That of the tests is written in Python and slow: it is held back by it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
import psutil
from obstore.store import S3Store

from bench.workload import COLUMNS
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.model.strategies import Bounded
from latecomer.objects.locations import Storage
from latecomer.source.decode.base import SourceFile
from latecomer.source.found_files import FileSlice
from latecomer.spark.runner import SparkRunner
from latecomer.spark.session import build_session, own_session
from latecomer.store.store import Store
from latecomer.testing.servers import free_ports

SERVER = Path(__file__).parents[1] / "tests" / "s3_server.py"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-bench", "AWS_REGION": "us-east-1"}


@contextmanager
def endpoint() -> Iterator[tuple[str, psutil.Process | None]]:
    """Where the server is, and its process if it is on this machine by us."""
    if named := os.environ.get("LATECOMER_BENCH_S3"):
        yield named, None
        return
    os.environ.update(KEYS)
    (port,) = free_ports(1)
    server = subprocess.Popen([sys.executable, str(SERVER), str(port)])
    try:
        _make_bucket(port)
        yield f"http://127.0.0.1:{port}", psutil.Process(server.pid)
    finally:
        server.kill()
        server.wait()


def _make_bucket(port: int) -> None:
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("PUT", "/bench")
            connection.getresponse().read()
            connection.close()
        except (http.client.HTTPException, OSError):
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the S3 server does not answer")


def pipeline_of(source: Path, store: str, storage: Storage) -> Pipeline:
    return Pipeline(
        name="bench",
        store=store,
        storage=storage,
        source=Source(files=Files(path=str(source), order_by="arrival_time"), columns=COLUMNS),
        event=Event(time="event_time", partition="tower"),
        watermark=Bounded("30s"),
        outputs={
            "minute": Output(
                window={"tumbling": "1m"},
                by=["merchant"],
                aggregates={"paise": "sum(paise)", "payments": "count(*)"},
                allowed_lateness="5m",
            )
        },
        ledger=("paise",),
    )


def _worked(server: psutil.Process | None) -> float:
    """The processor time that the server has used."""
    return 0.0 if server is None else sum(server.cpu_times()[:2])


def _copied(place: str, size: int) -> float:
    """How long a plain client takes to put so many bytes and to get them back."""
    store = S3Store("bench", endpoint=place, client_options={"allow_http": True})
    began = time.monotonic()
    obstore.put(store, "copy", os.urandom(size))
    obstore.get(store, "copy").bytes()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    with endpoint() as (place, server):
        bucket = Storage(endpoint=place, allow_http=place.startswith("http:"))
        stores = {
            "disk": (str(asked.work / "store"), Storage()),
            "bucket": (f"s3://bench/{uuid.uuid4()}", bucket),
        }
        spark = build_session("object-store", None, **{"spark.driver.memory": "3g"})
        engines = {}
        for name, (store, storage) in stores.items():
            made = Store(pipeline_of(asked.source, store, storage), COLUMNS)
            engines[name] = Engine(SparkRunner(own_session(spark)), made)
            start_engine(engines[name])
        files = sorted(asked.source.glob("part-*"))
        seconds: dict[str, list[float]] = {name: [] for name in (*stores, "server", "copy")}
        for nth, file in enumerate(files):
            piece = FileSlice.of([SourceFile(file.as_uri(), nth, file.stat().st_size)])
            for name in sorted(stores, reverse=nth % 2 == 1):
                began, worked = time.monotonic(), _worked(server)
                engines[name].data(nth, piece)
                engines[name].await_batch()
                seconds[name].append(time.monotonic() - began)
                if name == "bucket":
                    seconds["server"].append(_worked(server) - worked)
            log, last = engines["bucket"].log, engines["bucket"].last
            seconds["copy"].append(_copied(place, sum(each.size for each in log.written(last))))
        for engine in engines.values():
            engine.finish()
            engine.close()
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
