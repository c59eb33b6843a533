"""`latecomer reconcile`: results compared with the same results from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Limit,
    OutputName,
    WrongUsage,
    Zoned,
    choose_zone,
    hush_spark,
    load,
    note,
    pairs_of,
    range_of,
)

if TYPE_CHECKING:
    from latecomer.after.reconcile.gaps import Reconciliation
    from latecomer.config.models import Pipeline

LARGEST = 10
"""How many differences are shown by default."""


def reconcile(
    file: File,
    output: OutputName,
    against: Annotated[
        str,
        typer.Option(
            help="log (computed again from it), a Parquet, CSV or Delta path, sqlite:PATH, postgresql://…",
            metavar="SOURCE",
        ),
    ],
    query: Annotated[
        str | None, typer.Option(help="The rows of a database, as one SELECT.", metavar="SQL")
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="A column of the source is the output's, such as ts=window_start.",
            metavar="THEIRS=OURS",
        ),
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option(help="Numbers so near are equal: 0.01, or 1%.", metavar="X")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Only windows that start from here on.", metavar="T")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Only windows that start before.", metavar="T")
    ] = None,
    explained_ok: Annotated[
        bool, typer.Option("--explained-ok", help="Exit 0, too, if the whole gap is explained.")
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(help="Where the results agree, write a certificate of them.", metavar="PATH"),
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Compare results with another account of them, and explain the gap.

    Exit 0 if all windows and keys are equal, 1 if any is not, 2 if they cannot be compared.
    """
    from latecomer.after.reconcile.against import Against
    from latecomer.after.reconcile.gaps import Tolerance
    from latecomer.after.reconcile.reconcile import reconcile as compare

    choose_zone(zone, file, output)
    source = Against(against, query, _names(names or []))
    first, end = range_of(("--from", since), ("--to", until))
    parsed = None if tolerance is None else Tolerance.parse(tolerance)
    pipeline = load(file)
    if source.is_log:
        hush_spark()
    comparison = compare(pipeline, output, source, tolerance=parsed, since=first, until=end, zone=zone)
    _print(comparison, form, limit)
    note(*comparison.notes)
    passed = comparison.equal or (explained_ok and comparison.explained)
    if certificate is not None:
        _certify(comparison, passed, certificate, pipeline)
    if not passed:
        raise typer.Exit(1)


def _names(written: Sequence[str]) -> dict[str, str]:
    names = pairs_of("--map", "THEIRS=OURS", "ts=window_start", written)
    for theirs, ours in names.items():
        if not ours:
            fix = "write it such as --map ts=window_start"
            raise WrongUsage("--map", f"{theirs}=", "is not THEIRS=OURS", fix)
        if list(names.values()).count(ours) > 1:
            raise WrongUsage("--map", f"{theirs}={ours}", "names a column twice", "map each column once")
    return names


def _print(comparison: Reconciliation, form: Format, limit: int | None) -> None:
    from latecomer.cli.render import show

    if form is Format.JSON:
        _print_json(comparison, limit)
    elif form is Format.CSV:
        show(comparison.rows, form, "", limit)
    else:
        _print_text(comparison, LARGEST if limit is None else limit)


def _print_text(comparison: Reconciliation, limit: int) -> None:
    from latecomer.after.reconcile.reconcile import EXPLAINED
    from latecomer.cli.render import changes_in_words, print_table, show

    typer.echo(f"{comparison.output} against {comparison.against}: {changes_in_words(comparison.counts)}")
    if any(gap.gap is not None for gap in comparison.gaps):
        print_table(comparison.totals, short_decimals=True)
    if comparison.rows.num_rows:
        state = "explained" if comparison.explained else "not explained"
        if comparison.explained and comparison.rows[EXPLAINED].null_count:
            state = "explained in total (where explained is empty, by amounts whose windows are not known)"
        typer.echo(f"\nthe gap is {state}; windows and keys that differ, the largest gap first")
        show(comparison.rows, Format.TABLE, "", limit, short_decimals=True)


def _print_json(comparison: Reconciliation, limit: int | None) -> None:
    from latecomer.cli.render import json_table, print_json

    whole = {
        "output": comparison.output,
        "against": comparison.against,
        "equal": comparison.equal,
        "explained": comparison.explained,
        "counts": dict(comparison.counts),
        "totals": json_table(comparison.totals),
        "differences": json_table(comparison.rows, limit),
        "notes": list(comparison.notes),
    }
    print_json(whole)


def _certify(comparison: Reconciliation, passed: bool, path: Path, pipeline: Pipeline) -> None:
    from latecomer.after.certify.certificate import certify
    from latecomer.cli.certify import write

    if passed:
        write(certify(pipeline, comparison.output), "--certificate", path)
    else:
        note("no certificate was written: the results do not agree")
