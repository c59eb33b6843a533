"""`latecomer dead-letters`: what is no event; and `dead-letters replay`, which takes it in again, repaired."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

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
    open_reader,
)
from latecomer.model.counting import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.after.letters.replaying import ReplayedLetters
    from latecomer.after.reading.reader import Reader

BYTES = "raw_bytes"
_SHOW = "show"
_HELP = ("-h", "--help")


class _ShowByDefault(TyperGroup):
    """`dead-letters FILE` shows them, as `dead-letters show FILE` does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in _HELP):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


dead_letters = typer.Typer(
    cls=_ShowByDefault,
    help="Show the rows that could not be read as events, and why; or replay them, repaired.",
    context_settings={"help_option_names": list(_HELP)},
)


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
        CountedBy | None,
        typer.Option("--by", help="Count them by this instead, with an example of each.", show_default=False),
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show the rows that could not be read as events, and why; and the events that an output cannot compute.
    `dead-letters FILE` does the same."""
    from latecomer.cli.render import show

    choose_zone(zone, file)
    reader = open_reader(file)
    if by is not None:
        show(reader.dead_letters_by(by.value), form, _NONE, limit)
    else:
        show(with_bytes_shown(reader.dead_letters(), form), form, _NONE, limit)
    if form is Format.TABLE:
        _print_failed(reader, file)


Where = Annotated[
    str | None,
    typer.Option("--where", help="Replay only those of which this SQL condition is true.", metavar="SQL"),
]
Fixes = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        help="How the event time is written (format=PATTERN or unit=s|ms|us|ns), SQL for a column "
        "(column:NAME=SQL) or for the record (raw=SQL), or a file of corrected records (text=FILE). "
        "May be given several times.",
        metavar="KEY=VALUE",
    ),
]
FromSource = Annotated[
    str | None,
    typer.Option("--source", help="Replay those of this source, where several have any.", metavar="NAME"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would become of them, and change nothing.")]


@dead_letters.command("replay")
def replay(
    file: File,
    where: Where = None,
    fixes: Fixes = None,
    source: FromSource = None,
    dry_run: DryRun = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Take dead letters in again, repaired: a batch of their own, in which each is an event that arrives now.

    Those that are still wrong stay dead letters, and have their newest reason. What was taken in is not taken in again.
    """
    from latecomer.after.letters.fixing import asked_for
    from latecomer.after.letters.replaying import replay_letters

    choose_zone(zone, file)
    place = "dead-letters replay"
    choice, fix = asked_for(where, fixes_of(fixes or ()), place, source)
    pipeline = load(file)
    hush_spark()
    found = replay_letters(pipeline, choice, fix, dry_run=dry_run, place=place)
    if form is Format.TABLE and found.completed is not None:
        print(f"a replay that was interrupted is complete: batch {found.completed}")
    if form is Format.TABLE and not found.picked:
        _print_none(open_reader(file), where, file)
    elif form is Format.TABLE:
        _print_people(found, dry_run, limit)
    elif form is Format.JSON:
        _print_json(found, dry_run)
    else:
        from latecomer.cli.render import show

        show(found.still_dead, form, "", limit)


def fixes_of(pairs: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Fixes as they are written in --fix options."""
    fixes: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise WrongUsage(
                "--fix", pair, "is not KEY=VALUE", "write it such as --fix 'format=dd/MM/yyyy HH:mm'"
            )
        if key in fixes:
            raise WrongUsage("--fix", pair, f"gives {key} twice", "give each of them once")
        fixes[key] = value
    return fixes


def _print_people(found: ReplayedLetters, dry_run: bool, limit: int | None) -> None:
    from latecomer.cli.render import show

    dead = found.still_dead.num_rows
    would = f"{'would become' if dry_run else 'became'} {'an event' if found.events == 1 else 'events'}"
    stay = "would stay" if dry_run else "stays" if dead == 1 else "stay"
    print(f"{counted(found.picked, 'dead letter')} picked up: {found.events:,} {would}, {dead:,} {stay} dead")
    if dead:
        print()
        show(found.still_dead, Format.TABLE, "", limit)
    if found.batch is not None and found.events:
        print(f"\ntaken in as batch {found.batch}")
        show(_fates(found), Format.TABLE, "")
    elif not dry_run:
        print("\nnothing was taken in")


def _print_none(reader: Reader, where: str | None, file: Path) -> None:
    """That no dead letter was picked up: there is none, or none of which the condition is true."""
    there = sum(
        row["dead_letters"] for row in reader.dead_letters_by("output").to_pylist() if row["output"] is None
    )
    if there and where is not None:
        print(
            f"{counted(there, 'dead letter')}, and none of which --where is true: {where}; "
            f"latecomer dead-letters {file} shows them"
        )
    else:
        print("there are no dead letters to replay")
        _print_failed(reader, file)


def _print_failed(reader: Reader, file: Path) -> None:
    """What can be done about events that an output cannot compute."""
    from latecomer.model.zoned import written

    for name, (count, since) in reader.failed().items():
        events, them = ("1 event is", "it") if count == 1 else (f"{count:,} events are", "them")
        print(
            f"\n{events} in the log and cannot be computed for output {name}: correct its expression in {file}; then "
            f"latecomer rebuild apply {file} {name} --from {written(since)} takes {them} in"
        )


def _fates(found: ReplayedLetters) -> pa.Table:
    """What became of the events, output by output."""
    import pyarrow as pa

    from latecomer.model.ledger import EVENTS
    from latecomer.model.verdicts import Fate

    rows = [
        {"output": entry.output, **{fate.value: int(entry.fates.get(fate, 0)) for fate in Fate}}
        for entry in found.entries
        if entry.unit == EVENTS
    ]
    return pa.Table.from_pylist(rows)


def _print_json(found: ReplayedLetters, dry_run: bool) -> None:
    from latecomer.model.written_values import json_rows
    from latecomer.model.zoned import current_zone

    document: dict[str, Any] = {
        "dry_run": dry_run,
        "picked": found.picked,
        "events": found.events,
        "batch": found.batch,
        "completed": found.completed,
        "still_dead": list(json_rows(found.still_dead, current_zone())),
        "outputs": _fates(found).to_pylist(),
    }
    print(json.dumps(document, indent=1, ensure_ascii=False))


def with_bytes_shown(rows: pa.Table, form: Format) -> pa.Table:
    """Bytes that are not text as text with escapes; in a table for people in the place of the raw text."""
    import pyarrow as pa

    if BYTES not in rows.schema.names:  # a store of an earlier version
        return rows
    place = rows.schema.get_field_index(BYTES)
    shown = [None if raw is None else escaped(raw) for raw in rows[BYTES].to_pylist()]
    if form is not Format.TABLE:
        return rows.set_column(place, BYTES, pa.array(shown, pa.string()))
    texts = [text if raw is None else raw for text, raw in zip(rows["raw"].to_pylist(), shown, strict=True)]
    people = rows.set_column(rows.schema.get_field_index("raw"), "raw", pa.array(texts, pa.string()))
    return people.drop_columns([BYTES])


def escaped(raw: bytes) -> str:
    r"""Bytes as text: what is UTF-8 as it is, any other byte as \xNN, a backslash as two.

    >>> print(escaped(b"caf\xe9 \\"))
    caf\xe9 \\
    """
    return raw.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
