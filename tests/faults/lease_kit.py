"""Engines in processes of their own that want one store: without a JVM, so that they start within a second."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from azure_kit import Container
from hdfs_kit import Folder
from latecomer.store.failpoints import VARIABLE
from latecomer.store.files import Location
from latecomer.store.holding.lock import lease_of
from s3_kit import Bucket

TAKEOVER = 2.0
ENGINE = """
import logging, signal, sys, threading
from contextlib import closing
from latecomer.config.load import load_pipeline
from latecomer.engine.without_data import drain_input
from latecomer.engine.starting import start_engine
from latecomer.errors import StoreInUse
from latecomer.engine.following import follow
from latecomer.engine.pipeline import Engine
from latecomer.spark.base import InProcess
from latecomer.engine.running import check_store
from latecomer.store.recovery import held_for_run
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store

pipeline, drain, again = load_pipeline(sys.argv[1]), "drain" in sys.argv, "again" in sys.argv
stopping = threading.Event()
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
while True:
    try:
        with held_for_run(pipeline.store_path, takeover=pipeline.lease.seconds, standby=stopping):
            store = Store(pipeline, source_columns(pipeline))
            check_store(store)
            with closing(Engine(InProcess(None), store)) as engine:
                print("holds", flush=True)
                start_engine(engine)
                follow(engine, stopping, bounded=drain)
                if drain and not stopping.is_set():
                    drain_input(engine)
                engine.finish()
        break
    except StoreInUse as error:
        print("refused:", error, flush=True)
        if stopping.is_set():
            break
        if not again:
            sys.exit(1)
"""


class Process:
    """An engine in a process of its own."""

    def __init__(self, file: Path, *how: str, at: str | None = None) -> None:
        self.log = file.parent / f"engine-{time.monotonic_ns()}.log"
        environment: Mapping[str, str] = {} if at is None else {VARIABLE: at}
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", ENGINE, str(file), *how],
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 120.0) -> int:
        return self.process.wait(seconds)

    @property
    def is_paused(self) -> bool:
        state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def engines(file: Path) -> Iterator[Callable[..., Process]]:
    """Start engines on a pipeline; none is left in the end."""
    started: list[Process] = []

    def start(*how: str, at: str | None = None) -> Process:
        started.append(Process(file, *how, at=at))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.end()


def until(what: Callable[[], bool], seconds: float = 300.0) -> float:
    """Wait for something; how many seconds that took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, what
        time.sleep(0.05)
    return time.monotonic() - began


def token(store: Location) -> int:
    found = lease_of(store)
    return 0 if found is None else found.token


def with_lease(
    file: Path, takeover: float = TAKEOVER, bucket: Bucket | Folder | Container | None = None
) -> Path:
    """A pipeline whose store has a lease: in its folder, in a bucket, or in HDFS."""
    text = file.read_text(encoding="utf-8")
    if bucket is not None:
        storage = ", ".join(f"{name}: {json.dumps(value)}" for name, value in bucket.options.items())
        text = text.replace("store: ./store", f"store: {bucket.url}/store\nstorage: {{{storage}}}")
    file.write_text(f"{text}lease: {{takeover: {takeover:g}s}}\n", encoding="utf-8")
    return file
