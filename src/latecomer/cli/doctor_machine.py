"""What `latecomer doctor` finds without a pipeline: packages, Java, ports, memory, executors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from latecomer.errors import LatecomerError


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found and, where it is a problem, how to fix it."""

    what: str
    found: str
    fix: str | None = None
    warns: bool = False
    """Whether it is no problem, but nothing to pass over either."""

    def __str__(self) -> str:
        mark = "problem" if self.fix is not None else "warning" if self.warns else "ok     "
        # An error that holds problems of a file has the fix of each.
        fix = "" if self.fix is None or "\n    fix: " in self.found else f"\n         fix: {self.fix}"
        return f"{mark}  {self.what}: {self.found}{fix}"


def problem(what: str, error: Exception | str, otherwise: str) -> Finding:
    """An error as a finding. Its fix is what the error says to do, or `otherwise`."""
    reason, _, fix = str(error).partition("; ")
    return Finding(what, reason, fix or otherwise)


def packages() -> Iterator[Finding]:
    """The installed packages, against the versions that latecomer declares."""
    from importlib.metadata import PackageNotFoundError, requires, version

    for requirement in requires("latecomer") or []:
        declared = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*(.*)", requirement.split(";")[0].strip())
        if declared is None or "extra ==" in requirement:
            continue
        name, bounds = declared[1], declared[2]
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield Finding(name, "not installed", f'pip install "{name}{bounds}"')
            continue
        fix = None if within(installed, bounds) else f'latecomer needs {bounds}: pip install "{name}{bounds}"'
        yield Finding(name, installed, fix)


def within(version: str, bounds: str) -> bool:
    """Whether a version lies within bounds such as `>=4.0,<4.2`.

    >>> within("4.1.1", "<4.2,>=4.0"), within("4.2.0", "<4.2,>=4.0")
    (True, False)
    """
    number = _numbers(version)
    for operator, bound in re.findall(r"(>=|<)\s*([0-9][0-9.]*)", bounds):
        if (number >= _numbers(bound)) is not (operator == ">="):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in (release[0] if release else "0").split("."))


def java() -> Finding:
    """The Java that Spark would start."""
    try:
        from latecomer.spark.java import required_java

        return Finding("java", str(required_java().version))
    except ImportError as error:
        return Finding("java", f"pyspark cannot be imported ({error})", "install pyspark first")
    except LatecomerError as error:
        return problem("java", error, "install Java 17 or newer")


def ports() -> Finding:
    """Who can reach the ports that Spark opens."""
    try:
        from latecomer.spark.master import is_local, master, spark_defaults
    except ImportError:
        return Finding("spark's ports", "not known without pyspark", "install pyspark first")
    if is_local(master()):
        return Finding("spark's ports", f"on loopback alone ({master()})")
    settings = spark_defaults()
    wanted = ("spark.authenticate", "spark.network.crypto.enabled")
    lacking = [name for name in wanted if settings.get(name, "").lower() != "true"]
    if not lacking:
        return Finding("spark's ports", f"open to the network of {master()}, authenticated and encrypted")
    fix = f"set {' and '.join(f'{name} true' for name in lacking)} in spark-defaults.conf"
    return Finding("spark's ports", f"open to whoever reaches the network of {master()}", fix)


def machine() -> Iterator[Finding]:
    """Cores, and memory against what Spark's driver is given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", str(cores))
    memory, wanted = _memory(), os.environ.get("LATECOMER_MEMORY", "2g")
    needed = _bytes(wanted)
    text = f"{memory / (1 << 30):.1f} GiB, Spark takes up to {wanted} (LATECOMER_MEMORY)"
    if needed is None:
        yield Finding("memory", f"LATECOMER_MEMORY is {wanted!r}", "write it as Spark does, as in 2g or 800m")
    elif needed > memory:
        yield Finding("memory", text, "set LATECOMER_MEMORY to less than the machine has")
    else:
        yield Finding("memory", text)


def _memory() -> int:
    """What this process may use: the machine's memory, or the container's share of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            memory = min(memory, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return memory


def _bytes(written: str) -> int | None:
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", written.strip().lower())
    return None if found is None else int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]


def on_executors() -> Iterator[Finding]:
    """The packages of the executors, against those of the driver."""
    from importlib.metadata import version

    from latecomer.spark.errors import SAME_PACKAGES
    from latecomer.spark.executors import PACKAGES, executors_of
    from latecomer.spark.master import master
    from latecomer.spark.session import build_session

    wanted: dict[str, str | None] = {name: version(name) for name in PACKAGES}
    try:
        # Spark's own daemon, because executors may not have the one that runs use.
        spark = build_session("doctor", None, **{"spark.python.daemon.module": "pyspark.daemon"})
        try:
            executors = executors_of(spark)
        finally:
            spark.stop()
    except LatecomerError as error:
        yield Finding("executors", str(error), f"{SAME_PACKAGES}, and see that {master()} is up")
        return
    for each in executors:
        what, lacking = f"executor on {each.host}, {each.folder}", each.lacks(wanted)
        if not lacking:
            yield Finding(what, f"Python {each.python}, {', '.join(f'{n} {v}' for n, v in wanted.items())}")
            continue
        lacks_in_words = ", ".join(f"{name} {found or 'is missing'}" for name, found in lacking.items())
        needed = ", ".join(f"{name} {wanted[name]}" for name in lacking)
        yield Finding(
            what, f"Python {each.python}, {lacks_in_words}", f"tasks need {needed} there; {SAME_PACKAGES}"
        )
