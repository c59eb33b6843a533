"""A cluster whose machines share no folder: store, source and sink are in a bucket. Workers die, the driver dies, and
another one that stood by takes over: what is left behind is what an undisturbed run leaves in a folder."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest
from pyspark.sql import SparkSession

from cluster.rides_kit import EventLog, ended, on, pipeline, rides, started, tables
from cluster_kit import PATIENCE, running_cluster
from faults.lease_kit import token
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.store.failpoints import VARIABLE
from s3_kit import Bucket

FILES, MOST = 6, 2


@pytest.mark.long
def test_nothing_that_dies_shows_in_the_tables(spark: SparkSession, tmp_path: Path, bucket: Bucket) -> None:
    rides(tmp_path, files=FILES, rows=20_000)
    for each in sorted((tmp_path / "in").iterdir()):  # they are read in the order in which they came
        obstore.put(bucket.store, f"in/{each.name}", each.read_bytes())
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    more = f"storage: {json.dumps(bucket.options)}\nlease: {{takeover: 15s}}\n"
    file = pipeline(drivers, "store", f"s3://{bucket.name}", MOST, more)
    store = load_pipeline(file).store_path

    log = EventLog(drivers / "log")
    with running_cluster(tmp_path / "machines", workers=3) as machines:
        environment = {**on(machines), "XDG_STATE_HOME": str(drivers / "state")}
        watched = {**on(machines, options=log.options), "XDG_STATE_HOME": str(drivers / "state")}
        first = started(file, {**watched, VARIABLE: "minutes.panes.written@1"})
        until(lambda: first.poll() is not None or token(store) == 1)
        standby = started(file, environment, "--standby")
        for worker, job in zip(machines.workers, ("log", "windows"), strict=False):
            log.wait_for(0, job, first, executors=3)
            worker.stall()  # it cannot be done with its task
            worker.kill()
        said, _ = first.communicate(timeout=10 * PATIENCE)
        assert first.returncode == -signal.SIGKILL, said  # in the middle of the second batch
        assert standby.poll() is None, standby.communicate()[0]
        ended(standby)
    assert log.says('"Reason":"ExecutorLostFailure"')
    assert token(store) == 2
    assert check_ledger(load_pipeline(file)) == []
    assert sorted(each.suffix for each in drivers.iterdir() if each.is_file()) == [".yaml"]
    here = pipeline(tmp_path, "here", most=MOST)
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(file) == tables(here)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10 * PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)
