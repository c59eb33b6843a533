"""The table of verbs, which `latecomer --help` prints without loading one of them."""

from __future__ import annotations

import inspect
import re
from decimal import Decimal
from pathlib import Path

import pytest
import typer

import latecomer.cli
from cli import cli_kit
from cli.cli_kit import Cli, Lake
from latecomer.cli import app
from latecomer.cli.verbs import GROUPS, MODULES, VERBS
from latecomer.store.source_turns import write_away


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_listed_with_the_beginning_of_its_own_help(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    assert command.name == name
    paragraph = inspect.cleandoc(command.help).partition("\n\n")[0]
    assert VERBS[name] == " ".join(paragraph.split())


def test_every_verb_stands_once_under_what_it_is_for() -> None:
    assert sorted(name for verbs in GROUPS.values() for name in verbs) == sorted(VERBS)


WITHOUT_A_STORE = {
    *("cluster", "dashboard", "demo", "metrics", "migrate", "registry", "schema", "test"),
    *("snapshot", "move", "upgrade"),
}
"""They read none, or have tests of their own for one that is broken."""


def test_every_verb_that_opens_a_store_is_tried_with_broken_ones() -> None:
    tried = {words[0] for words in (*cli_kit.VERBS.values(), *cli_kit.ON_SPARK.values())}
    assert tried | WITHOUT_A_STORE == set(VERBS)
    assert not tried & WITHOUT_A_STORE


def test_every_module_of_a_verb_is_in_the_table() -> None:
    files = Path(latecomer.cli.__file__).parent.glob("*.py")
    begins = {file.stem: file.read_text(encoding="utf-8").split("\n")[0] for file in files}
    verbs = {module: text for module, text in begins.items() if text.startswith('"""`latecomer ')}
    named = {
        (module, name) for module, text in verbs.items() for name in re.findall("`latecomer ([a-z-]+)", text)
    }
    assert named == {(MODULES.get(name, name.replace("-", "_")), name) for name in VERBS}


def test_status_names_a_source_that_is_away(filled: Lake, cli: Cli) -> None:
    words = "the source could not be asked, or has not caught up since: no silence counts"
    assert words not in cli("status", filled.file).err
    write_away(filled.store.root, frozenset({""}))
    assert words in cli("status", filled.file).err
    write_away(filled.store.root, frozenset())
    assert words not in cli("status", filled.file).err


def test_the_ledger_shows_an_amount_with_the_digits_of_its_column(lake: Lake, cli: Cli) -> None:
    lake.file.write_text(lake.file.read_text().replace("ledger: [paise]", "ledger: [paise, fee]"))
    received = {"events": "12", "paise": "70", "fee": "1234.50"}
    rows = [{"output": "minute_totals", "unit": unit, "received": Decimal(n)} for unit, n in received.items()]
    lake.ledger(0, [{**row, "on_time": row["received"]} for row in rows])
    for form in ([], ["--by-batch"]):
        head, *lines = (line.split() for line in cli("ledger", lake.file, *form).out.splitlines())
        shown = [dict(zip(head, line, strict=True)) for line in lines]
        assert {row["unit"]: row["received"] for row in shown} == received
        assert {row["unit"]: row["dropped"] for row in shown} == {"events": "0", "paise": "0", "fee": "0.00"}


def test_the_ledger_names_offsets_that_were_lost(filled: Lake, cli: Cli) -> None:
    offsets = filled.store.root / "offsets"
    Path(offsets).mkdir()
    Path(offsets, "000000000000.json").write_text(
        '{"since": null, "until": {"lost": {"rides/0": [5, 6], "rides/1": [5, 1205]}}}'
    )
    said = cli("ledger", filled.file).err
    assert "lost at the source, unread: 1 offset of rides/0 (5)\n" in said
    assert "lost at the source, unread: 1,200 offsets of rides/1 (5 to 1204)\n" in said
