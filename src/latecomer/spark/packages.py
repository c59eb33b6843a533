"""Jars that Spark does not include, such as a Kafka broker for tests: downloaded once, then read from a folder.

Spark's own resolver downloads them from a Maven repository, in a small JVM. They are kept in the user's cache
(`XDG_CACHE_HOME`): after that no network is needed.

The resolver goes by the settings of Spark and Java: `DEFAULT_ARTIFACT_REPOSITORY` names a mirror, and
`JAVA_TOOL_OPTIONS` a proxy (`-Dhttps.proxyHost=… -Dhttps.proxyPort=…`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from latecomer.errors import MachineError, first_line
from latecomer.spark.archive import cache_folder
from latecomer.spark.java import required_java, spark_jars

LOG = logging.getLogger(__name__)
PATIENCE = 600.0
"""How many seconds a download may take."""
RESOLVER_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@dataclass(frozen=True)
class MavenPackage:
    """Maven coordinates, `group:artifact:version`, resolved with their dependencies."""

    coordinates: str

    @property
    def artifact(self) -> str:
        return self.coordinates.split(":")[1]

    @property
    def version(self) -> str:
        return self.coordinates.split(":")[2]


@dataclass(frozen=True)
class Package:
    """Jars that are used together, and their name for users."""

    title: str
    parts: tuple[MavenPackage, ...]

    @property
    def folder(self) -> Path:
        """Their folder in the cache: other parts have another folder."""
        recipe = hashlib.sha256(repr(self.parts).encode()).hexdigest()[:8]
        return cache_folder("jars") / f"{self.parts[0].artifact}-{self.parts[0].version}-{recipe}"


def jars(package: Package) -> list[Path]:
    """The paths of a package's jars in the cache. Missing ones are downloaded first."""
    if (in_cache := cached(package)) is not None:
        return in_cache
    try:
        with _download_lock():
            return cached(package) or _downloaded(package)
    except OSError as error:
        folder = cache_folder("jars")
        raise MachineError(
            f"{package.title} cannot be kept in {folder} ({error.strerror}); make the folder writable, or set "
            "XDG_CACHE_HOME to one that is"
        ) from None


def cached(package: Package) -> list[Path] | None:
    """The jars in the cache; None where they were not downloaded."""
    return sorted(package.folder.glob("*.jar")) or None


@contextlib.contextmanager
def _download_lock() -> Iterator[None]:
    """Let one process download at a time."""
    cache_folder("jars").mkdir(parents=True, exist_ok=True)
    with open(cache_folder("jars") / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _downloaded(package: Package) -> list[Path]:
    """The jars, downloaded into a folder of this attempt. Once it is complete, it is moved into the cache."""
    LOG.info("downloading %s", package.title)
    required_java()
    with tempfile.TemporaryDirectory(dir=cache_folder("jars"), prefix=".download-") as scratch:
        ready = Path(scratch, "ready")
        ready.mkdir()
        for jar in _resolve(package, Path(scratch, "ivy")):
            jar.replace(ready / jar.name)
        ready.replace(package.folder)
    return sorted(package.folder.glob("*.jar"))


def _resolve(package: Package, ivy: Path) -> list[Path]:
    """Download every part with Spark's resolver."""
    log = cache_folder("jars") / "download.log"
    with open(log, "w") as output, _small_jvm(output) as gateway:
        paths: list[str] = []
        for part in package.parts:
            try:
                paths += _resolve_part(gateway, part, ivy)
            except Py4JJavaError as error:
                reason = first_line(Exception(error.java_exception.getMessage() or str(error.java_exception)))
                raise _unavailable(package, part, reason, log) from None
            except (Py4JError, OSError):
                raise _unavailable(package, part, f"nothing for {PATIENCE:.0f} seconds", log) from None
    return [Path(name) for name in dict.fromkeys(paths)]


def _resolve_part(gateway: JavaGateway, part: MavenPackage, ivy: Path) -> list[str]:
    """The paths of the jars that Spark's resolver has downloaded for a part."""
    jvm: Any = gateway.jvm
    none, printed = jvm.scala.Option.empty(), jvm.java.lang.System.out
    resolver = jvm.org.apache.spark.util.MavenUtils
    # An entry in the user's Maven repository may lack its jar, and then Ivy would not look elsewhere.
    settings = resolver.buildIvySettings(none, jvm.scala.Option.apply(str(ivy)), False, printed)
    no_exclusions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
    paths = resolver.resolveMavenCoordinates(
        part.coordinates, settings, none, True, no_exclusions, False, printed
    )
    return str(paths.mkString("\n")).splitlines()


@contextlib.contextmanager
def _small_jvm(output: Any) -> Iterator[JavaGateway]:
    """A JVM with Spark's classes, without a session. It is killed after PATIENCE, whatever it waits for."""
    home = os.environ.get("JAVA_HOME")
    py4j = next(spark_jars().glob("py4j-*.jar"), None)
    if py4j is None:
        raise MachineError(
            f"{spark_jars()} has no py4j jar, so it is no Spark; set SPARK_HOME to the folder of a Spark, or unset it"
        )
    port, token, process = launch_gateway(
        jarpath=str(py4j),
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


def _unavailable(package: Package, part: MavenPackage, reason: str, log: Path) -> MachineError:
    return MachineError(
        f"{package.title} could not be downloaded ({part.coordinates}: {reason}); let this machine reach a Maven "
        f"repository once (DEFAULT_ARTIFACT_REPOSITORY names a mirror); {log} has the details"
    )
