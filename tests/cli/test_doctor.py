from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import PIPELINE, Cli, Lake, pane

from latecomer.cli import doctor
from latecomer.store.lock import exclusive


def test_packages_are_held_against_what_latecomer_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "importlib.metadata.requires",
        lambda _: ["pyyaml>=900", "no-such-thing>=1", 'x; extra == "y"', "rich>=1"],
    )
    old, missing, fine = doctor.packages()
    assert old.fix == 'latecomer needs >=900: pip install "pyyaml>=900"'
    assert (missing.found, missing.fix) == ("not installed", 'pip install "no-such-thing>=1"')
    assert fine.fix is None


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("4.1.1", "<4.2,>=4.1.1", True),
        ("4.2", "<4.2,>=4.1.1", False),
        ("4.1.0", ">=4.1.1", False),
        ("2.0rc1", ">=1.9", True),
        ("1", "", True),
    ],
)
def test_bounds(version: str, bounds: str, fits: bool) -> None:
    assert doctor.within(version, bounds) is fits


def test_a_missing_java_is_a_problem_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.java()
    assert "there is no java in it" in found.found
    assert found.fix is not None
    assert "install it" in found.fix


def test_a_cluster_that_anyone_can_reach_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor.ports().fix is None
    monkeypatch.setenv("LATECOMER_MASTER", "spark://host:7077")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "spark.authenticate true and spark.network.crypto.enabled true" in (doctor.ports().fix or "")
    settings = tmp_path / "spark-defaults.conf"
    settings.write_text("# ours\nspark.authenticate  true\nspark.network.crypto.enabled=false\n")
    assert doctor.ports().fix == "set spark.network.crypto.enabled true in spark-defaults.conf"
    settings.write_text("spark.authenticate true\nspark.network.crypto.enabled true\n")
    assert doctor.ports().fix is None


@pytest.mark.parametrize(
    ("memory", "told"), [("9000t", "less than the machine has"), ("much", "as Spark does")]
)
def test_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch, memory: str, told: str) -> None:
    monkeypatch.setenv("LATECOMER_MEMORY", memory)
    _, found = doctor.machine()
    assert told in (found.fix or "")


def test_a_store_and_what_is_in_it(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5)])
    said = cli("doctor", lake.file)
    assert "ok       table outputs/minute_totals/panes: 1 rows in 1 files" in said.out
    assert "ok       in use: by nobody" in said.out


def test_a_store_that_was_never_made(unrun: Lake) -> None:
    found = [str(finding) for finding in doctor.store(unrun.pipeline)]
    assert "not made yet, and it can be" in found[0]
    assert not unrun.pipeline.store_path.exists()


def test_a_store_that_cannot_be_written(unrun: Lake) -> None:
    unrun.pipeline.store_path.write_text("a file stands here")
    (found,) = doctor.store(unrun.pipeline)
    assert "cannot be written" in found.found
    assert found.fix is not None


def test_a_store_in_use_and_who_uses_it(lake: Lake) -> None:
    root = lake.pipeline.store_path
    with exclusive(root):
        looked = "import sys; from latecomer.cli.doctor import *; print(holder(Path(sys.argv[1])))"
        said = subprocess.run(
            [sys.executable, "-c", looked, str(root)], capture_output=True, text=True, check=True
        )
        assert said.stdout.startswith("by process ")
    with exclusive(root):
        pass


def test_a_wrong_pipeline_is_a_problem_and_exits_with_1(unrun: Lake, cli: Cli) -> None:
    unrun.file.write_text(PIPELINE.replace("late: retract", "late: sometimes"), encoding="utf-8")
    said = cli("doctor", unrun.file)
    assert said.status == 1
    assert "problem  pipeline: " in said.out
    assert "1 problem found" in said.out
