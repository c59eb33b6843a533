"""What is in `deploy/`: held against schemas and tools as far as these are here, and against latecomer itself."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from pyspark.sql import SparkSession

from latecomer.cli.verbs import _built
from latecomer.config import checks
from latecomer.config.load import load_pipeline

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = ("1.29", "1.33")


# The image


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_image_is_made_of_pinned_parts_and_runs_as_nobody_in_particular() -> None:
    found = instructions()
    bases = [rest.split()[0] for what, rest in found if what == "FROM"]
    assert len(bases) == 3
    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)
    assert [rest for what, rest in found if what == "USER"] == ["10001:10001"]
    installs = [rest for what, rest in found if what == "RUN" and "pip install" in rest]
    assert all(
        "--require-hashes" in each or "--no-deps" in each or "--constraint" in each for each in installs
    )


def test_all_that_the_image_copies_is_there_and_not_left_out() -> None:
    kept = [
        line[1:].rstrip("/")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for what, rest in instructions():
        if what == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists(), name
                assert any(fnmatch(name.rstrip("/"), each) for each in kept), name


def test_the_versions_of_the_extras_are_one_for_each_package(tmp_path: Path) -> None:
    """A package may stand in requirements/ twice, for one Python each: then its line says for which."""
    step = next(rest for what, rest in instructions() if what == "RUN" and rest.startswith("sed "))
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    subprocess.run(["sh", "-c", step.split("&&")[0]], cwd=tmp_path, check=True)
    asked = [Requirement(line) for line in (tmp_path / "versions.txt").read_text().splitlines()]
    names = [each.name for each in asked if each.marker is None or each.marker.evaluate()]
    assert "numpy" in names
    assert len(names) == len(set(names))


@pytest.mark.long
def test_the_steps_of_the_build_work_in_a_folder(tmp_path: Path) -> None:
    """Docker is not needed for them: they are those of the image, with another place for /opt/latecomer."""
    work = tmp_path / "build"
    work.mkdir()
    build = instructions()
    begin, end = (
        nth for nth, (what, rest) in enumerate(build) if what == "FROM" and rest.startswith("python")
    )
    for what, rest in build[begin:end]:
        if what == "COPY":
            *names, to = rest.split()
            for name in names:
                here, there = ROOT / name, work / to
                if here.is_dir():
                    shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(here, there)
        elif what == "RUN":
            step = rest.replace("/opt/latecomer", str(tmp_path / "opt")).replace(
                "python -m", f"{sys.executable} -m"
            )
            subprocess.run(["sh", "-c", step.replace("${EXTRAS}", "protobuf")], cwd=work, check=True)
    said = subprocess.run(
        [tmp_path / "opt/bin/latecomer", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip()


# Kubernetes


def manifests() -> list[dict[str, Any]]:
    return [
        document
        for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
    ]


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_manifests_are_what_kubernetes_takes(version: str) -> None:
    for document in manifests():
        kubernetes_validate.validate(document, version, strict=True)
    broken = json.loads(json.dumps(next(each for each in manifests() if each["kind"] == "Deployment")))
    broken["spec"]["replicaz"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_the_pipeline_in_the_manifests_is_one(tmp_path: Path) -> None:
    (config,) = [each for each in manifests() if each["kind"] == "ConfigMap"]
    (tmp_path / "pipeline.yaml").write_text(config["data"]["pipeline.yaml"])
    assert checks.check(load_pipeline(tmp_path / "pipeline.yaml")) == []


# Commands


def commands() -> Iterator[list[str]]:
    """Every call of latecomer in `deploy/`, as arguments."""
    (deployment,) = [each for each in manifests() if each["kind"] == "Deployment"]
    yield deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    unit = (DEPLOY / "systemd/latecomer@.service").read_text()
    yield shlex.split(re.search(r"ExecStart=\S+ (.*)", unit)[1])  # type: ignore[index]
    for command in re.findall(
        r"\{LATECOMER\} ([^\"']*)", (DEPLOY / "airflow/latecomer_hourly.py").read_text()
    ):
        yield shlex.split(command)


def test_every_command_is_one_that_latecomer_has() -> None:
    found = list(commands())
    assert len(found) == 5
    for verb, *arguments in found:
        known = {option for each in _built(verb).params for option in each.opts}
        assert {each for each in arguments if each.startswith("--")} <= known, (verb, arguments)


# The unit


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    text = (DEPLOY / "systemd/latecomer@.service").read_text()
    unit = tmp_path / "latecomer@upi.service"
    unit.write_text(text.replace("/opt/latecomer/bin/latecomer", "/bin/true"))
    assert verified(unit) == []
    unit.write_text(text.replace("/opt/latecomer/bin/latecomer", "/bin/true").replace("Restart=", "Restrat="))
    assert any("Restrat" in line for line in verified(unit))


def verified(unit: Path) -> list[str]:
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    return [line for line in said.stderr.splitlines() if unit.name in line]


# Airflow


def test_the_example_for_airflow_compiles() -> None:
    ast.parse((DEPLOY / "airflow/latecomer_hourly.py").read_text())


def test_airflow_takes_the_example() -> None:
    """Where it is installed: it is not among the packages of the tests."""
    pytest.importorskip("airflow")
    module: dict[str, Any] = {}
    exec(compile((DEPLOY / "airflow/latecomer_hourly.py").read_text(), "dag", "exec"), module)
    assert callable(module["latecomer_hourly"])


# The catalog


def statements(**values: str) -> list[str]:
    text = (DEPLOY / "catalog/register.sql").read_text()
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [each.strip() for each in plain.split(";") if each.strip()]


def test_nothing_of_the_sql_is_left_to_guess() -> None:
    made = statements(store="/s", output="totals", schema="upi")
    assert len(made) == 4
    assert not any("${" in each for each in made)
    assert made[1].endswith("USING delta LOCATION '/s/outputs/totals/panes'")


CATALOG = """
import sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.warehouse.dir", sys.argv[1])
    .getOrCreate()
)
for statement in open(sys.argv[2]).read().split(";;"):
    spark.sql(statement)
print("counts", *(spark.table(f"upi.totals_{name}").count() for name in ("panes", "late", "ledger")))
"""


@pytest.mark.long
def test_spark_reads_the_tables_from_a_catalog(finished: Path, spark: SparkSession, tmp_path: Path) -> None:
    """With Delta's own connector, from Maven."""
    from frames.test_spark_submit import DELTA, submitted
    from latecomer.after.reading.reader import Reader
    from latecomer.spark.packages import jars
    from shared_fixtures import require

    require("Delta for Spark", lambda: jars(DELTA))
    found = jars(DELTA)
    store = load_pipeline(finished).store_path
    (tmp_path / "register.sql").write_text(
        ";;".join(statements(store=str(store), output="totals", schema="upi"))
    )
    (tmp_path / "job.py").write_text(CATALOG)
    ended = submitted(
        tmp_path / "job.py",
        str(tmp_path / "warehouse"),
        str(tmp_path / "register.sql"),
        options=["--jars", ",".join(map(str, found))],
    )
    reader = Reader(load_pipeline(finished))
    expected = [each.num_rows for each in (reader.panes("totals"), reader.late("totals"), reader.ledger())]
    assert f"counts {' '.join(map(str, expected))}" in ended.stdout, ended.stdout
