"""`latecomer replay`: what it refuses before Spark starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.cli_kit import Cli, Lake
from latecomer.cli import replay

WRONG = {
    "watermark.dely=2m": ("watermark.dely: unknown key", "did you mean delay?"),
    "watermark.delay=2x": ("watermark.delay: ", "(value: '2x')"),
    "watermark.strategy=bounden": ("watermark.strategy: unknown strategy", "'bounded'"),
    "watermark.max_future=1h": ("watermark.max_future: cannot change", "new store"),
    "outputs.minute_totls.late=drop": (
        "no such output (value: 'minute_totls')",
        "did you mean minute_totals?",
    ),
    "outputs.minute_totals.late=dropp": ("outputs.minute_totals.late: is not one of the choices", "'drop'"),
    "outputs.minute_totals.window.tumbling=0s": ("outputs.minute_totals.window", "(value: '0s')"),
    "outputs.minute_totals.sinks=[]": ("outputs.minute_totals.sinks", "leave it out"),
    "outputs.minute_totals.late_to=[]": ("outputs.minute_totals.late_to", "leave it out"),
    "dead_letters_to=[]": ("dead_letters_to", "leave it out"),
    "outputs.minute_totals.accumulation=discarding": (
        "late: retract takes back",
        "fix: leave accumulation out",
    ),
    "outputs=1": ("names no output and no field", "outputs.NAME.FIELD"),
    "event.time=other": ("event.time: cannot change in a replay", "change watermark or outputs"),
    "watermrk.delay=2m": ("watermrk.delay: unknown key", "did you mean watermark?"),
}


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_setting_is_told_with_field_value_and_fix(unrun: Lake, cli: Cli, change: str) -> None:
    said = cli("replay", unrun.file, "--from-log", "--set", change)
    message, fix = WRONG[change]
    assert said.status == 2
    assert message in said.err
    assert fix in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (("--set", "watermark.delay"), "is not FIELD=VALUE"),
        (("--set", "watermark.delay={"), "cannot be read"),
        (("--set", "watermark.delay=1s", "--set", "watermark.delay=2s"), "gives watermark.delay twice"),
        (("--output", "minute_totls"), "did you mean minute_totals?"),
        (("--format", "xml"), "--format"),
        (("--to", "ftp://bucket/replayed"), "ftp is not supported"),
    ],
)
def test_wrong_options(unrun: Lake, cli: Cli, options: tuple[str, ...], outcome: str) -> None:
    said = cli("replay", unrun.file, *options)
    assert said.status == 2
    assert outcome in said.err


def test_without_a_complete_batch_there_is_nothing_to_replay(unrun: Lake, cli: Cli) -> None:
    said = cli("replay", unrun.file)
    assert said.status == 1
    assert "there is no store" in said.err
    unrun.store.pin()
    said = cli("replay", unrun.file)
    assert said.status == 1
    assert "has no complete batch yet" in said.err
    assert sorted(path.name for path in Path(unrun.store.root).iterdir()) == ["pipeline.json"]


def test_rows_are_counted_as_many_as_there_are() -> None:
    counts = {"panes": 1, "results": 1200, "late": 0, "ledger": 2}
    parts = {name: SimpleNamespace(counts={"equal": count}) for name, count in counts.items()}
    replayed: Any = SimpleNamespace(outputs={"totals": SimpleNamespace(equal=True, **parts)})
    assert list(replay._lines(replayed)) == [
        "totals: equal (1 pane, 1,200 results, 0 late rows, 2 ledger lines)"
    ]
