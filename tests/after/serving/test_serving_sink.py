"""`serving: true` on a real Postgres: corrections and the view beside the table that a sink keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from after.serving.correct_kit import late, make_lake, publish, reader, served
from cli.cli_kit import Lake, pane
from latecomer import correct
from latecomer.after.serving.served import serving
from latecomer.after.serving.views import beside_a_run, keep_served
from latecomer.cli import main
from latecomer.config.load import load_pipeline
from latecomer.errors import PipelineError, SinkError
from latecomer.sink.keeper import SinkKeeper
from postgres_kit import PASSWORD, Postgres

NUMBERS = count()
VARIABLE = "LATECOMER_TEST_DATABASE"


@pytest.fixture
def schema() -> str:
    return f"served {next(NUMBERS)}"


@pytest.fixture
def lake(tmp_path: Path, postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv(VARIABLE, postgres.url_with_password)
    made = make_lake(tmp_path)
    text = made.file.read_text(encoding="utf-8")
    sink = f"{{postgres: {{target: '${{env:{VARIABLE}}}', schema: '{schema}', serving: true}}}}"
    made.file.write_text(
        text.replace("  totals:\n", f"  totals:\n    sinks: [{sink}]\n", 1), encoding="utf-8"
    )
    return Lake(made.file)


def bring_up(lake: Lake, complete: int) -> None:
    """What a run does for its sinks."""
    keeper = SinkKeeper(lake.store)
    keeper.start(complete)
    keeper.finish()
    keeper.close()


def in_view(postgres: Postgres, schema: str) -> list[dict[str, Any]]:
    return postgres.ask(f'select * from "{schema}".totals_serving')


def require_same(lake: Lake, postgres: Postgres, schema: str) -> None:
    found, expected = in_view(postgres, schema), serving(reader(lake), "totals")
    assert found
    compared = [name for name in expected.schema.names if name != "mean"]
    assert list(found[0]) == expected.schema.names
    assert served(found, *compared) == served(expected.to_pylist(), *compared)


def test_base_and_correction_are_one_select(lake: Lake, postgres: Postgres, schema: str) -> None:
    fee = Decimal("1.25")
    publish(lake, "totals", 0, [late(0, "a", paise=5, fee=fee), late(0, None), late(1, "a", paise=1)])
    bring_up(lake, 0)
    keep_served(reader(lake), "totals")
    require_same(lake, postgres, schema)
    for batch in (1, 2):
        lake.late(
            "totals", batch, [late(0, "a", paise=7, payer="b"), late(0, None, fee=fee), late(2, "o'\"")]
        )
        correct(lake.pipeline, "totals")
        require_same(lake, postgres, schema)
    assert served(in_view(postgres, schema), "paise", "origin")[0, "a"] == (19, "corrected")
    # Nothing is counted twice, however often it is asked for, and whatever became of the table.
    correct(lake.pipeline, "totals")
    require_same(lake, postgres, schema)
    postgres.ask(f'truncate "{schema}".totals_corrections')
    with pytest.raises(SystemExit) as ended:
        main(["correct", str(lake.file), "totals"])
    assert ended.value.code == 0
    require_same(lake, postgres, schema)
    assert postgres.ask(f'select output, batch from "{schema}".latecomer_progress order by 1') == [
        {"output": "totals", "batch": 0},
        {"output": "totals.corrections", "batch": -1},
    ]


def test_a_run_makes_the_view(lake: Lake, postgres: Postgres, schema: str) -> None:
    """At its first batch and at its end, without any call of correct."""
    publish(lake, "totals", 0, [late(0, "a", paise=5)])
    lake.late("totals", 1, [late(0, "a", paise=7)])
    seen: list[int] = []

    def run(pipeline: Any, watch: Any) -> str:
        bring_up(lake, 0)
        watch("a batch")
        seen.append(len(in_view(postgres, schema)))
        return "done"

    assert beside_a_run(run, lake.pipeline) == "done"
    assert seen == [1]
    assert served(in_view(postgres, schema), "paise", "origin")[0, "a"] == (5, "live")


@pytest.mark.parametrize("corrected_after", [False, True])
def test_a_rebuilt_number_removes_the_corrections_that_it_holds(
    lake: Lake, postgres: Postgres, schema: str, corrected_after: bool
) -> None:
    """In the transaction in which it arrives, and not before: also if correct is called in between."""
    publish(lake, "totals", 0, [late(0, "a", paise=5), late(0, None, paise=1), late(1, "a", paise=1)])
    bring_up(lake, 0)
    lake.late("totals", 1, [late(0, "a", paise=7), late(0, None, paise=2), late(1, "a", paise=3)])
    correct(lake.pipeline, "totals")
    before = served(in_view(postgres, schema), "paise", "origin")
    assert before == {(0, "a"): (12, "corrected"), (0, None): (3, "corrected"), (1, "a"): (4, "corrected")}
    rebuilt = [
        pane(0, 1, timing="CORRECTION", merchant=merchant, paise=paise)
        for merchant, paise in (("a", 12), (None, 3))
    ]
    lake.panes("totals", 2, rebuilt)
    if corrected_after:
        lake.late("totals", 3, [late(1, "a", paise=10)])
        correct(lake.pipeline, "totals")
        before[1, "a"] = (14, "corrected")
    assert served(in_view(postgres, schema), "paise", "origin") == before
    bring_up(lake, 2)
    after = {(0, "a"): (12, "rebuilt"), (0, None): (3, "rebuilt"), (1, "a"): before[1, "a"]}
    assert served(in_view(postgres, schema), "paise", "origin") == after
    keep_served(reader(lake), "totals")
    assert served(in_view(postgres, schema), "paise", "origin") == after
    assert served(serving(reader(lake), "totals").to_pylist(), "paise", "origin") == after


SCRIPT = """
import sys
from latecomer import correct, load_pipeline
correct(load_pipeline(sys.argv[1]), "totals")
"""


def test_a_call_that_is_killed_leaves_what_was_there(lake: Lake, postgres: Postgres, schema: str) -> None:
    publish(lake, "totals", 0, [late(0, "a", paise=5)])
    bring_up(lake, 0)
    correct(lake.pipeline, "totals")
    before = in_view(postgres, schema)
    lake.late("totals", 1, [late(0, "a", paise=7)])
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lake.file)],
        env={**os.environ, "LATECOMER_FAILPOINT": "sink.postgres.served@0"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert in_view(postgres, schema) == before
    correct(lake.pipeline, "totals")
    require_same(lake, postgres, schema)


def test_the_view_is_left_alone_while_it_says_the_same(lake: Lake, postgres: Postgres, schema: str) -> None:
    publish(lake, "totals", 0, [late(0, "a", paise=5)])
    bring_up(lake, 0)
    asked = f"select '\"{schema}\".totals_serving'::regclass::oid as oid"
    keep_served(reader(lake), "totals")
    before = postgres.ask(asked)
    keep_served(reader(lake), "totals")
    assert postgres.ask(asked) == before


def test_what_is_in_the_way_is_told(
    lake: Lake, postgres: Postgres, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(lake, "totals", 0, [late(0, "a", paise=5)])
    with pytest.raises(SinkError, match=rf"there is no table {schema}\.totals yet; run the pipeline first"):
        correct(lake.pipeline, "totals")
    postgres.ask(f'create table "{schema}".totals_serving (a text)')
    bring_up(lake, 0)
    with pytest.raises(SinkError, match=rf"{schema}\.totals_serving is no view"):
        keep_served(reader(lake), "totals")
    # A run is not held by it.
    assert beside_a_run(lambda _, watch: watch("a batch") or "done", lake.pipeline) == "done"
    assert "what is served could not be brought up: postgres sink ${env:" in caplog.text
    assert PASSWORD not in caplog.text


def test_only_numbers_are_served(lake: Lake) -> None:
    text = lake.file.read_text(encoding="utf-8")
    target = f"dead_letters_to: [{{postgres: {{target: '${{env:{VARIABLE}}}', schema: x, serving: true}}}}]\n"
    lake.file.write_text(f"{text}\n{target}", encoding="utf-8")
    with pytest.raises(
        PipelineError, match=r"dead_letters_to\[0\]\.serving: only the numbers of an output are served"
    ):
        load_pipeline(lake.file)
