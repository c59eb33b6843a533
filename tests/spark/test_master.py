"""Where Spark runs: what is nearest to the user wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.spark import master as masters
from latecomer.spark.master import master, use_master


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "LATECOMER_MASTER",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_CONF_DIR",
        "SPARK_HOME",
        "PYSPARK_GATEWAY_PORT",
    ):
        monkeypatch.delenv(name, raising=False)


def test_the_command_line_wins_over_the_environment_and_that_over_sparks_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert master() == "local[*]"
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.master  spark://defaults:7077\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert master() == "spark://defaults:7077"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.master=spark://submitted:7077 pyspark-shell")
    assert master() == "spark://submitted:7077"
    monkeypatch.setenv("LATECOMER_MASTER", "spark://environment:7077")
    assert master() == "spark://environment:7077"
    use_master(None)
    assert master() == "spark://environment:7077"
    use_master("yarn")
    assert master() == "yarn"


def test_a_file_of_properties_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ours.conf"
    file.write_text("spark.master=k8s://https://head:6443\nspark.app.name x\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {file} pyspark-shell")
    assert master() == "k8s://https://head:6443"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master yarn --properties-file {file} pyspark-shell")
    assert master() == "yarn"


def test_arguments_that_make_no_sense_are_sparks_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'unfinished")
    assert masters.spark_settings() == {}
