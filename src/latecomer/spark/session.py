"""Starts Spark sessions: Java is checked first, and Spark's output goes to a file."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.errors import MachineError
from latecomer.errors.system import MORE_FILES
from latecomer.spark.archive import archive_options
from latecomer.spark.errors import SPARK_ERRORS, first_line, in_words, refusal
from latecomer.spark.java import required_java, spark_jars
from latecomer.spark.master import is_local, master

LOG = logging.getLogger(__name__)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    # Else Spark would replace ${env:HOME} in names and texts by the variable of the environment.
    "spark.sql.variable.substitute": "false",
    # Conditions are parsed as in `model/predicates.py`.
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # Its work doubles with every renamed column in a predicate: ten of them take seconds.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A damaged file may claim to unpack to any size. Then only its task fails, not all of Spark (ADR 0029).
    "spark.executor.killOnFatalError.depth": "0",
    # For rows of many megabytes: check the memory after each of the first rows, not only after a hundred.
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    "spark.hadoop.parquet.page.size.row.check.max": "100",
    "spark.hadoop.parquet.block.size.row.check.min": "1",
    "spark.hadoop.parquet.block.size.row.check.max": "100",
    # Else every function call asks the JVM several times, only for error messages.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A task then costs a sixth (ADR 0073).
    "spark.python.daemon.module": "latecomer.spark.daemon",
}

JAVA_OPTIONS = (
    "-XX:+UseParallelGC",
    "-XX:+PerfDisableSharedMem",
    "-XX:-DontCompileHugeMethods",
    # Only code that runs for every row is worth the best compiler. With the defaults, it spends more time on Spark's
    # planner than the planner itself takes, on the cores that the batches need.
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=10000",
    "-XX:Tier4CompileThreshold=200000",
    "-XX:Tier4BackEdgeThreshold=800000",
)


NAMED_BY_PYSPARK = (
    "PythonUtils",
    "PythonSQLUtils",
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
)
"""The Java classes that PySpark looks up for nearly every column and frame."""

FEW_FILES = 1024
"""Spark opens a few hundred files while it starts."""
_NOISE = ("WARNING", "Picked up", "\t", "Error occurred during initialization of VM", "Error: ")
"""The beginnings of a JVM's lines that do not say why it ended."""
_CAUSE = "Caused by: "

_JARS = "spark.jars"
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Spark has no authentication unless it is set up. Where all of it runs on one machine, nobody else need
reach its ports."""

_CHOOSING = threading.Lock()


@contextlib.contextmanager
def own_python(context: SparkContext | None) -> Iterator[None]:
    """Have workers on this machine use this Python, not the `python3` on the PATH. This is set for all threads, so only
    one at a time makes a job or registers a data source. With Spark Connect there is no context."""
    with _CHOOSING:
        if context is None or not is_local(context.master or "") or "PYSPARK_PYTHON" in os.environ:
            yield
            return
        before, context.pythonExec = context.pythonExec, sys.executable
        try:
            yield
        finally:
            context.pythonExec = before


def joined(settings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Settings for a session from several places, with the jars of all of them.

    >>> joined([{"spark.jars": "a.jar"}, {"spark.jars": "b.jar,a.jar", "other": "1"}])
    {'spark.jars': 'a.jar,b.jar', 'other': '1'}
    """
    merged: dict[str, str] = {}
    for each in settings:
        jars = [text for text in (merged.get(_JARS), each.get(_JARS)) if text]
        merged |= each
        if jars:
            merged[_JARS] = ",".join(dict.fromkeys(",".join(jars).split(",")))
    return merged


def build_session(pipeline: str, log: Path | None = None, **settings: str) -> SparkSession:
    """The running session, or a new local one on all cores, whose JVM writes its log to a file."""
    options: list[str] = []
    if SparkSession.getActiveSession() is None:
        LOG.info("starting Spark")
        options = archive_options(required_java().version_text, spark_jars())
    cores = os.cpu_count() or 2
    chosen = {
        **SETTINGS,
        "spark.scheduler.mode": "FAIR",
        "spark.master": master(),
        **(LOOPBACK if is_local(master()) else {}),
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": os.environ.get("LATECOMER_MEMORY", "2g"),
        "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS),
        "spark.hadoop.fs.permissions.umask-mode": f"{current_umask():03o}",
        "spark.sql.warehouse.dir": _warehouse(),
        **settings,
    }
    chosen["spark.driver.extraJavaOptions"] = " ".join((chosen["spark.driver.extraJavaOptions"], *options))
    builder = SparkSession.Builder().appName(f"latecomer {pipeline}")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        with _output_to(log), _environment(_own_name()):
            spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel("WARN")
    except (*SPARK_ERRORS, OSError) as error:
        raise MachineError(f"Spark could not be started: {why_not_started(error, log)}") from error
    _choose_python(spark.sparkContext)
    remember_classes(spark)
    _keep_scratch_to_user(spark)
    return spark


def _own_name() -> dict[str, str]:
    """What spares Spark on one machine the look-up of the machine's own name: where that has no address, Spark does not
    start."""
    name = "SPARK_LOCAL_HOSTNAME"
    return {name: "localhost"} if is_local(master()) and name not in os.environ else {}


def _choose_python(context: SparkContext) -> None:
    """Apply `spark.pyspark.python`: Spark itself only does where spark-submit has started the driver."""
    chosen = context.getConf().get("spark.pyspark.python")
    if chosen is not None and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = chosen


def _keep_scratch_to_user(spark: SparkSession) -> None:
    """Let only the user read the folders in which Spark shuffles and spills rows: Spark makes them by the umask."""
    blocks = getattr(spark._jvm, "org.apache.spark.SparkEnv").get().blockManager()
    for folder in blocks.diskBlockManager().localDirs():
        Path(str(folder)).chmod(0o700)


def why_not_started(error: Exception, log: Path | None) -> str:
    """The reason, and what to do. A JVM that ends before it answers has its reason in its log, if anywhere."""
    if (sentence := refusal(error, [])) is not None:
        return sentence
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < FEW_FILES:
        return f"this process may open {files} files, and that is too few; {MORE_FILES}, and run again"
    if isinstance(error, Py4JJavaError):
        return in_words(error, [])
    lines = _console_lines(log)
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    reason = next(iter(causes[-1:] or filter(_is_reason, lines)), first_line(error))
    if "UnknownHostException" in reason:
        return f"{reason}; give this machine's name an address in /etc/hosts, or set SPARK_LOCAL_HOSTNAME"
    if "heap" in reason:
        return f"{reason}; set LATECOMER_MEMORY to the memory that Spark may have, such as 2g"
    return (
        f"{reason}; `latecomer doctor` looks at Java, and logs/spark.console.log of the store has its output"
    )


def _console_lines(log: Path | None) -> list[str]:
    """The output of the JVM that was started last, beside its log or in its place."""
    for file in (log.with_suffix(".console.log"), log) if log is not None else ():
        with contextlib.suppress(OSError):
            if lines := file.read_text(encoding="utf-8", errors="replace").splitlines():
                return lines
    return []


def _is_reason(line: str) -> bool:
    r"""Whether a line of a JVM's says what is wrong.

    >>> [_is_reason(line) for line in ("WARNING: Using incubator modules", "\tat a.B", "Too small maximum heap")]
    [False, False, True]
    """
    return not line.startswith(_NOISE) and bool(line.strip())


def own_session(spark: SparkSession) -> SparkSession:
    """A session of latecomer's own on the same Spark: the caller's settings stay as they are."""
    remember_classes(spark)
    session = spark.newSession()
    chosen = {**SETTINGS, "spark.sql.shuffle.partitions": spark.conf.get("spark.sql.shuffle.partitions")}
    for name, value in chosen.items():
        if name.startswith("spark.sql.") and value is not None and spark.conf.isModifiable(name):
            session.conf.set(name, value)
    # Hadoop sets the modes of what it writes itself, whatever the umask of the process.
    session.conf.set("fs.permissions.umask-mode", f"{current_umask():03o}")
    return session


def remember_classes(spark: SparkSession) -> None:
    """Cache the Java classes that PySpark uses all the time.

    py4j looks up a name at each use, in every jar of Spark, and a short name in every package that PySpark imports: a
    twelfth of the processor time of a small batch.
    """
    jvm = spark._jvm
    for name in NAMED_BY_PYSPARK:
        setattr(jvm, name, getattr(jvm, name))


def no_rows(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    """An empty frame with these columns."""
    return spark.range(0).select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))


@cache
def _warehouse() -> str:
    """An empty folder of this process for Spark's own tables, which Spark requires. It is removed with the process."""
    folder = tempfile.mkdtemp(prefix="latecomer-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _output_to(log: Path | None) -> Iterator[None]:
    """Have the JVM that starts meanwhile log to a rotated file, and send the rest of its output to another one. It
    keeps stdout and stderr; Python gets its own back."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {fd: os.dup(fd) for fd in (1, 2)}
    rotated = _rotated(log)
    with _opened(log.with_suffix(".console.log") if rotated and log else log) as sink:
        for fd in kept:
            os.dup2(sink.fileno(), fd)
    try:
        with _environment(rotated):
            yield
    finally:
        for fd, copy in kept.items():
            os.dup2(copy, fd)
            os.close(copy)


@contextlib.contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment meanwhile."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _rotated(log: Path | None) -> dict[str, str]:
    """The environment variables with which the JVM rotates its log; none where the log cannot be written, or the user
    has configured Spark's logging."""
    if log is None or "LOG4J_CONFIGURATION_FILE" in os.environ or re.search("[$%{}]", str(log)):
        return {}
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()
    except OSError:
        return {}
    settings = Path(__file__).with_name("log.properties")
    return {"LOG4J_CONFIGURATION_FILE": str(settings), "LATECOMER_SPARK_LOG": str(log)}


def _opened(log: Path | None) -> BinaryIO:
    """The log, opened; the log of the last JVM is renamed. Where no log can be written, /dev/null: a store that can
    only be read can still be read."""
    if log is not None:
        with contextlib.suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            if log.exists() and log.stat().st_size:
                log.replace(log.with_name(f"{log.name}.1"))
            return open(log, "ab")
    return open(os.devnull, "ab")


def current_umask() -> int:
    """The umask of this process."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
