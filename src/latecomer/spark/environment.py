"""The environment of this process as an archive for executors: `latecomer cluster pack`, for `spark.archives`.

It holds Python itself with its standard library, and latecomer with all that it and its installed extras need. Users
may name more packages. It contains no absolute paths, so it runs wherever it is unpacked. Executors need neither Python
nor packages, only an operating system like this machine's.
"""

from __future__ import annotations

import io
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import latecomer
from latecomer.config.places import why_no_path
from latecomer.errors import MachineError

ALIAS = "environment"
"""The folder into which executors unpack it."""
PYTHON = f"./{ALIAS}/bin/python"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = f"lib/{_VERSION}"
_LEFT_OUT = frozenset(
    {"__pycache__", "site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3"}
)
_NOT_ON_EXECUTORS = ("pyspark/jars/", "pyspark/examples/", "pyspark/tests/", "pyspark/licenses/")
"""Executors have Spark's jars. Without them the archive is a third of the size."""
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_STARTS = f"""#!/bin/sh
# Python needs its library, which lies beside it wherever this was unpacked.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH="$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" PYTHONNOUSERSITE=1 exec "$home/bin/{_VERSION}" "$@"
"""


@dataclass(frozen=True)
class Packed:
    """An archive that was written."""

    file: Path
    packages: tuple[str, ...]
    """Names with versions, sorted."""

    @property
    def options(self) -> dict[str, str]:
        """The settings for Spark."""
        return {
            "spark.archives": f"{self.file}#{ALIAS}",
            "spark.pyspark.python": PYTHON,
            "spark.pyspark.driver.python": sys.executable,
        }


def pack(out: Path, more: Iterable[str] = (), start: str = "latecomer") -> Packed:
    """Write the archive; `more` are the names of users' packages, as pip knows them."""
    packages = needed([start, *more])
    if (wrong := why_no_path(str(out))) is not None:
        raise MachineError(f"{out} cannot be written: {wrong[0]}; {wrong[1]}")
    out = out.expanduser().absolute()
    if out.is_dir():
        raise MachineError(f"{out} cannot be written: it is a folder; name a file in it")
    draft = out.with_name(f".{out.name}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
            _add_python(archive)
            for each in packages.values():
                for file, name in _files_of(each):
                    archive.add(file, f"{_LIBRARY}/site-packages/{name}", recursive=False, filter=_plain)
        draft.replace(out)
    except OSError as error:
        raise _refused(error, out, draft) from error
    finally:
        with suppress(OSError):  # its name may be too long
            draft.unlink()
    return Packed(out, tuple(f"{each.metadata['Name']} {each.version}" for each in packages.values()))


def _refused(error: OSError, out: Path, draft: Path) -> MachineError:
    reason = error.strerror or error
    if error.filename is None or Path(error.filename) == draft:
        return MachineError(f"{out} cannot be written: {reason}; name another file")
    return MachineError(
        f"{error.filename} cannot be read, and belongs into the archive: {reason}; make it readable, or install its "
        "package again"
    )


def needed(names: Iterable[str]) -> dict[str, Distribution]:
    """Packages by name, with all that they and their extras need, as far as that is installed. A given name that is not
    installed is refused."""
    packages: dict[str, Distribution] = {}
    done: set[Requirement] = set()
    waiting = [Requirement(_plain_name(name), None) for name in names]
    first = set(waiting)
    while waiting:
        wanted = waiting.pop()
        if wanted in done:
            continue
        done.add(wanted)
        try:
            package = packages.setdefault(wanted.name, distribution(wanted.name))
        except PackageNotFoundError:
            if wanted in first:
                raise MachineError(
                    f"{wanted.name} is not installed here; name a package as pip does, or install it first"
                ) from None
            continue  # needed by an extra, or on another platform
        waiting += _requirements(package, wanted.extras)
    return dict(sorted(packages.items()))


class Requirement(NamedTuple):
    """A package, and which of its extras are wanted; None for all."""

    name: str
    extras: frozenset[str] | None


def _requirements(package: Distribution, extras: frozenset[str] | None) -> Iterator[Requirement]:
    for written in package.requires or []:
        of_extra = _EXTRA.search(written)
        if of_extra is not None and extras is not None and of_extra[1] not in extras:
            continue
        named = _NAMED.match(written)
        if named is not None:
            wanted = (each.strip() for each in (named[2] or "").split(","))
            yield Requirement(_plain_name(named[1]), frozenset(wanted) - {""})


def _plain_name(name: str) -> str:
    """
    >>> _plain_name("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _files_of(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a package, each with its path in the library."""
    if package.files is None:
        raise MachineError(
            f"{package.metadata['Name']} does not say which files it has; install it with pip, in a venv of its own"
        )
    if _plain_name(package.metadata["Name"]) == "latecomer":
        yield from _package_of(Path(latecomer.__file__).parent)
    elif any(str(each).startswith("__editable__") for each in package.files):
        raise MachineError(
            f"{package.metadata['Name']} is installed as a link to its sources; install it as executors shall have it"
        )
    for each in package.files:
        name = each.as_posix()
        if (
            name.startswith(("..", "/", "latecomer/"))
            or "__pycache__" in each.parts
            or name.startswith(_NOT_ON_EXECUTORS)
            or name.endswith(".pth")
        ):
            continue
        file = Path(str(package.locate_file(each)))
        if file.is_file():
            yield file, name


def _package_of(folder: Path) -> Iterator[tuple[Path, str]]:
    """The source files of a package."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file, file.relative_to(folder.parent).as_posix()


def _add_python(archive: tarfile.TarFile) -> None:
    """Python itself: its program, its library, and the standard library."""
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    archive.add(program, f"bin/{_VERSION}", filter=_plain)
    entry, starts = tarfile.TarInfo("bin/python"), _STARTS.encode()
    entry.size, entry.mode = len(starts), 0o755
    archive.addfile(entry, io.BytesIO(starts))
    for name in {sysconfig.get_config_var("INSTSONAME"), sysconfig.get_config_var("LDLIBRARY")} - {None}:
        library = Path(sysconfig.get_config_var("LIBDIR") or "/", str(name))
        if library.is_file() and ".so" in library.name:
            archive.add(library.resolve(), f"lib/{library.name}", filter=_plain)
    standard = Path(sysconfig.get_path("stdlib"))
    for file in sorted(standard.rglob("*")):
        within = file.relative_to(standard)
        if (
            file.is_file()
            and not _LEFT_OUT.intersection(within.parts)
            and not within.parts[0].startswith("config-")
        ):
            archive.add(file, f"{_LIBRARY}/{within.as_posix()}", recursive=False, filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without its owner, readable for all."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o444
    return entry
