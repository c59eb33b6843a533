"""`latecomer replay`: everything computed again from the log, and compared with what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Limit,
    Outputs,
    WrongUsage,
    Zoned,
    hush_spark,
    load,
    note,
    pairs_of,
    print_json,
    show,
)
from latecomer.model.counting import counted
from latecomer.model.zoned import in_zone

if TYPE_CHECKING:
    from latecomer.after.replay.replaying import Replay
    from latecomer.config.models import Pipeline

LARGEST = 10
"""How many differences of an output are shown by default."""


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
    output: Outputs = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Keep the replay in this new folder, as a store to read.", metavar="FOLDER"),
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Compute everything again from the log and compare; with --set, as it would have been.

    The store is only read. Exit 1 if a replay without --set differs from the store.
    """
    from latecomer.after.replay.replaying import replay as replay_pipeline
    from latecomer.model.windows import zone_of

    pipeline = load(file, zone, output[0] if output and len(output) == 1 else None)
    supposed = _changes(changes or [])
    zones = {name: zone or zone_of(each.window) for name, each in pipeline.outputs.items()}
    hush_spark()
    replayed = replay_pipeline(pipeline, changes=supposed, outputs=output or (), to=to)
    if form is Format.JSON:
        _print_json(replayed, supposed, zones, limit)
    elif form is Format.CSV:
        _print_csv(replayed, output or [], limit)
        if replayed.repeated:
            note(_repeated_in_words(replayed.repeated))
    else:
        _print_text(pipeline, replayed, changes or [], zones, LARGEST if limit is None else limit)
    if replayed.exact and not replayed.equal:
        raise typer.Exit(1)


def _changes(written: Sequence[str]) -> dict[str, object]:
    import yaml

    supposed: dict[str, object] = {}
    for field, value in pairs_of("--set", "FIELD=VALUE", "watermark.delay=2m", written).items():
        try:
            supposed[field] = yaml.safe_load(value)
        except yaml.YAMLError:
            fix = "write it as in the pipeline file, in quotes for the shell"
            raise WrongUsage("--set", f"{field}={value}", "has a value that cannot be read", fix) from None
    return supposed


def _print_text(
    pipeline: Pipeline, replayed: Replay, changes: Sequence[str], zones: Mapping[str, str], limit: int
) -> None:
    """In words; the moments of each output in its own zone."""
    import pyarrow.compute as pc

    from latecomer.cli.render import print_table, scales_of
    from latecomer.store.store import open_store

    typer.echo(
        f"replayed {counted(replayed.batches, 'batch')} {'with ' + ', '.join(changes) if changes else 'as they were'}"
    )
    for line in _lines(replayed):
        typer.echo(line)
    if replayed.repeated:
        typer.echo(f"note: {_repeated_in_words(replayed.repeated)}")
    changed = replayed.fates.filter(pc.not_equal(replayed.fates["difference"], 0))
    if changed.num_rows:
        typer.echo("\nwhat became of events")
        print_table(changed, scales=scales_of(open_store(pipeline)))
    for name, output in replayed.outputs.items():
        for what in ("panes", "late rows", "ledger lines") if replayed.exact else ("panes",):
            rows = getattr(output, _PARTS[what]).rows
            if rows.num_rows:
                typer.echo(f"\n{name}: {what}, the largest difference first")
                scales = scales_of(open_store(pipeline)) if what == "ledger lines" else None
                with in_zone(zones[name]):
                    show(rows, Format.TABLE, "", limit, scales=scales)


def _repeated_in_words(count: int) -> str:
    """The note on events that came again after their ids were forgotten."""
    from latecomer.log.repeated import again_in_words

    return (
        f"{again_in_words(count)}. The log holds them as events, and so does the replay: those that are not too late "
        "for it are counted twice. reconcile --against log counts each id once"
    )


_PARTS = {"panes": "panes", "results": "results", "late rows": "late", "ledger lines": "ledger"}


def _lines(replayed: Replay) -> Iterator[str]:
    """One line for each output."""
    from latecomer.cli.render import changes_in_words

    for name, output in replayed.outputs.items():
        counts = {what: getattr(output, part).counts for what, part in _PARTS.items()}
        if output.equal:
            equal = [counted(each["equal"], what.removesuffix("s")) for what, each in counts.items()]
            yield f"{name}: equal ({', '.join(equal)})"
        else:
            yield f"{name}: " + "; ".join(f"{what} {changes_in_words(each)}" for what, each in counts.items())


def _print_csv(replayed: Replay, outputs: Sequence[str], limit: int | None) -> None:
    """The differing panes, if one output was asked for; else a line for each output."""
    rows = replayed.outputs[outputs[0]].panes.rows if len(outputs) == 1 else replayed.summary
    show(rows, Format.CSV, "", limit)


def _print_json(
    replayed: Replay, changes: Mapping[str, object], zones: Mapping[str, str], limit: int | None
) -> None:
    """As one object; the moments of each output in its own zone."""
    from latecomer.cli.render import json_table

    compared: dict[str, object] = {}
    for name, output in replayed.outputs.items():
        with in_zone(zones[name]):
            compared[name] = {
                what: {"counts": dict(each.counts), "differences": json_table(each.rows, limit)}
                for what, each in vars(output).items()
            }
    print_json(
        {
            "exact": replayed.exact,
            "equal": replayed.equal,
            "batches": replayed.batches,
            "repeated": replayed.repeated,
            "changes": changes,
            "outputs": compared,
            "fates": json_table(replayed.fates),
        }
    )
