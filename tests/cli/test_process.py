"""The command line as a process of its own: what it imports, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.cli_kit import Lake, pane
from observe.advise.advise_kit import written

PROGRAM = "import sys; from latecomer.cli import main; main()"


def python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


HEAVY = {"pyspark", "pyarrow", "deltalake", "pydantic", "yaml", "rich", "numpy"}
"""What takes long to load."""
LOADED = (
    f"print(sorted({HEAVY} & set(sys.modules)), [m for m in sys.modules if m.startswith('latecomer.model')])"
)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []], ids=str)
def test_help_loads_nothing_that_takes_long(arguments: list[str]) -> None:
    said = python(f"import sys, atexit; atexit.register(lambda: {LOADED}); {PROGRAM}", *arguments)
    assert (said.returncode, said.stdout.splitlines()[-1]) == (0, "[] []")
    assert "  results " in said.stdout


def test_the_names_in_python_are_loaded_when_they_are_asked_for() -> None:
    said = python(f"import sys, latecomer; {LOADED}; latecomer.Pipeline; {LOADED}; print(latecomer.Pipeline)")
    first, second, found = said.stdout.splitlines()
    assert first == "[] []"
    assert second.startswith("['pydantic'")
    assert found == "<class 'latecomer.notebook.Pipeline'>"


def test_nothing_else_is_imported_before_ctrl_c_is_caught() -> None:
    said = python(
        "import sys; before = set(sys.modules); import latecomer.__main__; print(*set(sys.modules) - before)"
    )
    assert set(said.stdout.split()) - {"__future__"} == {"latecomer", "latecomer.__main__"}


ENDED_WELL = "=== ended with 0"
EACH_WITHOUT_SPARK = """
import json, sys
sys.modules["pyspark"] = None
from latecomer.cli import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    print("=== ended with", code, *words[1:2], flush=True)
"""


def test_reading_needs_no_spark(lake: Lake) -> None:
    (lake.file.parent / "arrivals").mkdir(exist_ok=True)
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    verbs = [
        ["results", lake.file, "minute_totals", "--open"],
        ["panes", lake.file, "minute_totals"],
        ["late", lake.file, "minute_totals"],
        ["dead-letters", lake.file],
        ["watermarks", lake.file],
        ["gaps", lake.file],
        ["advise", written(lake.file.parent, "parquet"), "--event-time", "event_time"],
        ["ledger", lake.file],
        ["check", lake.file],
        ["validate", lake.file],
        ["schema"],
    ]
    said = python(EACH_WITHOUT_SPARK, json.dumps([["--quiet", *map(str, verb)] for verb in verbs]))
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count(ENDED_WELL) == len(verbs), said.stdout


def test_without_spark_a_run_says_so(lake: Lake) -> None:
    said = python(
        "import sys; sys.modules['pyspark'] = None; from latecomer.cli import main; main()", "run", lake.file
    )
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1].startswith("error: Spark cannot be imported")
    doctor = python(
        "import sys; sys.modules['pyspark'] = None; from latecomer.cli import main; main()", "doctor"
    )
    assert doctor.returncode == 1
    assert "problem  java: pyspark cannot be imported" in doctor.stdout


INTERRUPTED = """
import sys

class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
"""


def test_ctrl_c_while_the_command_line_is_imported_ends_as_later() -> None:
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    module, function = settings["project"]["scripts"]["latecomer"].split(":")
    said = python(f"{INTERRUPTED}from {module} import {function}\n{function}()")
    assert (said.returncode, said.stdout, said.stderr) == (130, "", "")


def test_a_reader_that_has_seen_enough_is_no_error(lake: Lake) -> None:
    rows = [pane(minute, 0, merchant="m" * 200, paise=minute) for minute in range(2000)]
    lake.panes("minute_totals", 0, rows)
    command = [sys.executable, "-c", PROGRAM, "--quiet", "results", str(lake.file), "minute_totals"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
