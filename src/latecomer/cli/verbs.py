"""The verbs and their modules. A module is loaded when its verb is called; `--help` loads none."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

import typer
from typer.core import TyperGroup

GROUPS = {
    "Run": {
        "run": "Run the pipeline until stopped (Ctrl-C finishes the batch under way first).",
        "validate": "Check the pipeline file and the source's columns, and say in words what the pipeline does.",
        "test": "Run transcripts: what must come of an input, checked in milliseconds.",
        "demo": "Run the Diwali scenario: 300,000 payments, one tower sixteen minutes late, four late policies.",
    },
    "Look": {
        "results": "Show the number that stands for each window and key, or that stood at a moment.",
        "panes": "Show every number ever published and every one taken back, in order of publication.",
        "late": "Show the side output: events that were fine, but came too late for their window.",
        "dead-letters": "Show the rows that could not be read as events, and why; or replay them, repaired.",
        "watermarks": "Show the watermark in force for each tick of arrival time, and which partition held it back.",
        "ledger": "Show what was received and what became of it, per output and unit.",
        "gaps": "Show which numbers are missing in each producer's count of its events: those never arrived.",
        "dashboard": "Serve a page that shows what pipelines do now, their windows, lateness, ledgers, and why a "
        "number is what it is.",
    },
    "Ask why": {
        "explain": "Show the life of one number: each pane, when and why it was published, and which events it took "
        "in.",
        "replay": "Compute everything again from the log and compare; with --set, as it would have been.",
        "reconcile": "Compare results with another account of them, and explain the gap.",
        "certify": "Certify the results of closed windows, or check a certificate.",
        "advise": "Measure how late events come, and advise on delay, allowed lateness, idleness and max_future.",
    },
    "Mend": {
        "rebuild": "Compute windows anew from the log, and publish what changed.",
        "correct": "Add up the side output by window and key. Every late event is corrected once.",
        "serving": "Print a view that shows each number with its base and its correction, to be run elsewhere.",
    },
    "Schemas": {
        "schema": "Print the JSON Schema of the pipeline file, for editors that complete and check YAML.",
        "registry": "Serve a schema registry that speaks Confluent's REST interface, or compare schemas with those of "
        "one.",
        "migrate": "Change a schema in a way that breaks readers, in four phases: expand, dual_write, migrate, "
        "contract.",
    },
    "Operate": {
        "status": "Show how far each sink is: its last batch, how many it lacks, since when and why.",
        "check": "Show whether an alert fires, from the store alone. Exit 0: none does; 3: one does; 1: the check "
        "failed.",
        "metrics": "Print the metrics that `run --metrics` serves: as a table, a Grafana dashboard or Prometheus "
        "rules.",
        "compact": "Merge small files, delete dead ones, and remove what `retention` no longer keeps.",
        "snapshot": "Copy a store as of its last complete batch, beside a run or not: a store like any other.",
        "move": "Move a store to another place, and print the line that the pipeline file needs.",
        "upgrade": "Bring a store of an earlier version to the format of this one, step by step.",
        "cluster": "Pack the environment of this process for the executors of a Spark cluster.",
        "doctor": "Check Java, Spark, packages, memory and, with FILE, source, sinks and store. Exit 1 on a problem.",
    },
}
"""The verbs by purpose, in the order of `latecomer --help`, each with the first sentence of its own help."""
if importlib.util.find_spec("latecomer.cli.demo") is None:
    del GROUPS["Run"]["demo"]
_TOGETHER = {
    "tables": ("panes", "late", "watermarks", "ledger", "gaps"),
    "reconcile": ("certify",),
    "corrections": ("correct", "serving"),
    "validate": ("schema",),
    "monitoring": ("status", "check", "dashboard", "metrics"),
    "upkeep": ("compact", "snapshot", "move", "upgrade"),
}
MODULES = {name: module for module, names in _TOGETHER.items() for name in names}
"""The verbs that share a module; any other has the module of its name. A function has the name of its verb."""
VERBS = {name: does for verbs in GROUPS.values() for name, does in verbs.items()}


class Verbs(TyperGroup):
    """The command line, which loads a verb when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast(Any, _Loaded())

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(widest), does) for name, does in verbs.items()])


class _Loaded(Mapping[str, Any]):
    """Verbs by name, each built on its first use."""

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        return _built(name)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def group(name: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """A verb that has verbs of its own."""
    return typer.Typer(cls=cls, help=VERBS[name], no_args_is_help=cls is TyperGroup)


@cache
def _built(name: str) -> Any:
    word = name.replace("-", "_")
    definition = getattr(importlib.import_module(f"latecomer.cli.{MODULES.get(name, word)}"), word)
    if isinstance(definition, typer.Typer):
        command: Any = typer.main.get_group(definition)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(definition)
        command = typer.main.get_command(alone)
    command.name = name
    return command
