"""What `validate` warns of: a lateness that has no effect, and a source that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.cli_kit import Cli
from cli.validate_kit import UNDECLARED, arrive


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("late: update", "outputs.totals.late: never happens"),
        ("late: retract", "outputs.totals.late: never happens"),
        ("late: side_output\n    too_late: drop", "outputs.totals.late: never happens"),
        ("trigger: {late: every 30s}", "outputs.totals.trigger.late: never happens"),
        ("late: retract\n    trigger: {early: 1m}", None),
        ("late: drop", None),
        ("late: side_output", None),
    ],
)
def test_what_never_happens_for_want_of_a_lateness_is_told(
    undeclared: Path, cli: Cli, written: str, field: str | None
) -> None:
    late = "    allowed_lateness: 5m\n    late: update\n"
    text = UNDECLARED.replace(late, f"    {written}\n").replace(", idle_after: 2m", "")
    undeclared.write_text(text, encoding="utf-8")
    said = cli("validate", undeclared)
    assert said.status == 0
    assert said.err.count("never happens") == (field is not None)
    if field is not None:
        assert f"warning: {undeclared}:13: {field}" in said.err
        assert "events that come after their window has closed" in said.err
        assert "fix: write allowed_lateness: 1h" in said.err
    undeclared.write_text(UNDECLARED, encoding="utf-8")
    assert "never happens" not in cli("validate", undeclared).err


def test_a_lateness_that_changes_nothing_is_told(undeclared: Path, cli: Cli) -> None:
    late = "    allowed_lateness: 5m\n    late: update\n"
    undeclared.write_text(UNDECLARED.replace(late, "    allowed_lateness: 5m\n"), encoding="utf-8")
    outcome = cli("validate", undeclared).err
    assert f"warning: {undeclared}:13: outputs.totals.allowed_lateness: changes nothing" in outcome
    assert "late events go to the side output, however late they are" in outcome
    undeclared.write_text(UNDECLARED.replace("late: update", "too_late: drop"), encoding="utf-8")
    assert "changes nothing" not in cli("validate", undeclared).err


def test_a_folder_of_the_source_that_does_not_exist_is_a_warning(undeclared: Path, cli: Cli) -> None:
    said = cli("validate", undeclared)
    assert said.status == 0
    folder = undeclared.parent / "arrivals"
    assert (
        f"warning: source folder {folder} does not exist; create it, or correct source.files.path" in said.err
    )
    folder.mkdir()
    assert "does not exist" not in cli("validate", undeclared).err


def test_a_header_without_declared_columns_is_told(undeclared: Path, cli: Cli) -> None:
    folder = undeclared.parent / "arrivals"
    folder.mkdir()
    schema = "{at: string, arrived: string, tower: string, merchant: string, paise: int}"
    written = f"{{files: {{path: arrivals, format: csv, order_by: arrived}}, schema: {schema}}}"
    text = UNDECLARED.replace('{files: {path: "arrivals/*.json", order_by: arrived}}', written)
    undeclared.write_text(text, encoding="utf-8")
    (folder / "1.csv").write_text("at;arrived;merchant;tower\n")
    said = cli("validate", undeclared)
    assert (
        f"warning: '{folder}/1.csv' is not read: the header 'at;arrived;merchant;tower' names none"
        in said.err
    )
    assert said.err.endswith('set source.files.delimiter: ";"\n')
    assert "not in the header" not in said.out
    undeclared.write_text(text.replace("csv,", "csv, delimiter: ';',"), encoding="utf-8")
    said = cli("validate", undeclared)
    assert "is not read" not in said.err
    assert f"\n           not in the header of {folder}/1.csv: paise\n" in said.out


def test_a_file_of_the_source_that_cannot_be_read_is_a_warning(
    undeclared: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(undeclared.parent, at="2026-04-25T12:00:00Z", arrived="a", tower="n", merchant="a", paise=1)
    file = undeclared.parent / "arrivals" / "1.json"
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, *mode, **more: str(path) != str(file) and allowed(path, *mode, **more)
    )
    said = cli("validate", undeclared)
    assert said.status == 0
    assert f"warning: source file {file} cannot be read: permission is denied; give " in said.err
