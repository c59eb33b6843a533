"""`latecomer certify`: a hash over results that a recomputation from the log reproduces."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    OutputName,
    WrongUsage,
    Zoned,
    choose_zone,
    hush_spark,
    load,
    moment_of,
    note,
    writing,
)
from latecomer.model.zoned import read, written

if TYPE_CHECKING:
    from latecomer.after.certify.certificate import Certificate
    from latecomer.config.models import Pipeline


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
    choose_zone(zone, file, output)
    if check is not None and (at is not None or to is not None):
        option, value = ("--at", at) if at is not None else ("--to", str(to))
        raise WrongUsage(option, value or "", "cannot go with --check", "leave one of the two out")
    pipeline = load(file)
    if check is not None:
        _check(pipeline, output, check, form)
        return
    from latecomer.after.certify.certificate import certify as issue

    certificate = issue(pipeline, output, None if at is None else moment_of("--at", at))
    if to is not None:
        write(certificate, "--to", to)
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


def write(certificate: Certificate, option: str, path: Path) -> None:
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
    from latecomer.cli.render import print_json

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

    from latecomer.cli.render import show

    show(pa.table({"field": list(fields), "value": list(fields.values())}), form, "")
