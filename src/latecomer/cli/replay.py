"""`latecomer replay`: everything computed again from the log, and held against what is stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Limit,
    WrongUsage,
    Zoned,
    choose_zone,
    hush_spark,
    load,
)
from latecomer.model.counting import counted

if TYPE_CHECKING:
    from latecomer.after.replay.replaying import Replay

LARGEST = 10
"""So many differences of an output are shown unless given otherwise."""


def replay(
    file: File,
    from_log: Annotated[
        bool, typer.Option("--from-log", help="Compute from the event log; there is no other way yet.")
    ] = True,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Suppose another setting, such as watermark.delay=2m.", metavar="FIELD=VALUE"
        ),
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option("--output", "-o", help="Only this output.", metavar="NAME")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Keep the replay in this new folder, as a store to read.", metavar="FOLDER"),
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Compute everything again from the log and compare; with --set, as it would have been.

    The store is only read. Exit 1 if a replay without --set says anything else than the store.
    """
    from latecomer.after.replay.replaying import replay as replay_pipeline

    choose_zone(zone, file, output[0] if output and len(output) == 1 else None)
    supposed = _changes(changes or [])
    pipeline = load(file)
    hush_spark()
    found = replay_pipeline(pipeline, changes=supposed, outputs=output or (), to=to)
    if form is Format.JSON:
        _print_json(found, supposed, limit)
    elif form is Format.CSV:
        _print_csv(found, output or [], limit)
    else:
        _print_text(found, changes or [], LARGEST if limit is None else limit)
    if found.exact and not found.equal:
        raise typer.Exit(1)


def _changes(written: Sequence[str]) -> dict[str, object]:
    supposed: dict[str, object] = {}
    for field, value in map(_change, written):
        if field in supposed:
            raise WrongUsage("--set", field, "is set twice", "give each field one value")
        supposed[field] = value
    return supposed


def _change(written: str) -> tuple[str, object]:
    import yaml

    field, equals, value = written.partition("=")
    if not equals or not field:
        raise WrongUsage("--set", written, "is not FIELD=VALUE", "write it such as --set watermark.delay=2m")
    try:
        return field, yaml.safe_load(value)
    except yaml.YAMLError:
        fix = "write it as in the pipeline file, in quotes for the shell"
        raise WrongUsage("--set", written, "has a value that cannot be read", fix) from None


def _print_text(found: Replay, changes: Sequence[str], limit: int) -> None:
    import pyarrow.compute as pc

    from latecomer.cli.render import print_table, show

    typer.echo(
        f"replayed {counted(found.batches, 'batch')} {'with ' + ', '.join(changes) if changes else 'as they were'}"
    )
    for line in _lines(found):
        typer.echo(line)
    moved = found.fates.filter(pc.not_equal(found.fates["difference"], 0))
    if moved.num_rows:
        typer.echo("\nwhat became of events")
        print_table(moved, short_decimals=True)
    for name, output in found.outputs.items():
        for what in ("panes", "late rows", "ledger lines") if found.exact else ("panes",):
            rows = getattr(output, _PARTS[what]).rows
            if rows.num_rows:
                typer.echo(f"\n{name}: {what}, the largest difference first")
                show(rows, Format.TABLE, "", limit, short_decimals=True)


_PARTS = {"panes": "panes", "results": "results", "late rows": "late", "ledger lines": "ledger"}


def _lines(found: Replay) -> Iterator[str]:
    """One line an output."""
    from latecomer.cli.render import changes_in_words

    for name, output in found.outputs.items():
        counts = {what: getattr(output, part).counts for what, part in _PARTS.items()}
        if output.equal:
            counted = ", ".join(f"{each['equal']} {what}" for what, each in counts.items())
            yield f"{name}: equal ({counted})"
        else:
            yield f"{name}: " + "; ".join(f"{what} {changes_in_words(each)}" for what, each in counts.items())


def _print_csv(found: Replay, outputs: Sequence[str], limit: int | None) -> None:
    """The panes that differ of the one output asked for, else a line for each output."""
    from latecomer.cli.render import show

    rows = found.outputs[outputs[0]].panes.rows if len(outputs) == 1 else found.summary
    show(rows, Format.CSV, "", limit)


def _print_json(found: Replay, changes: Mapping[str, object], limit: int | None) -> None:
    from latecomer.cli.render import json_table

    compared = {
        name: {
            what: {"counts": dict(each.counts), "differences": json_table(each.rows, limit)}
            for what, each in vars(output).items()
        }
        for name, output in found.outputs.items()
    }
    whole = {
        "exact": found.exact,
        "equal": found.equal,
        "batches": found.batches,
        "changes": changes,
        "outputs": compared,
        "fates": json_table(found.fates),
    }
    json.dump(whole, sys.stdout, ensure_ascii=False, indent=1, default=str)
    print()
