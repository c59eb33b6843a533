"""The verbs and their modules. A module is loaded when its verb is called; `--help` loads none."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Verb(NamedTuple):
    """The place of a verb, and its line in `latecomer --help`: the first sentence of its own help."""

    module: str
    name: str
    help: str


VERBS: dict[str, Verb] = {
    "run": Verb("run", "run", "Run the pipeline until stopped (Ctrl-C finishes the batch under way first)."),
    "results": Verb(
        "results",
        "results",
        "Show the number that stands for each window and key, or that stood at a moment.",
    ),
    "panes": Verb(
        "panes",
        "panes",
        "Show every number ever published and every one taken back, in order of publication.",
    ),
    "explain": Verb(
        "explain",
        "explain",
        "Show the life of one number: each pane, when and why it was published, and which events it took in.",
    ),
    "late": Verb(
        "late", "late", "Show the side output: events that were fine, but came too late for their window."
    ),
    "dead-letters": Verb(
        "dead_letters",
        "dead_letters",
        "Show the rows that could not be read as events, and why; or replay them, repaired.",
    ),
    "gaps": Verb(
        "gaps",
        "gaps",
        "Show which numbers are missing in each producer's count of its events: those never arrived.",
    ),
    "watermarks": Verb(
        "watermarks",
        "watermarks",
        "Show the watermark in force for each tick of arrival time, and which partition held it back.",
    ),
    "ledger": Verb("ledger", "ledger", "Show what was received and what became of it, per output and unit."),
    "status": Verb(
        "status",
        "status",
        "Show how far each sink is: its last batch, how many it lacks, since when and why.",
    ),
    "check": Verb(
        "check",
        "check",
        "Show whether an alert fires, from the store alone. Exit 0: none does; 3: one does; 1: the check failed.",
    ),
    "dashboard": Verb(
        "dashboard",
        "dashboard",
        "Serve a page that shows what pipelines do now, their windows, lateness, ledgers, and why a number is what "
        "it is.",
    ),
    "correct": Verb(
        "correct", "correct", "Add up the side output by window and key. Every late event is corrected once."
    ),
    "serving": Verb(
        "serving",
        "serving",
        "Print a view that shows each number with its base and its correction, to be run elsewhere.",
    ),
    "rebuild": Verb("rebuild", "rebuild", "Compute windows anew from the log, and publish what changed."),
    "replay": Verb(
        "replay",
        "replay",
        "Compute everything again from the log and compare; with --set, as it would have been.",
    ),
    "reconcile": Verb(
        "reconcile", "reconcile", "Compare results with another account of them, and explain the gap."
    ),
    "certify": Verb("certify", "certify", "Certify the results of closed windows, or check a certificate."),
    "compact": Verb(
        "compact",
        "compact",
        "Merge small files, delete dead ones, and remove what `retention` no longer keeps.",
    ),
    "snapshot": Verb(
        "snapshot",
        "snapshot",
        "Copy a store as of its last complete batch, beside a run or not: a store like any other.",
    ),
    "move": Verb(
        "move",
        "move",
        "Move a store to another place, and print the line that the pipeline file needs.",
    ),
    "upgrade": Verb(
        "upgrade",
        "upgrade",
        "Bring a store of an earlier version to the format of this one, step by step.",
    ),
    "cluster": Verb(
        "cluster", "cluster", "Pack the environment of this process for the executors of a Spark cluster."
    ),
    "registry": Verb(
        "registry",
        "registry",
        "Serve a schema registry that speaks Confluent's REST interface, or compare schemas with those of one.",
    ),
    "advise": Verb(
        "advise",
        "advise",
        "Measure how late events come, and advise on delay, allowed lateness, idleness and max_future.",
    ),
    "migrate": Verb(
        "migrate",
        "migrate",
        "Change a schema in a way that breaks readers, in four phases: expand, dual_write, migrate, contract.",
    ),
    "validate": Verb(
        "validate",
        "validate",
        "Check the pipeline file and the source's columns, and say in words what the pipeline does.",
    ),
    "test": Verb("test", "verify", "Run transcripts: what must come of an input, checked in milliseconds."),
    "schema": Verb(
        "schema",
        "schema",
        "Print the JSON Schema of the pipeline file, for editors that complete and check YAML.",
    ),
    "metrics": Verb(
        "metrics",
        "metrics",
        "Print the metrics that `run --metrics` serves: as a table, a Grafana dashboard or Prometheus rules.",
    ),
    "doctor": Verb(
        "doctor",
        "doctor",
        "Check Java, Spark, packages, memory and, with FILE, source, sinks and store. Exit 1 on a problem.",
    ),
    "demo": Verb(
        "demo",
        "demo",
        "Run the Diwali scenario: 300,000 payments, one tower sixteen minutes late, four late policies.",
    ),
}
GROUPS = {
    "Run": ("run", "validate", "test", "demo"),
    "Look": ("results", "panes", "late", "dead-letters", "watermarks", "ledger", "gaps", "dashboard"),
    "Ask why": ("explain", "replay", "reconcile", "certify", "advise"),
    "Mend": ("rebuild", "correct", "serving"),
    "Schemas": ("schema", "registry", "migrate"),
    "Operate": ("status", "check", "metrics", "compact", "snapshot", "move", "upgrade", "cluster", "doctor"),
}
"""The verbs by purpose, in the order of `latecomer --help`."""
if importlib.util.find_spec("latecomer.cli.demo") is None:
    del VERBS["demo"]


class Verbs(TyperGroup):
    """The command line, which loads a verb when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in GROUPS.values() for name in names if name in VERBS]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(map(len, VERBS))
        for group, names in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(
                    [(name.ljust(widest), VERBS[name].help) for name in names if name in VERBS]
                )


class _Loaded(MutableMapping[str, Any]):
    """Verbs by name, each built on its first use."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _built(name, VERBS[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _built(name: str, verb: Verb) -> Any:
    definition = getattr(importlib.import_module(f"latecomer.cli.{verb.module}"), verb.name)
    if isinstance(definition, typer.Typer):
        command: Any = typer.main.get_group(definition)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(definition)
        command = typer.main.get_command(alone)
    command.name = name
    return command
