"""`latecomer dead-letters`: what is no event; and `dead-letters replay`, which takes it in again, repaired."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from latecomer.cli.options import (
    HELP,
    DryRun,
    File,
    Format,
    Formatted,
    Limit,
    Zoned,
    command,
    hush_spark,
    load,
    open_reader,
    pairs_of,
    print_json,
    show,
)
from latecomer.cli.verbs import group
from latecomer.model.counting import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.after.letters.replaying import ReplayedLetters
    from latecomer.after.reading.reader import Reader

BYTES = "raw_bytes"
_SHOW = "show"


class _ShowByDefault(TyperGroup):
    """`dead-letters FILE` shows them, as `dead-letters show FILE` does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in HELP["help_option_names"]):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


dead_letters = group("dead-letters", _ShowByDefault)


class CountedBy(StrEnum):
    """What dead letters are counted by."""

    REASON = "reason"
    OUTPUT = "output"
    ORIGIN = "origin"
    BATCH = "batch"


_NONE = "there are no dead letters"


@dead_letters.command(_SHOW)
def show_letters(
    file: File,
    by: Annotated[
        CountedBy | None, typer.Option("--by", help="Count them by this instead, with an example of each.")
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show the rows that could not be read as events, and why; and the events that an output cannot compute.
    `dead-letters FILE` does the same."""
    reader = open_reader(file, zone)
    if by is not None:
        show(reader.dead_letters_by(by.value), form, _NONE, limit)
    else:
        show(with_bytes_shown(reader.dead_letters(), form), form, _NONE, limit)
    if form is Format.TABLE:
        _print_failed(reader, file)


@dead_letters.command("replay")
def replay(
    file: File,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", help="Replay only those for which this SQL condition is true.", metavar="SQL"
        ),
    ] = None,
    fixes: Annotated[
        list[str] | None,
        typer.Option(
            "--fix",
            help="How the event time is written (format=PATTERN or unit=s|ms|us|ns), SQL for a column "
            "(column:NAME=SQL) or for the record (raw=SQL), or a file of corrected records (text=FILE). "
            "May be given several times.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", help="Replay those of this source, if several sources have some.", metavar="NAME"
        ),
    ] = None,
    dry_run: DryRun = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Take dead letters in again, repaired: a batch of their own, in which each is an event that arrives now.

    Those that are still wrong stay dead letters, with their newest reason. A dead letter is taken in once.
    """
    from latecomer.after.letters.choosing import asked_for
    from latecomer.after.letters.replaying import replay_letters
    from latecomer.after.reading.reader import Reader

    pipeline = load(file, zone)
    place = "dead-letters replay"
    given = pairs_of("--fix", "KEY=VALUE", "'format=dd/MM/yyyy HH:mm'", fixes or ())
    choice, fix = asked_for(where, given, place, source)
    hush_spark()
    replayed = replay_letters(pipeline, choice, fix, dry_run=dry_run, place=place)
    if form is Format.TABLE and replayed.completed is not None:
        print(f"a replay that was interrupted is complete: batch {replayed.completed}")
    if form is Format.TABLE and not replayed.picked:
        _print_nothing_picked(Reader(pipeline), where, file)
    elif form is Format.TABLE:
        _print_report(replayed, dry_run, limit)
    elif form is Format.JSON:
        _print_json(replayed, dry_run)
    else:
        show(replayed.still_dead, form, "", limit)


def _print_report(replayed: ReplayedLetters, dry_run: bool, limit: int | None) -> None:
    dead = replayed.still_dead.num_rows
    would = f"{'would become' if dry_run else 'became'} {'an event' if replayed.events == 1 else 'events'}"
    stay = "would stay" if dry_run else "stays" if dead == 1 else "stay"
    print(
        f"{counted(replayed.picked, 'dead letter')} picked up: {replayed.events:,} {would}, {dead:,} {stay} dead"
    )
    if dead:
        print()
        show(replayed.still_dead, Format.TABLE, "", limit)
    if replayed.batch is not None and replayed.events:
        print(f"\ntaken in as batch {replayed.batch}")
        show(_fates(replayed), Format.TABLE, "")
    elif replayed.batch is not None:
        print(f"\nno event was taken in; the new reasons are stored as batch {replayed.batch}")
    elif not dry_run:
        print("\nnothing was changed")


def _print_nothing_picked(reader: Reader, where: str | None, file: Path) -> None:
    """Say why no dead letter was picked up: there is none, or none for which the condition is true."""
    total = sum(
        row["dead_letters"] for row in reader.dead_letters_by("output").to_pylist() if row["output"] is None
    )
    if total and where is not None:
        print(
            f"{counted(total, 'dead letter')}, and --where is true for none: {where}; "
            f"{command('dead-letters', file)} shows them"
        )
    else:
        print("there are no dead letters to replay")
        _print_failed(reader, file)


def _print_failed(reader: Reader, file: Path) -> None:
    """Say what to do about events that an output cannot compute."""
    from latecomer.model.zoned import written

    for name, (count, since) in reader.failed().items():
        events, them = ("1 event is", "it") if count == 1 else (f"{count:,} events are", "them")
        print(
            f"\n{events} in the log and cannot be computed for output {name}: correct its expression in {file}; then "
            f"{command('rebuild', 'apply', file, name, '--from', written(since))} takes {them} in"
        )


def _fates(replayed: ReplayedLetters) -> pa.Table:
    """What became of the events, output by output."""
    import pyarrow as pa

    from latecomer.model.ledger import EVENTS
    from latecomer.model.verdicts import Fate

    rows = [
        {"output": entry.output, **{fate.value: int(entry.fates.get(fate, 0)) for fate in Fate}}
        for entry in replayed.entries
        if entry.unit == EVENTS
    ]
    return pa.Table.from_pylist(rows)


def _print_json(replayed: ReplayedLetters, dry_run: bool) -> None:
    from latecomer.cli.render import json_table

    document = {
        "dry_run": dry_run,
        "picked": replayed.picked,
        "events": replayed.events,
        "batch": replayed.batch,
        "completed": replayed.completed,
        "still_dead": json_table(replayed.still_dead),
        "outputs": _fates(replayed).to_pylist(),
    }
    print_json(document)


def with_bytes_shown(rows: pa.Table, form: Format) -> pa.Table:
    """Show bytes that are not text with escapes; a table shows them instead of the raw text."""
    import pyarrow as pa

    if BYTES not in rows.schema.names:  # a store of an earlier version
        return rows
    place = rows.schema.get_field_index(BYTES)
    shown = [None if raw is None else escaped(raw) for raw in rows[BYTES].to_pylist()]
    if form is not Format.TABLE:
        return rows.set_column(place, BYTES, pa.array(shown, pa.string()))
    texts = [text if raw is None else raw for text, raw in zip(rows["raw"].to_pylist(), shown, strict=True)]
    readable = rows.set_column(rows.schema.get_field_index("raw"), "raw", pa.array(texts, pa.string()))
    return readable.drop_columns([BYTES])


def escaped(raw: bytes) -> str:
    r"""Bytes as text: UTF-8 as it is, any other byte as \xNN, a backslash doubled.

    >>> print(escaped(b"caf\xe9 \\"))
    caf\xe9 \\
    """
    return raw.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
