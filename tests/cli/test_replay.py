"""`latecomer replay`: what it refuses before Spark starts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cli.cli_kit import Cli, Lake
from latecomer.after.replay.comparison import FATES
from latecomer.after.replay.replaying import Replay
from latecomer.cli import replay

ZONED = """
name: flights
store: ./lake
source:
  files: {path: "arrivals/*.json"}
  schema: {departed: timestamp}
event: {time: departed}
watermark: {delay: 1h}
outputs:
  days: {window: {calendar: day, zone: America/New_York}, aggregates: {flights: count(*)}}
  plain: {window: {tumbling: 1d}, aggregates: {flights: count(*)}}
"""


class Compared(SimpleNamespace):
    """An output that differs."""

    @property
    def equal(self) -> bool:
        return False


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


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ((), ("2013-03-10T00:00:00-05:00", "2013-03-10T05:00:00Z")),
        (("--zone", "Asia/Kolkata"), ("2013-03-10T10:30:00+05:30", "2013-03-10T10:30:00+05:30")),
    ],
)
@pytest.mark.parametrize("form", ["json", "table"])
def test_windows_of_each_output_are_printed_in_its_own_zone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cli: Cli,
    options: tuple[str, ...],
    begins: tuple[str, str],
    form: str,
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(ZONED, encoding="utf-8")
    starts = pa.array([datetime(2013, 3, 10, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    differing = SimpleNamespace(counts={"equal": 0, "changed": 1}, rows=pa.table({"window_start": starts}))
    parts = dict.fromkeys(("panes", "results", "late", "ledger"), differing)
    outputs = {name: Compared(**parts) for name in ("days", "plain")}
    replayed = SimpleNamespace(
        exact=False, equal=False, batches=1, repeated=0, outputs=outputs, fates=pa.table({"difference": [0]})
    )
    monkeypatch.setattr("latecomer.after.replay.replaying.replay", lambda *_, **__: replayed)
    said = cli("replay", file, "--set", "watermark.delay=2h", "-f", form, *options)
    assert said.status == 0, said.err
    if form == "json":
        found = json.loads(said.out)["outputs"]
        assert tuple(found[name]["panes"]["differences"][0]["window_start"] for name in found) == begins
    else:
        assert [begin in said.out for begin in begins] == [True, True]


def test_amounts_have_the_digits_of_their_columns(
    monkeypatch: pytest.MonkeyPatch, filled: Lake, cli: Cli
) -> None:
    amounts = {"events": Decimal(12), "fee": Decimal("1234.50")}
    fates = [
        {"output": "minute_totals", "unit": unit, "fate": "dropped", **dict.fromkeys(FATES.names[3:], amount)}
        for unit, amount in amounts.items()
    ]
    panes = pa.table({"stored_fee": pa.array([Decimal("7.50")])})
    lines = pa.Table.from_pylist(fates, FATES)
    rows = {"panes": panes, "results": panes, "late": panes, "ledger": lines}
    parts = {
        what: SimpleNamespace(counts={"equal": 0}, rows=each, equal=False) for what, each in rows.items()
    }
    outputs: Any = {"minute_totals": Compared(**parts)}
    replayed = Replay(filled.pipeline, True, False, 1, outputs, lines)
    monkeypatch.setattr("latecomer.after.replay.replaying.replay", lambda *_, **__: replayed)
    said = cli("replay", filled.file)
    assert said.status == 1, said.err
    assert re.findall(r"\S*\d\.\d*|\b12\S*", said.out) == [
        *["12"] * 3,
        *["1234.50"] * 3,
        *["7.50"] * 2,
        *["12"] * 3,
        *["1234.50"] * 3,
    ]


@pytest.mark.parametrize("repeated", [0, 606])
def test_events_that_came_again_are_named_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli, repeated: int
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(ZONED, encoding="utf-8")
    fates = pa.table({"difference": [0]})
    replayed = Replay(SimpleNamespace(), False, False, 1, {}, fates, repeated)  # type: ignore[arg-type]
    monkeypatch.setattr("latecomer.after.replay.replaying.replay", lambda *_, **__: replayed)
    note = "606 events came again after their ids were forgotten. The log holds them as events"
    said = cli("replay", file, "--set", "watermark.delay=2h")
    assert (f"note: {note}" in said.out, "came again" in said.out) == (bool(repeated), bool(repeated))
    said = cli("replay", file, "--set", "watermark.delay=2h", "-f", "json")
    assert json.loads(said.out)["repeated"] == repeated
    said = cli("replay", file, "--set", "watermark.delay=2h", "-f", "csv")
    assert ("came again" in said.out, note in said.err) == (False, bool(repeated))


def test_rows_are_counted_as_many_as_there_are() -> None:
    counts = {"panes": 1, "results": 1200, "late": 0, "ledger": 2}
    parts = {name: SimpleNamespace(counts={"equal": count}) for name, count in counts.items()}
    replayed: Any = SimpleNamespace(outputs={"totals": SimpleNamespace(equal=True, **parts)})
    assert list(replay._lines(replayed)) == [
        "totals: equal (1 pane, 1,200 results, 0 late rows, 2 ledger lines)"
    ]
