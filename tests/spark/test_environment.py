"""The archive for executors: it holds what is needed, and runs wherever it is unpacked."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from latecomer.errors import MachineError
from latecomer.spark import environment as module
from latecomer.spark.environment import needed, pack


def test_all_that_latecomer_needs_is_found_and_nothing_that_only_its_developers_need() -> None:
    found = needed(["latecomer"])
    assert {"latecomer", "pyspark", "py4j", "pyarrow", "numpy", "deltalake", "pydantic-core"} <= found.keys()
    assert {"psycopg-binary", "confluent-kafka"} <= found.keys()  # of extras that are installed
    assert not {"pytest", "mypy", "ruff", "playwright"} & found.keys()


def test_a_package_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="nowhere-to-be-found is not installed here"):
        pack(tmp_path / "out.tar.gz", ["nowhere-to-be-found"])
    assert not list(tmp_path.iterdir())


def test_an_archive_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        MachineError, match=r"nowhere/out\.tar\.gz cannot be written: No such file.*; name another"
    ):
        pack(tmp_path / "nowhere" / "out.tar.gz", start="typing-extensions")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it was removed meanwhile; it may also be that only somebody else may read it."""
    monkeypatch.setattr(module, "_add_python", lambda archive: None)
    monkeypatch.setattr(module, "_files_of", lambda package: [(tmp_path / "gone.py", "gone.py")])
    with pytest.raises(
        MachineError, match=r"gone\.py cannot be read, .*: No such file.*; make it readable, or"
    ):
        pack(tmp_path / "out.tar.gz", start="typing-extensions")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_python_runs_where_it_is_unpacked_with_nothing_else(tmp_path: Path) -> None:
    """Of the smallest package there is: latecomer itself, with all that it needs, is packed in `make test-long`."""
    packed = pack(tmp_path / "here.tar.gz", start="typing-extensions")
    assert [name.split()[0] for name in packed.packages] == ["typing_extensions"]
    assert packed.options["spark.archives"] == f"{tmp_path}/here.tar.gz#environment"
    place = tmp_path / "elsewhere" / "environment"
    with tarfile.open(packed.file) as archive:
        archive.extractall(place, filter="fully_trusted")
    asks = "import sys, json, ssl, typing_extensions as t; print(sys.prefix, t.__file__)"
    said = subprocess.run(
        ["./environment/bin/python", "-c", asks],
        cwd=place.parent,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stderr == ""
    prefix, module = said.stdout.split()
    assert Path(prefix) == place
    assert Path(module).is_relative_to(place)
