"""A machine on which Spark cannot be started: one sentence that says why, and the next run goes on."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError

from faults.disk_kit import small_disk
from latecomer.spark.session import why_not_started
from source.source_kit import write_json

PIPELINE = """
name: started
store: store
source: {files: {path: in}, schema: {at: string, n: bigint}}
event: {time: at}
watermark: {delay: 0s}
outputs:
  totals: {window: {tumbling: 1m}, aggregates: {n: sum(n)}}
"""
MANY = 200_000


def latecomer(
    folder: Path, verb: str, files: int = 4096, before: Sequence[str] = (), **environment: str
) -> tuple[int, str]:
    """The exit code of a verb on a pipeline, and what it says. `before` is a command that starts it."""
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    main = (sys.executable, "-c", "from latecomer.cli import main; main()")
    command = [*before, *main, "-q", *verb.split(), str(file)]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    outcome = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**_environment(), **environment},
        preexec_fn=limited,
        timeout=300,
        check=False,
    )
    return outcome.returncode, outcome.stderr


def _environment() -> Mapping[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("LATECOMER_", "SPARK_"))
    }


@pytest.mark.parametrize(
    ("wrote", "outcome"),
    [
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            "heap; set LATECOMER_MEMORY to",
        ),
        (
            "WARNING: Using incubator modules\nCould not load: x\n\tat y\n",
            "Could not load: x; `latecomer doctor`",
        ),
        (
            'Exception in thread "main" E\n\tat a.B\nCaused by: E\n\t... 10 more\n'
            "Caused by: java.net.UnknownHostException: vm: Name or service not known\n\t... 17 more\n",
            "java.net.UnknownHostException: vm: Name or service not known; give this machine's name an address",
        ),
        ("", "Java gateway process exited before sending its port number.; `latecomer doctor`"),
    ],
)
def test_what_a_jvm_that_ended_has_left_is_the_reason(tmp_path: Path, wrote: str, outcome: str) -> None:
    (tmp_path / "spark.console.log").write_text(wrote)
    ended = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    assert outcome in why_not_started(ended, tmp_path / "spark.log")


@pytest.mark.long
def test_memory_that_java_does_not_understand(tmp_path: Path) -> None:
    write_json(tmp_path, "a.json", [{"at": "2026-11-08T14:00:00Z", "n": 1}])
    code, outcome = latecomer(tmp_path, "run --once", LATECOMER_MEMORY="banana")
    assert (code, outcome.splitlines()) == (
        1,
        [
            "error: Spark could not be started: Invalid maximum heap size: -Xmxbanana; set LATECOMER_MEMORY to the "
            "memory that Spark may have, such as 2g"
        ],
    )


@pytest.mark.long
def test_a_machine_whose_own_name_has_no_address(tmp_path: Path) -> None:
    write_json(tmp_path, "a.json", [{"at": "2026-11-08T14:00:00Z", "n": 1}])
    renamed = ("unshare", "--uts", "sh", "-c", 'hostname nowhere.invalid && exec "$@"', "sh")
    if subprocess.run([*renamed, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a machine cannot be given another name here: it takes root's rights")
    assert latecomer(tmp_path, "run --once", before=renamed) == (0, "")


@pytest.mark.long
def test_few_open_files(tmp_path: Path) -> None:
    """From none that Java could start with, over those that Spark does not start with, to those with which it does not
    get through a batch."""
    write_json(tmp_path, "a.json", ({"at": "2026-11-08T14:00:00Z", "n": 1} for _ in range(MANY)))
    for files in (12, 40, 200, 280, 320, 360):
        code, outcome = latecomer(tmp_path, "run --once", files)
        assert code == 1 or (code, outcome, files) == (0, "", 360)
        if code:
            (sentence,) = outcome.splitlines()
            assert "ulimit -n 4096" in sentence
            assert "unexpected" not in sentence
    assert latecomer(tmp_path, "run --once") == (0, "")
    assert latecomer(tmp_path, "ledger --check") == (0, "")


@pytest.mark.long
def test_a_folder_for_what_spark_shuffles_that_is_full(tmp_path: Path) -> None:
    write_json(tmp_path, "a.json", ({"at": "2026-11-08T14:00:00Z", "n": nth} for nth in range(MANY)))
    with small_disk(tmp_path / "scratch", 1) as disk:
        disk.fill()
        settings = {"SPARK_LOCAL_DIRS": str(disk.root)}
        code, outcome = latecomer(tmp_path, "run --once", **settings)
        (sentence,) = outcome.splitlines()
        assert code == 1
        assert f"the disk is full: {disk.root}; make room there, and run again" in sentence
        disk.make_room()
        assert latecomer(tmp_path, "run --once", **settings) == (0, "")
    assert latecomer(tmp_path, "ledger --check") == (0, "")
