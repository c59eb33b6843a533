"""Jars that Spark does not bring along, such as its Kafka connector: downloaded once, then read from a folder.

Spark's own resolver fetches them from a Maven repository, in a small JVM of its own. They go to the cache of the user
(`XDG_CACHE_HOME`), and a run is handed their paths: it needs no network. A folder of jars that `LATECOMER_JARS` names
comes first, and is only read.

The resolver goes by the settings of Spark and Java: `DEFAULT_ARTIFACT_REPOSITORY` names a mirror, and
`JAVA_TOOL_OPTIONS` a proxy (`-Dhttps.proxyHost=… -Dhttps.proxyPort=…`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from latecomer.errors import MachineError, first_line
from latecomer.spark.cache import cache_folder
from latecomer.spark.java import required_java, spark_jars

LOG = logging.getLogger(__name__)
SCALA = "2.13"
JARS = "spark.jars"
PATIENCE = 600.0
"""How many seconds a download may take."""
RESOLVER_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@dataclass(frozen=True)
class Part:
    """Something to be resolved, `group:artifact:version`, with what it needs in turn but for what is left out."""

    coordinates: str
    without: tuple[str, ...] = ()
    transitive: bool = True

    @property
    def artifact(self) -> str:
        return self.coordinates.split(":")[1]

    @property
    def version(self) -> str:
        return self.coordinates.split(":")[2]


@dataclass(frozen=True)
class Package:
    """Jars that are used together, and what users know them as."""

    title: str
    parts: tuple[Part, ...]
    beside_spark: bool = True
    """They are added to Spark's own jars, and leave out what Spark has."""

    @property
    def folder(self) -> Path:
        """Where the cache keeps them: another recipe has another folder."""
        recipe = hashlib.sha256(repr(self.parts).encode()).hexdigest()[:8]
        return cache_folder("jars") / f"{self.parts[0].artifact}-{self.parts[0].version}-{recipe}"


def kafka_connector(version: str = pyspark.__version__) -> Package:
    """Spark's Kafka connector for this version of Spark."""
    token_provider = f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}"
    return Package(
        f"Spark's Kafka connector for Spark {version}",
        (
            Part(f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version}", (token_provider,)),
            # It is not to be had in every version, and that of 4.0 serves all of Spark 4.
            Part(f"{token_provider}:4.0.0", transitive=False),
        ),
    )


def avro_reader(version: str = pyspark.__version__) -> Package:
    """Spark's Avro for this version of Spark."""
    return Package(
        f"Spark's Avro for Spark {version}", (Part(f"org.apache.spark:spark-avro_{SCALA}:{version}"),)
    )


def with_jars(*packages: Package) -> dict[str, str]:
    """The setting with which a Spark session is started that is to have the packages."""
    found = dict.fromkeys(str(jar) for package in packages for jar in jars(package))
    return {JARS: ",".join(found)} if found else {}


def joined(settings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What several want a session to be started with: the jars of all of them.

    >>> joined([{"spark.jars": "a.jar"}, {"spark.jars": "b.jar,a.jar", "other": "1"}])
    {'spark.jars': 'a.jar,b.jar', 'other': '1'}
    """
    made: dict[str, str] = {}
    for each in settings:
        both = [text for text in (made.get(JARS), each.get(JARS)) if text]
        made |= each
        if both:
            made[JARS] = ",".join(dict.fromkeys(",".join(both).split(",")))
    return made


def jars(package: Package) -> list[Path]:
    """The paths of a package's jars: the user's own, or those of the cache, which are downloaded first if need be."""
    given = os.environ.get("LATECOMER_JARS")
    if given and package.beside_spark:
        return _given(package, Path(given).expanduser().absolute())
    found = cached(package)
    if found is not None:
        return found
    try:
        with _turn():
            return cached(package) or _downloaded(package)
    except OSError as error:
        folder = cache_folder("jars")
        raise MachineError(
            f"{package.title} cannot be kept in {folder} ({error.strerror}); make the folder writable, or set "
            "XDG_CACHE_HOME to one that is"
        ) from None


def whereabouts(package: Package) -> str:
    """Where the jars are that a run would use, without a download. `MachineError` where those given do not do."""
    given = os.environ.get("LATECOMER_JARS")
    if given and package.beside_spark:
        return f"{len(jars(package))} jars in {given} (LATECOMER_JARS)"
    found = cached(package)
    if found is None:
        return f"not here yet; the first run downloads it to {package.folder}"
    return f"{len(found)} jars in {package.folder}"


def cached(package: Package) -> list[Path] | None:
    """The jars that an earlier download left in the cache, if there was one."""
    return sorted(package.folder.glob("*.jar")) or None


def _given(package: Package, folder: Path) -> list[Path]:
    """The jars of the user's folder, which must hold what the package is about."""
    found = sorted(folder.glob("*.jar"))
    for part in package.parts:
        versions = _versions(part.artifact, found)
        if not versions:
            raise MachineError(
                f"LATECOMER_JARS is {folder}, and there is no {part.artifact} jar in it, which {package.title} needs; "
                f"put {part.artifact}-{part.version}.jar and the jars that it needs there, or unset LATECOMER_JARS"
            )
    first = package.parts[0]
    if first.version not in _versions(first.artifact, found):
        raise MachineError(
            f"LATECOMER_JARS is {folder}, and the {first.artifact} in it is of another version than Spark; put "
            f"{first.artifact}-{first.version}.jar there"
        )
    return found


def _versions(artifact: str, paths: list[Path]) -> set[str]:
    """In which versions a jar is there; Ivy writes the group before the name.

    >>> _versions("kafka-clients", [Path("org.apache.kafka_kafka-clients-3.9.1.jar"), Path("other-1.jar")])
    {'3.9.1'}
    """
    name = re.compile(rf"(?:.*_)?{re.escape(artifact)}-(\d.*)\.jar")
    return {match[1] for path in paths if (match := name.fullmatch(path.name))}


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """One process at a time downloads."""
    cache_folder("jars").mkdir(parents=True, exist_ok=True)
    with open(cache_folder("jars") / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _downloaded(package: Package) -> list[Path]:
    """The jars, fetched into a folder of this attempt, which becomes the cache's when it is complete."""
    LOG.info("downloading %s", package.title)
    required_java()
    with tempfile.TemporaryDirectory(dir=cache_folder("jars"), prefix=".download-") as scratch:
        ready = Path(scratch, "ready")
        ready.mkdir()
        shipped = {path.name for path in spark_jars().glob("*.jar")} if package.beside_spark else set()
        for jar in _resolve(package, Path(scratch, "ivy")):
            if jar.name.split("_", 1)[1] not in shipped:
                jar.replace(ready / jar.name)
        ready.replace(package.folder)
    return sorted(package.folder.glob("*.jar"))


def _resolve(package: Package, ivy: Path) -> list[Path]:
    """Have Spark's resolver fetch every part."""
    log = cache_folder("jars") / "download.log"
    with open(log, "w") as output, _small_jvm(output) as gateway:
        found: list[str] = []
        for part in package.parts:
            try:
                found += _resolve_part(gateway, part, ivy)
            except Py4JJavaError as error:
                reason = first_line(Exception(error.java_exception.getMessage() or str(error.java_exception)))
                raise _unavailable(package, part, reason, log) from None
            except (Py4JError, OSError):
                raise _unavailable(package, part, f"nothing for {PATIENCE:.0f} seconds", log) from None
    return [Path(name) for name in dict.fromkeys(found)]


def _resolve_part(gateway: JavaGateway, part: Part, ivy: Path) -> list[str]:
    """The paths that Spark's resolver says, one a line."""
    jvm: Any = gateway.jvm
    none, printed = jvm.scala.Option.empty(), jvm.java.lang.System.out
    left_out = jvm.java.util.ArrayList()
    for name in part.without:
        left_out.add(name)
    resolver = jvm.org.apache.spark.util.MavenUtils
    # What is in the user's Maven repository may lack a jar, and Ivy would not look further.
    settings = resolver.buildIvySettings(none, jvm.scala.Option.apply(str(ivy)), False, printed)
    without = jvm.scala.jdk.javaapi.CollectionConverters.asScala(left_out).toSeq()
    paths = resolver.resolveMavenCoordinates(
        part.coordinates, settings, none, part.transitive, without, False, printed
    )
    return str(paths.mkString("\n")).splitlines()


@contextlib.contextmanager
def _small_jvm(output: Any) -> Iterator[JavaGateway]:
    """A JVM that has Spark's classes and no Spark; it is ended after a while, whatever it is waiting for."""
    home = os.environ.get("JAVA_HOME")
    port, token, process = launch_gateway(
        jarpath=str(next(spark_jars().glob("py4j-*.jar"))),
        classpath=f"{spark_jars()}/*",
        javaopts=RESOLVER_OPTIONS,
        java_path=str(Path(home, "bin", "java")) if home else "java",
        redirect_stdout=output,
        redirect_stderr=output,
        enable_auth=True,
        die_on_exit=True,
        return_proc=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token.decode())
    gateway = JavaGateway(gateway_parameters=parameters)
    patience = threading.Timer(PATIENCE, process.kill)
    patience.start()
    try:
        yield gateway
    finally:
        patience.cancel()
        gateway.close()
        process.stdin.close()
        process.kill()
        process.wait()


def _unavailable(package: Package, part: Part, reason: str, log: Path) -> MachineError:
    return MachineError(
        f"{package.title} could not be downloaded ({part.coordinates}: {reason}); let this machine reach a Maven "
        "repository once (DEFAULT_ARTIFACT_REPOSITORY names a mirror), or put the jars into a folder and set "
        f"LATECOMER_JARS to it; {log} has the details"
    )
