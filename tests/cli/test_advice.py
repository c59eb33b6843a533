"""What latecomer advises can be done: its options exist, and what it names is then accepted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import latecomer
from cli.cli_kit import Cli, Lake, pane
from latecomer.after.rebuild.rebuilding import opened_to_rebuild
from latecomer.cli import app
from latecomer.errors import LatecomerError, PipelineError, StoreMismatch
from latecomer.store.coverage import outputs_to_compute

SOURCE = Path(latecomer.__file__).parent
SENTENCES = {"needs", "reads format", "writes"}
"""Words after `latecomer` that are no verbs of the command line."""


def commands(command: Any = None, name: str = "") -> dict[str, set[str]]:
    """Every verb, and its options."""
    command = command or typer.main.get_command(app)
    options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    found = {name: {option for option in options if option.startswith("--")}}
    for verb, each in getattr(command, "commands", {}).items():
        found |= commands(each, f"{name} {verb}".strip())
    found[name] |= found.get(f"{name} show", set())  # which is what the verb does by itself
    return found


def texts() -> Iterator[tuple[Path, str]]:
    """Every text in the source that is not a docstring; a value that is put in stands as X."""
    for file in sorted(SOURCE.rglob("*.py")):
        if file.name == "servers.py":  # the options of Postgres' own programs
            continue
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        others = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        others |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
                yield file, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and id(node) not in others:
                yield file, str(node.value)


OPTION = r"(?<![\w-])(?<!var\()--[a-z][a-z-]+(?![a-z:-])"
"""An option in a text; a variable of a style sheet, `--ink: black` and `var(--ink)`, is none."""


def test_every_option_that_is_named_exists() -> None:
    verbs = commands()
    of_spark_submit = {"--archives", "--conf", "--properties-file"}
    known = set().union(*verbs.values(), {"--debug", "--quiet", "--help"}, of_spark_submit)
    wrong = []
    for file, text in texts():
        for option in re.findall(OPTION, text):
            if option not in known:
                wrong.append((file.name, option, text))
        for words in re.findall(r"\blatecomer ((?:[a-z-]+ )?[a-z-]+) [A-Z]", text):
            if words in SENTENCES:
                continue
            verb = max((each for each in verbs if each and f"{words} ".startswith(f"{each} ")), default=None)
            named = set(re.findall(OPTION, text.split(f"latecomer {words}", 1)[1]))
            if verb is None or not named <= verbs[verb] | known - set().union(*verbs.values()):
                wrong.append((file.name, words, text))
    assert not wrong


CHANGES = {
    "an aggregate more": (
        "payments: count(*)}\n    allowed",
        "payments: count(*), top: max(paise)}\n    allowed",
    ),
    "an aggregate less": ("{paise: sum(paise), payments: count(*)}", "{paise: sum(paise)}"),
    "another column": ("paise: sum(paise), payments", "paise: sum(shop), payments"),
    "another function": ("payments: count(*)}\n    allowed", "payments: count(fee)}\n    allowed"),
    "another type": ("paise: sum(paise), payments", "paise: avg(paise), payments"),
    "another state": (
        "payments: count(*)}\n    allowed",
        "payments: approx_count_distinct(payer)}\n    allowed",
    ),
    "a filter": (
        "by: [merchant]\n    aggregates: {paise",
        "by: [merchant]\n    where: paise > 5\n    aggregates: {paise",
    ),
    "another window": (
        "window: {tumbling: 1m}\n    by: [merchant]\n",
        "window: {tumbling: 2m}\n    by: [merchant]\n",
    ),
    "sessions": (
        "window: {tumbling: 1m}\n    by: [merchant]\n",
        "window: {session: 2m}\n    by: [merchant]\n",
    ),
    "another key": ("by: [merchant]\n    aggregates: {paise", "by: [payer]\n    aggregates: {paise"),
}


@pytest.fixture
def ran(lake: Lake) -> Lake:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.watermarks(0, [{"tick": 0, "at": 0, "watermark": 0}])
    lines = [{"output": name, "unit": "events"} for name in lake.pipeline.outputs]
    lake.ledger(0, lines)
    return lake


@pytest.mark.parametrize("change", CHANGES)
def test_a_rebuild_is_advised_where_it_is_accepted(change: str, ran: Lake, cli: Cli) -> None:
    before, after = CHANGES[change]
    text = ran.file.read_text(encoding="utf-8")
    assert text.count(before) == 1
    ran.file.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(StoreMismatch) as refused:
        ran.store.pins()
    advised = "latecomer rebuild apply FILE minute_totals --from T" in str(refused.value)
    assert advised == (change in ("another column", "another function", "a filter", "an aggregate more"))
    if advised:
        assert opened_to_rebuild(ran.pipeline, "minute_totals").redefining == "minute_totals"
    # A reader advises the same, and so does a run, before Spark starts.
    for verb in (["results", ran.file, "minute_totals"], ["run", ran.file, "--once"]):
        said = cli(*verb)
        assert ("rebuild apply" in said.err) == advised
        assert said.status == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_new_name_is_always_accepted(change: str, ran: Lake) -> None:
    text = ran.file.read_text(encoding="utf-8").replace(*CHANGES[change])
    ran.file.write_text(text.replace("  minute_totals:", "  renamed:"), encoding="utf-8")
    ran.store.pins()
    assert outputs_to_compute(ran.store) == ["renamed"]


@pytest.mark.parametrize("change", ["another window", "sessions", "another key"])
def test_a_rebuild_that_is_not_advised_says_what_to_do_instead(change: str, ran: Lake) -> None:
    ran.file.write_text(ran.file.read_text(encoding="utf-8").replace(*CHANGES[change]), encoding="utf-8")
    with pytest.raises(PipelineError, match="give the changed output a new name"):
        opened_to_rebuild(ran.pipeline, "minute_totals")


def test_who_has_not_run_the_pipeline_is_told_to(unrun: Lake, cli: Cli) -> None:
    said = cli("results", unrun.file, "minute_totals")
    assert (said.status, "run the pipeline first" in said.err) == (1, True)
    with pytest.raises(LatecomerError):
        opened_to_rebuild(unrun.pipeline, "minute_totals")
