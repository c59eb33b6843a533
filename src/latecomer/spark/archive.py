"""Spark's classes as an archive, which a JVM maps into memory instead of reading and checking hundreds of jars anew.

Java calls it class-data sharing. A JVM with the right option writes the archive when it ends: that of the first run
of a pipeline, under a name of its own, after the command has returned. A later run renames the file (`adopt`), and
starts some ten seconds faster.

An archive belongs to the Java and the Spark that it was made with. Java checks that too, and runs without an archive
that does not fit. No problem here ever stops a run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import pyspark

MAGIC = (0xF00BABA8).to_bytes(4, "little"), (0xF00BABA8).to_bytes(4, "big")
"""The first bytes of a complete archive: Java writes them last."""
TRIES = 3
"""After so many runs that left no archive, no other run is asked for one."""
SETTLED = 20.0
"""An archive counts as complete when nothing was written to it for so many seconds."""
MOST_ARCHIVES = 3
"""How many archives of about 150 MiB each are kept: one for each pair of versions used last."""


def cache_folder(kind: str) -> Path:
    """The folder of one kind of files in the user's cache (`XDG_CACHE_HOME`): files that latecomer can download or make
    again. It may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "latecomer", kind)


def archive_options(java: str, jars: Path) -> list[str]:
    """Options for a JVM: to use the archive, to make one when it ends, or none.

    `java` is the version text of Java, and `jars` the folder of Spark's jars.
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
    """Rename a complete archive that an earlier run has left."""
    complete = next(filter(_is_complete, _tries(archive)), None)
    if complete is not None:
        complete.replace(archive)


def tidy(archive: Path) -> None:
    """Note that an archive is used. Remove the archives that other runs made at the same time, and those that were
    unused for longest."""
    os.utime(archive)
    for file in _tries(archive):
        if not _is_running(_maker(file)):
            file.unlink(missing_ok=True)
    named = [each for each in archive.parent.glob("*.jsa") if not _maker(each)]
    for old in sorted(named, key=_last_used, reverse=True)[MOST_ARCHIVES:]:
        old.unlink(missing_ok=True)


def _own_folder() -> Path:
    """The folder of the archives. Only its user may write it: Java trusts the archives."""
    folder = cache_folder("classes")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
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
    """The files that runs of these versions have left or are going to write."""
    return sorted(archive.parent.glob(f"{archive.stem}-*.jsa"))


def _is_complete(file: Path) -> bool:
    if _is_running(_maker(file)) or time.time() - file.stat().st_mtime < SETTLED:
        return False
    with open(file, "rb") as opened:
        return opened.read(4) in MAGIC


def _maker(path: Path) -> int:
    """The process that writes a file; 0 for an archive with its final name.

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
