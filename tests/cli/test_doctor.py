from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.cli_kit import PIPELINE, Cli, Lake, pane
from kafka_kit import Client
from latecomer.cli import doctor, doctor_machine
from latecomer.spark.base import TaskTotals
from latecomer.spark.noted import NotedWork, WorkNotes, noted_work
from latecomer.store.answers import SourceAnswer, SourceAnswers
from latecomer.store.holding.lock import exclusive
from latecomer.testing.servers import free_ports
from postgres_kit import Postgres


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
    assert doctor_machine.within(version, bounds) is fits


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
    ("memory", "outcome"), [("9000t", "less than the machine has"), ("much", "as Spark does")]
)
def test_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch, memory: str, outcome: str) -> None:
    monkeypatch.setenv("LATECOMER_MEMORY", memory)
    _, found = doctor.machine()
    assert outcome in (found.fix or "")


def test_a_store_and_what_is_in_it(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5)])
    said = cli("doctor", lake.file)
    assert "ok       table outputs/minute_totals/panes: 1 row in 1 file" in said.out
    assert "ok       in use: by nobody" in said.out


def test_what_spark_did_in_the_runs_of_a_store(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    root = lake.store.root
    assert "Spark ran" not in cli("doctor", lake.file).out
    done = TaskTotals(2, 4, 1.25, 600)
    notes = WorkNotes(root, done)
    notes.now_and_then()
    assert noted_work(root) == NotedWork(), "once a minute"
    monkeypatch.setattr("latecomer.spark.noted.PAUSE", 0.0)
    notes.now_and_then()
    done.jobs += 1
    notes.write()
    assert noted_work(root) == NotedWork(1, TaskTotals(3, 4, 1.25, 600), TaskTotals(3, 4, 1.25, 600))
    said = "Spark ran 3 jobs with 4 tasks, which read 600 rows and took 1.2 s"
    assert f"ok       1 run: {said}\n" in cli("doctor", lake.file).out
    WorkNotes(root, TaskTotals(1, 1, 0.5, 1)).write()
    assert (
        "ok       2 runs: Spark ran 4 jobs with 5 tasks, which read 601 rows and took 1.8 s; "
        "in the last of them Spark ran 1 job with 1 task, which read 1 row and took 0.5 s\n"
    ) in cli("doctor", lake.file).out


def test_what_spark_did_makes_no_store(unrun: Lake) -> None:
    root = unrun.pipeline.store_path
    WorkNotes(root, TaskTotals()).write()
    assert not root.exists()
    root.mkdir()
    (root / "work.json").write_text('{"runs": "many"}', "utf-8")
    assert noted_work(root) == NotedWork()


def test_what_sparks_sql_computes_of_each_output(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    row = '{"at": "2026-01-05T14:00:00Z", "paise": 5, "city": "Pune"}\n'
    (tmp_path / "in" / "a.json").write_text(row, "utf-8")
    file = tmp_path / "p.yaml"
    output = "window: {tumbling: 1m}, aggregates: {paise: sum(paise)}"
    file.write_text(
        f"name: p\nstore: {tmp_path}/store\nsource: {{files: {{path: {tmp_path}/in}}}}\nevent: {{time: at}}\n"
        "watermark: {delay: 30s}\ncolumns: {shout: upper(city)}\noutputs:\n"
        f"  minutes: {{{output}, where: paise > 3}}\n"
        f"  names: {{{output}, where: city like 'P%'}}\n"
        f"  shouts: {{{output}, by: [shout]}}\n",
        "utf-8",
    )
    said = cli("doctor", file).out
    assert "ok       output minutes: tasks compute all of it" in said
    assert "ok       output names: Spark's SQL computes city like 'P%'" in said
    assert "ok       output shouts: Spark's SQL computes upper(city)" in said


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


def test_a_source_folder_that_cannot_be_read_is_a_problem(
    unrun: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, allowed = unrun.file.parent / "arrivals", os.access
    said = cli("doctor", unrun.file)
    assert said.status == 1
    fix = "create it, or correct source.files.path"
    assert f"problem  source: source folder {folder} does not exist\n         fix: {fix}" in said.out
    folder.mkdir()
    assert f"ok       source: 0 files at {folder}/*.json\n" in cli("doctor", unrun.file).out
    monkeypatch.setattr(
        os, "access", lambda path, *mode, **more: str(path) != str(folder) and allowed(path, *mode, **more)
    )
    denied = (
        f"problem  source: source folder {folder} cannot be listed: permission is denied\n         fix: give "
    )
    assert denied in cli("doctor", unrun.file).out


def test_a_wrong_pipeline_is_a_problem_and_exits_with_1(unrun: Lake, cli: Cli) -> None:
    unrun.file.write_text(PIPELINE.replace("late: retract", "late: sometimes"), encoding="utf-8")
    said = cli("doctor", unrun.file)
    assert said.status == 1
    assert "problem  pipeline: " in said.out
    assert "1 problem found" in said.out


SHOPS = """
name: shops
store: ./store
source:
  kafka: {servers: "${env:KAFKA_SERVERS}", topics: [TOPIC]}
  schema: {at: string, paise: bigint}
event: {time: at}
watermark: {delay: 1m}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise)}
    sinks: [{postgres: "${env:POSTGRES}"}, {sqlite: results.db}]
dead_letters_to: [{kafka: {servers: "${env:KAFKA_SERVERS}", topic: dead-TOPIC}}]
"""


def shops_of(folder: Path, topic: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(SHOPS.replace("TOPIC", topic), encoding="utf-8")
    return file


def test_a_kafka_source_and_what_is_waiting_there(
    kafka: Client, postgres: Postgres, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SERVERS", kafka.servers)
    monkeypatch.setenv("POSTGRES", postgres.url_with_password)
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, ["{}"] * 3, partition=1)
    said = cli("doctor", shops_of(tmp_path, topic))
    assert said.status == 0, said.out
    assert f"ok       source: kafka ${{env:KAFKA_SERVERS}}, {topic}, the broker answers" in said.out
    assert (
        f"ok       topic {topic}: 2 partitions, 3 records that no run has found yet (0: 0, 1: 3)" in said.out
    )
    assert "ok       postgres sink of totals: ${env:POSTGRES}, nothing in it yet" in said.out
    assert (
        f"ok       kafka sink of dead_letters: ${{env:KAFKA_SERVERS}}/dead-{topic}, nothing in it yet"
        in said.out
    )
    assert f"dead-{topic}" not in kafka.topics(), "nothing is made"
    assert not (tmp_path / "results.db").exists()
    SourceAnswers(tmp_path / "store").write(0, SourceAnswer(None, {"topics": {topic: {"to": [0, 2]}}}))
    assert (
        f"topic {topic}: 2 partitions, 1 record that no run has found yet (0: 0, 1: 1)"
        in cli("doctor", tmp_path / "pipeline.yaml").out
    )


def test_servers_that_do_not_answer_are_problems(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    for limit in ("source.kafka.reader", "sink.kafka_client"):
        monkeypatch.setattr(f"latecomer.{limit}.ANSWER_SECONDS", 1.0)
    file = shops_of(tmp_path, "payments")
    monkeypatch.setenv("KAFKA_SERVERS", f"127.0.0.1:{port}")
    monkeypatch.delenv("POSTGRES", raising=False)
    said = cli("doctor", file)
    assert "problem  secrets: " in said.out
    assert "fix: set POSTGRES, and start again" in said.out
    monkeypatch.setenv("POSTGRES", f"postgresql://ana@127.0.0.1:{port}/books")
    said = cli("doctor", file)
    assert said.status == 1
    assert "problem  source: " in said.out
    assert "Connection refused" in said.out.split("problem  source")[1].splitlines()[0]
    assert "fix: start the broker, or correct source.kafka.servers" in said.out
    assert "problem  postgres sink of totals: " in said.out
    assert "problem  kafka sink of dead_letters: " in said.out
    assert "3 problems found" in said.out


def test_a_finding_that_has_its_fix_shows_no_other() -> None:
    found = "p.yaml:1: name: is not a usable name\n    fix: use a-z"
    assert str(doctor_machine.Finding("pipeline", found, "correct the pipeline file")).count("fix: ") == 1
