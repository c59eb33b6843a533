"""The fixtures that tests of several folders share.

There is one Spark session for each test process, as small as it can be: see CONTRIBUTING.md. That of
`make test` interprets its queries, on one core and with one shuffle partition: for a few rows that is quicker than
compiling and spreading them. The processes that tests start, the tests that ask for `partitions` and all of
`make test-long` do as users' sessions do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

import azure_kit
import hdfs_kit
import kafka_kit
import s3_kit
from examples_kit import usual
from faults.faults_kit import SINKS_FOR_ROWS, Died, left_behind, write_pipeline
from latecomer.cli import steps
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.errors import MachineError
from latecomer.model.zoned import use_zone
from latecomer.source.decode import retrying
from latecomer.spark.session import build_session
from latecomer.store import failpoints
from postgres_kit import Postgres, required_binaries, running
from schemas.registry.registry_kit import Server, beside

hypothesis_settings.register_profile("usual", usual)
hypothesis_settings.load_profile("usual")


@pytest.fixture(autouse=True)
def no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a step takes depends on the machine: what a verb prints does not, but for the steps it shows."""
    monkeypatch.setattr(steps, "MOMENT", 3600.0)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is tried again at once."""
    monkeypatch.setattr(retrying, "sleep", lambda _: None)


@pytest.fixture(autouse=True)
def in_utc() -> None:
    """A verb leaves the zone that it printed in to those who come after it in the same process."""
    use_zone("UTC")


@pytest.fixture(autouse=True)
def no_other_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """Who starts Spark asks for the fixture: a JVM that is already there has not its settings, and no connector."""
    before = SparkContext._gateway
    yield
    if "spark" not in request.fixturenames:
        assert SparkContext._gateway is before, "this test started Spark; let it ask for the fixture `spark`"


SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark looks after each rule of its planner whether the plan is still one.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.master": "local[1]",
    # How the files of a batch are shared out goes by it: as on two cores.
    "spark.default.parallelism": "2",
    # What a task sorts or groups in: as much memory as it says is set to zero for each, 64 MiB unless told.
    "spark.buffer.pageSize": "256k",
}
AS_USERS_DO = {"spark.sql.shuffle.partitions": "2", "spark.master": "local[2]"}
JAVA_OPTIONS = (
    # The quick compiler alone: the tests' data is too small for the other to pay.
    "-XX:TieredStopAtLevel=1",
    # It keeps what it compiled: with the room that it has by default, 48 MiB, it drops most of it after some
    # minutes of Spark, and compiles it again.
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:+UseSerialGC",
    # Room for what a batch leaves behind, from the start: a collection every few seconds and not several a second.
    "-Xms1500m",
    "-Xmn600m",
    "-XX:MetaspaceSize=256m",
    # Hadoop starts a `chmod` for every file and folder that it writes, dozens a batch: the cheapest way.
    "-Djdk.lang.Process.launchMechanism=VFORK",
)


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    settings = {
        **(AS_USERS_DO if pytestconfig.getoption("-m").startswith("long") else SMALL),
        "spark.driver.memory": "1500m",
        # Nobody looks at the plans that Spark writes out for its web pages.
        "spark.sql.ui.explainMode": "simple",
        "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS),
    }
    session = build_session("tests", **settings)
    forget_other_storage(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """What Kafka needs, or the reason why it cannot be had."""
    require("Kafka", kafka_kit.require_jars)


def require(title: str, get: Callable[[], object]) -> None:
    """Where something cannot be had, tests that need it are skipped with the reason; in CI they fail."""
    try:
        get()
    except MachineError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{title} cannot be had: {error}")
        pytest.skip(f"{title} cannot be had: {error}")


def _folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """The folder that all test processes of a run share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def kafka(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> kafka_kit.Client:
    """A broker for tests with topics of their own, shared by all test processes of a run."""
    return kafka_kit.shared_broker(_folder_of_the_run(tmp_path_factory) / "kafka")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The endpoint of an S3 server, shared by all test processes of a run."""
    require("an S3 server", s3_kit.require_server)
    return s3_kit.shared_server(_folder_of_the_run(tmp_path_factory) / "s3")


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> s3_kit.Bucket:
    """A bucket of the test's own; the environment has its credentials."""
    for name, value in s3_kit.KEYS.items():
        monkeypatch.setenv(name, value)
    return s3_kit.new_bucket(s3)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Host and port of a NameNode, shared by all test processes of a run."""
    require("HDFS", hdfs_kit.require_server)
    return hdfs_kit.shared_server(_folder_of_the_run(tmp_path_factory) / "hdfs")


@pytest.fixture
def hdfs_folder(hdfs: str) -> hdfs_kit.Folder:
    """A folder in HDFS of the test's own."""
    return hdfs_kit.Folder(hdfs)


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The endpoint of an Azure Blob server, shared by all test processes of a run."""
    require("Azurite", azure_kit.require_server)
    return azure_kit.shared_server(_folder_of_the_run(tmp_path_factory) / "azure")


@pytest.fixture
def container(azure: str, monkeypatch: pytest.MonkeyPatch) -> azure_kit.Container:
    """A container of the test's own; the environment has its credentials."""
    container = azure_kit.new_container(azure)
    for name, value in container.environment.items():
        monkeypatch.setenv(name, value)
    return container


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Server]:
    """A registry of the test's own, without tokens."""
    with beside(tmp_path / "registry.db") as running:
        yield running


@pytest.fixture
def own_kafka(kafka_jars: None, tmp_path: Path) -> Iterator[kafka_kit.Broker]:
    """A broker of the test's own, which it may kill."""
    broker = kafka_kit.Broker(tmp_path / "kafka").start()
    yield broker
    broker.kill()


ABOUT_OTHERS = (
    *("yarn.", "dfs.", "mapreduce.", "ha.", "ipc.", "rpc.", "net.", "nfs.", "tfile."),
    *("fs.s3a.", "fs.azure.", "fs.abfs.", "fs.adl.", "fs.ftp.", "fs.viewfs."),
    *("hadoop.http.", "hadoop.registry.", "hadoop.ssl.", "hadoop.zk."),
)


def forget_other_storage(spark: SparkSession) -> None:
    """Spark hands Hadoop's settings to each task that reads or writes a file: a thousand of them, most about
    storage and clusters that no test has. Without them a small batch costs a tenth less.

    Hadoop reads its defaults once more when it is asked for the first time, and has all of them again.
    """
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for _ in range(3):
        for name in map(str, hadoop.getPropsWithPrefix("").keySet()):
            if name.startswith(ABOUT_OTHERS) and "fileoutputcommitter" not in name:
                hadoop.unset(name)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A failpoint raises `Died` instead of killing the process."""

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr(failpoints.os, "kill", die)
    return monkeypatch


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server for all: each test has a schema of its own in it, and leaves it running."""
    with running(required_binaries()) as server:
        yield server


@pytest.fixture(scope="session")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline file of `tests/faults` after a run from beginning to end. Read it or copy it: it is shared.

    Its side output and dead letters have sinks, too.
    """
    file = write_pipeline(tmp_path_factory.mktemp("finished"), sinks_for_rows=True)
    run(load_pipeline(file), drain=True, spark=spark)
    return file


@pytest.fixture(scope="session")
def undisturbed_with_rows(finished: Path) -> dict[str, list[str]]:
    """What that run left behind."""
    return left_behind(finished)


@pytest.fixture(scope="session")
def undisturbed(undisturbed_with_rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """What it would have left behind without the sinks for side output and dead letters."""
    return {name: rows for name, rows in undisturbed_with_rows.items() if name not in SINKS_FOR_ROWS}
