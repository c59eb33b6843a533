"""The archive of Spark's classes: who makes it, who uses it, and that nothing about it stops a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from latecomer.spark.archive import MAGIC, MOST_ARCHIVES, SETTLED, TRIES, archive_options
from latecomer.spark.java import spark_jars
from sink.feeding_kit import eventually

ENDED = 2**22 + 1
"""A process that there is not: Linux has no larger numbers than the one before."""


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LATECOMER_CLASS_ARCHIVE", raising=False)
    return tmp_path / "cache" / "latecomer" / "classes"


def options(java: str = "17") -> list[str]:
    return archive_options(java, spark_jars())


def asked_for(given: list[str]) -> Path:
    """The file that a JVM is to write."""
    (path,) = (each.partition("=")[2] for each in given if each.startswith("-XX:ArchiveClassesAtExit="))
    return Path(path)


def used(given: list[str]) -> Path:
    (path,) = (each.partition("=")[2] for each in given if each.startswith("-XX:SharedArchiveFile="))
    return Path(path)


def left_by_a_run(content: bytes, java: str = "17", age: float = 2 * SETTLED) -> Path:
    """What a run that has ended wrote."""
    asked = asked_for(options(java))
    asked.unlink()
    left = asked.with_name(asked.name.replace(f"-{os.getpid()}", f"-{ENDED}"))
    left.write_bytes(content)
    os.utime(left, (time.time() - age,) * 2)
    return left


def test_the_first_run_is_asked_for_it_and_the_next_uses_it(classes: Path) -> None:
    left = left_by_a_run(MAGIC[0] + b"...")
    archive = used(options())
    assert archive.read_bytes() == MAGIC[0] + b"..."
    assert list(classes.iterdir()) == [archive]
    assert not left.exists()
    assert used(options()) == archive


@pytest.mark.parametrize("age", [0.0, SETTLED / 2])
def test_a_file_that_is_being_written_is_left_alone(classes: Path, age: float) -> None:
    left = left_by_a_run(MAGIC[0], age=age)
    assert asked_for(options()) != left
    assert left.exists()


def test_another_java_has_another_archive(classes: Path) -> None:
    left_by_a_run(MAGIC[0], "17")
    of_17 = used(options("17"))
    assert asked_for(options("21")).name[:16] != of_17.name[:16]


def test_runs_that_leave_nothing_whole_are_no_longer_asked(classes: Path) -> None:
    asked = asked_for(options())
    for nth in range(TRIES):
        asked.with_name(asked.name.replace(f"-{os.getpid()}", f"-{ENDED + nth}")).write_bytes(b"")
    asked.unlink()
    assert options() == []


def test_what_others_made_meanwhile_goes_and_so_does_what_nobody_uses(classes: Path) -> None:
    for java in map(str, range(MOST_ARCHIVES + 1)):
        left_by_a_run(MAGIC[0], java)
        os.utime(used(options(java)), (int(java) + 1,) * 2)
    late = left_by_a_run(MAGIC[0], "new")
    late.with_name(late.name.replace(str(ENDED), str(ENDED + 1))).write_bytes(b"")
    used(options("new"))
    assert len(list(classes.iterdir())) == MOST_ARCHIVES
    assert asked_for(options("0")), "the oldest is gone"


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_may_write_is_not_trusted(classes: Path, mode: int) -> None:
    left_by_a_run(MAGIC[0])
    classes.chmod(mode)
    assert options() == []


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert options() == []


def test_a_folder_with_a_space_cannot_stand_among_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert options() == []


def test_it_can_be_switched_off(classes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_by_a_run(MAGIC[0])
    monkeypatch.setenv("LATECOMER_CLASS_ARCHIVE", "off")
    assert options() == []


@pytest.mark.long
def test_a_real_jvm_makes_it_and_the_next_maps_its_classes(classes: Path, tmp_path: Path) -> None:
    script = "from latecomer.spark.session import build_session; print(build_session('x').range(5).count())"

    def run(**more: str) -> None:
        subprocess.run([sys.executable, "-c", script], env=os.environ | more, check=True, timeout=300)

    run()
    eventually(lambda: [each for each in classes.iterdir() if each.read_bytes()[:4] in MAGIC], seconds=120)
    time.sleep(SETTLED + 5)
    loaded = tmp_path / "loaded.txt"
    run(JDK_JAVA_OPTIONS=f"-Xlog:class+load:file={loaded}")
    eventually(loaded.exists, seconds=10)
    mapped = re.findall(r"shared objects file \(top\)", loaded.read_text())
    assert len(mapped) > 5000
