"""`latecomer reconcile`, `latecomer certify`: results compared with others, or with what is computed again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    From,
    Limit,
    OutputName,
    To,
    WrongUsage,
    Zoned,
    hush_spark,
    load,
    moment_of,
    note,
    pairs_of,
    print_json,
    range_of,
    show,
    writing,
)
from latecomer.model.zoned import read, written

if TYPE_CHECKING:
    from latecomer.after.certify.certificate import Certificate
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
    since: From = None,
    until: To = None,
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

    pipeline = load(file, zone, output)
    source = Against(against, query, _names(names or []))
    first, end = range_of(("--from", since), ("--to", until))
    parsed = None if tolerance is None else Tolerance.parse(tolerance)
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
    if form is Format.JSON:
        _print_json(comparison, limit)
    elif form is Format.CSV:
        show(comparison.rows, form, "", limit)
    else:
        _print_text(comparison, LARGEST if limit is None else limit)


def _print_text(comparison: Reconciliation, limit: int) -> None:
    from latecomer.after.reconcile.reconcile import EXPLAINED
    from latecomer.cli.render import changes_in_words, print_table

    typer.echo(f"{comparison.output} against {comparison.against}: {changes_in_words(comparison.counts)}")
    if any(gap.gap is not None for gap in comparison.gaps):
        print_table(comparison.totals, scales=comparison.scales, scaled_by="aggregate")
    if comparison.rows.num_rows:
        state = "explained" if comparison.explained else "not explained"
        if comparison.explained and comparison.rows[EXPLAINED].null_count:
            state = "explained in total (where explained is empty, by amounts whose windows are not known)"
        typer.echo(f"\nthe gap is {state}; windows and keys that differ, the largest gap first")
        show(comparison.rows, Format.TABLE, "", limit, scales=comparison.scales, scaled_by=None)


def _print_json(comparison: Reconciliation, limit: int | None) -> None:
    from latecomer.cli.render import json_table

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
    from latecomer.after.certify.certificate import certify as issue

    if passed:
        _write(issue(pipeline, comparison.output), "--certificate", path)
    else:
        note("no certificate was written: the results do not agree")


# Certificates


def certify(
    file: File,
    output: OutputName,
    at: Annotated[
        str | None,
        typer.Option(help="Windows closed at this watermark; at the present one by default.", metavar="W"),
    ] = None,
    to: Annotated[Path | None, typer.Option(help="Write the certificate to a file.", metavar="PATH")] = None,
    check: Annotated[
        Path | None,
        typer.Option(help="Compute the certified results again from the log and compare.", metavar="CERT"),
    ] = None,
    form: Formatted = Format.TABLE,
    zone: Zoned = None,
) -> None:
    """Certify the results of closed windows, or check a certificate.

    With --check, exit 0 if the log reproduces the hash, 1 if it does not.
    """
    pipeline = load(file, zone, output)
    if check is not None and (at is not None or to is not None):
        option, value = ("--at", at) if at is not None else ("--to", str(to))
        raise WrongUsage(option, value or "", "cannot go with --check", "leave one of the two out")
    if check is not None:
        _check(pipeline, output, check, form)
        return
    from latecomer.after.certify.certificate import certify as issue

    certificate = issue(pipeline, output, None if at is None else moment_of("--at", at))
    if to is not None:
        _write(certificate, "--to", to)
    if form is Format.JSON:
        typer.echo(certificate.written(), nl=False)
        return
    excluded = "; ".join(f"{name} ({why})" for name, why in certificate.excluded.items())
    _show(
        {
            "output": f"{certificate.output} of pipeline {certificate.pipeline}",
            "watermark": written(read(certificate.watermark)) or "",
            "batches": str(certificate.batches),
            "rows": str(certificate.rows),
            "columns": ", ".join(certificate.columns),
            "not hashed": excluded or "-",
            "sha256": certificate.sha256,
        },
        form,
    )


def _write(certificate: Certificate, option: str, path: Path) -> None:
    """Write a certificate to the file of an option: whole, or not at all."""
    if path.is_dir():
        raise WrongUsage(option, str(path), "is a folder", "name a file")
    draft = path.with_name(path.name + ".part")
    with writing(option, path):
        try:
            draft.write_text(certificate.written(), encoding="utf-8")
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink()
            raise


def _check(pipeline: Pipeline, output: str, path: Path, form: Format) -> None:
    from latecomer.after.certify.certificate import check, read_certificate

    certificate = read_certificate(path)
    hush_spark()
    checked = check(pipeline, output, certificate)
    fields = {
        "reproduced": "yes" if checked.reproduced else "no",
        "watermark": written(read(certificate.watermark)) or "",
        "batches": str(certificate.batches),
        "rows certified": str(certificate.rows),
        "rows by the log": str(checked.rows),
        "sha256 certified": certificate.sha256,
        "sha256 by the log": checked.sha256,
    }
    if form is Format.JSON:
        whole = {
            "reproduced": checked.reproduced,
            "stands": checked.stands,
            "certified": {"rows": certificate.rows, "sha256": certificate.sha256},
            "recomputed": {"rows": checked.rows, "sha256": checked.sha256},
        }
        print_json(whole)
    else:
        _show(fields, form)
    if not checked.stands:
        note("the store's results of these windows are no longer those that were certified")
    if not checked.reproduced:
        raise typer.Exit(1)


def _show(fields: dict[str, str], form: Format) -> None:
    import pyarrow as pa

    show(pa.table({"field": list(fields), "value": list(fields.values())}), form, "")
