"""`latecomer reconcile`: results held against another account of the same events."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    moment_of,
)

if TYPE_CHECKING:
    from latecomer.after.reconcile.gaps import Reconciliation

LARGEST = 10
"""So many differences are shown unless given otherwise."""


def reconcile(
    file: File,
    output: OutputName,
    against: Annotated[
        str,
        typer.Option(
            help="log (computed again from it), a Parquet, CSV or Delta path, sqlite:PATH, postgresql://…",
            metavar="SOURCE",
            show_default=False,
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
    from latecomer.after.reconcile.reconcile import reconcile as hold_against
    from latecomer.cli.render import note

    choose_zone(zone, file, output)
    source = Against(against, query, _names(names or []))
    span = [
        None if text is None else moment_of(option, text)
        for option, text in (("--from", since), ("--to", until))
    ]
    room = None if tolerance is None else Tolerance.parse(tolerance)
    pipeline = load(file)
    if source.is_log:
        hush_spark()
    found = hold_against(pipeline, output, source, tolerance=room, since=span[0], until=span[1], zone=zone)
    _print(found, form, limit)
    for remark in found.notes:
        note(remark)
    passed = found.equal or (explained_ok and found.explained)
    if certificate is not None:
        _certify(found, passed, certificate, pipeline)
    if not passed:
        raise typer.Exit(1)


def _names(written: Sequence[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for pair in written:
        theirs, equals, ours = pair.partition("=")
        if not equals or not theirs or not ours:
            fix = "write it such as --map ts=window_start"
            raise WrongUsage("--map", pair, "is not THEIRS=OURS", fix)
        if theirs in names or ours in names.values():
            raise WrongUsage("--map", pair, "names a column twice", "map each column once")
        names[theirs] = ours
    return names


def _print(found: Reconciliation, form: Format, limit: int | None) -> None:
    from latecomer.cli.render import show

    if form is Format.JSON:
        _print_json(found, limit)
    elif form is Format.CSV:
        show(found.rows, form, "", limit)
    else:
        _print_text(found, LARGEST if limit is None else limit)


def _print_text(found: Reconciliation, limit: int) -> None:
    from latecomer.after.reconcile.reconcile import EXPLAINED
    from latecomer.cli.render import changes_in_words, print_table, show

    typer.echo(f"{found.output} against {found.against}: {changes_in_words(found.counts)}")
    if any(gap.gap is not None for gap in found.gaps):
        print_table(found.totals, short_decimals=True)
    if found.rows.num_rows:
        state = "explained" if found.explained else "not explained"
        if found.explained and found.rows[EXPLAINED].null_count:
            state = "explained in total (where explained is empty, by amounts whose windows are not known)"
        typer.echo(f"\nthe gap is {state}; windows and keys that differ, the largest gap first")
        show(found.rows, Format.TABLE, "", limit, short_decimals=True)


def _print_json(found: Reconciliation, limit: int | None) -> None:
    from latecomer.cli.render import json_table

    whole = {
        "output": found.output,
        "against": found.against,
        "equal": found.equal,
        "explained": found.explained,
        "counts": dict(found.counts),
        "totals": json_table(found.totals),
        "differences": json_table(found.rows, limit),
        "notes": list(found.notes),
    }
    json.dump(whole, sys.stdout, ensure_ascii=False, indent=1)
    print()


def _certify(found: Reconciliation, passed: bool, path: Path, pipeline: Any) -> None:
    from latecomer.after.certify.certificate import certify
    from latecomer.cli.certify import write
    from latecomer.cli.render import note

    if passed:
        write(certify(pipeline, found.output), path)
    else:
        note("no certificate was written: the results do not agree")
