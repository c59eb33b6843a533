"""`latecomer ledger`: the proof that nothing was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, hush_spark, load

if TYPE_CHECKING:
    from latecomer.reader import Reader


def ledger(
    file: File,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the ledger with the tables; exit 1 if they differ.")
    ] = False,
    by_batch: Annotated[bool, typer.Option("--by-batch", help="Every line, not the totals.")] = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
) -> None:
    """Show what was received and what became of it, per output and unit."""
    from latecomer.cli.render import show
    from latecomer.reader import Reader

    reader = Reader(load(file))
    if check:
        _check(reader)
        return
    rows = reader.ledger() if by_batch else reader.ledger_totals()
    show(rows, form, "the ledger is empty: nothing has been received", limit, short_decimals=True)


def _check(reader: Reader) -> None:
    from latecomer.ledger.check import check_ledger

    hush_spark()
    totals = reader.ledger_totals().to_pylist()
    differences = check_ledger(reader.pipeline)
    if differences:
        typer.echo("the ledger does not balance:")
        for difference in differences:
            typer.echo(f"  {difference}")
        raise typer.Exit(1)
    outputs = {row["output"] for row in totals}
    units = {row["unit"] for row in totals}
    received = max((int(row["received"]) for row in totals if row["unit"] == "events"), default=0)
    typer.echo(
        f"the ledger balances: {_counted(reader.batches(), 'batch', 'batches')}, "
        f"{_counted(len(outputs), 'output', 'outputs')}, {_counted(len(units), 'unit', 'units')}, "
        f"{_counted(received, 'event', 'events')} received"
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
