"""`latecomer gaps`: what never arrived at all."""

from __future__ import annotations

from typing import Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, open_reader


def gaps(
    file: File,
    producer: Annotated[str | None, typer.Option("--producer", help="Of this producer alone.")] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show which numbers are missing in each producer's count of its events: those never arrived."""
    from latecomer.cli.render import show

    choose_zone(zone, file)
    rows = open_reader(file).gaps(producer)
    whose = "any producer" if producer is None else producer
    show(rows, form, f"nothing is missing between the first and the last number of {whose}", limit)
