"""Spark's classes as an archive, which a JVM maps into memory instead of reading and checking hundreds of jars anew.

Java calls it class-data sharing, and makes the archive itself when a JVM ends that was asked to. The first run of a
pipeline is asked. Its JVM writes under a name of the run's own, after the command has ended and given the terminal
back. A later run gives the file its name (`adopt`), and is quicker by some ten seconds.

An archive belongs to the Java and the Spark that it was made with. Java checks that too, and runs without an archive
that does not fit. Nothing here is ever a reason not to run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import pyspark

from latecomer.spark.cache import cache_folder

MAGIC = (0xF00BABA8).to_bytes(4, "little"), (0xF00BABA8).to_bytes(4, "big")
"""What a whole archive begins with: Java writes it last."""
TRIES = 3
"""How many runs may fail to leave an archive before no other is asked."""
SETTLED = 20.0
"""For how many seconds nobody must have written to a file that is taken for whole."""
MOST_ARCHIVES = 3
"""How many are kept, each of about 150 MiB: one for each pair of versions that was used lately."""


def archive_options(java: str, jars: Path) -> list[str]:
    """Options for a JVM: to use the archive, to make one when it ends, or none.

    `java` says which Java it is and `jars` where Spark's are.
    """
    if os.environ.get("LATECOMER_CLASS_ARCHIVE") == "off":
        return []
    try:
        folder = _own_folder()
        archive = folder / f"{_versions(java, jars)}.jsa"
        if not archive.exists():
            adopt(archive)
        if archive.exists():
            with contextlib.suppress(OSError):
                tidy(archive)
            return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if len(_tries(archive)) >= TRIES:
            return []
        wanted = archive.with_name(f"{archive.stem}-{os.getpid()}.jsa")
        wanted.touch()
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={wanted}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def adopt(archive: Path) -> None:
    """Give an archive that an earlier run left its name."""
    whole = next(filter(_is_whole, _tries(archive)), None)
    if whole is not None:
        whole.replace(archive)


def tidy(archive: Path) -> None:
    """Note that an archive is used. Remove what other runs made at the same time, and the archives that have not been
    used for longest."""
    os.utime(archive)
    for left in _tries(archive):
        if not _is_running(_maker(left)):
            left.unlink(missing_ok=True)
    named = [each for each in archive.parent.glob("*.jsa") if not _maker(each)]
    for old in sorted(named, key=_last_used, reverse=True)[MOST_ARCHIVES:]:
        old.unlink(missing_ok=True)


def _own_folder() -> Path:
    """The folder of the archives, which nobody else may write: Java trusts what it finds in them."""
    folder = cache_folder("classes")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others")
    if any(char.isspace() or char in "\"'\\" for char in str(folder)):
        raise OSError(f"{folder} cannot be written among the options of Java")
    return folder


def _versions(java: str, jars: Path) -> str:
    """A name for this Java with this Spark."""
    changed = jars.stat().st_mtime_ns
    text = "\n".join((java, pyspark.__version__, str(jars.resolve()), str(changed)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tries(archive: Path) -> list[Path]:
    """What runs of these versions left or are going to write."""
    return sorted(archive.parent.glob(f"{archive.stem}-*.jsa"))


def _is_whole(left: Path) -> bool:
    if _is_running(_maker(left)) or time.time() - left.stat().st_mtime < SETTLED:
        return False
    with open(left, "rb") as file:
        return file.read(4) in MAGIC


def _maker(path: Path) -> int:
    """The process that a file is of; 0 for an archive that has its name.

    >>> _maker(Path("0f3a-1234.jsa")), _maker(Path("0f3a.jsa"))
    (1234, 0)
    """
    number = path.stem.partition("-")[2]
    return int(number) if number.isdigit() else 0


def _is_running(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, 0)
        return True
    return False


def _last_used(archive: Path) -> float:
    with contextlib.suppress(OSError):
        return archive.stat().st_mtime
    return 0.0
