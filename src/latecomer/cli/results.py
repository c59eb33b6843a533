"""`latecomer results`: the numbers that stand."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.after.reading.choices import Clock, Origin
from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Keys,
    Limit,
    OutputName,
    WrongUsage,
    Zoned,
    command,
    key_of,
    moment_of,
    note,
    open_reader,
    show,
)
from latecomer.model.words import key_in_words

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from latecomer.after.reading.reader import Reader

LOG = logging.getLogger(__name__)


def results(
    file: File,
    output: OutputName,
    open_windows: Annotated[bool, typer.Option("--open", help="Also show windows still open.")] = False,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="T",
            help="What stood at this moment of the wall clock: what had been published.",
        ),
    ] = None,
    as_of_arrival: Annotated[
        str | None,
        typer.Option(
            "--as-of-arrival",
            metavar="T",
            help="What could have stood at this moment of the arrival clock: what had arrived.",
        ),
    ] = None,
    clock: Annotated[
        Clock | None,
        typer.Option(help="Deprecated: --as-of T --clock arrival is --as-of-arrival T.", hidden=True),
    ] = None,
    valid_at: Annotated[
        str | None,
        typer.Option("--valid-at", metavar="T", help="Only the windows that hold this moment of event time."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="The same as --valid-at; other verbs call it so.", metavar="T")
    ] = None,
    key: Keys = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="Base plus correction, and both of them.")
    ] = False,
    prefer: Annotated[
        Origin | None,
        typer.Option(help="The number of this origin where it has one; a column names the origin."),
    ] = None,
    nowcast: Annotated[
        bool,
        typer.Option(
            "--nowcast",
            help="Open and recently closed windows: how complete they are, and what they will probably be.",
        ),
    ] = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show the number that stands for each window and key, or that stood at a moment."""
    reader = open_reader(file, zone, output)
    if clock is not None:
        as_of, as_of_arrival = _by_clock(clock, as_of, as_of_arrival)
    texts = {"--as-of": as_of, "--as-of-arrival": as_of_arrival}
    published, arrived = (None if text is None else moment_of(name, text) for name, text in texts.items())
    if window is not None and valid_at is not None:
        raise WrongUsage("--window", window, "means the same as --valid-at", "give one of the two")
    option, valid_text = ("--window", window) if valid_at is None else ("--valid-at", valid_at)
    valid = None if valid_text is None else moment_of(option, valid_text)
    key_values = key_of(key)
    if as_of is not None and as_of_arrival is not None:
        raise WrongUsage(
            "--as-of", as_of, "goes by another clock than --as-of-arrival", "give one of the two"
        )
    moment = next(((option, text) for option, text in texts.items() if text is not None), None)
    if moment is not None and open_windows:
        fix = "leave --open out: panes published by then are shown, EARLY ones too"
        raise WrongUsage(*moment, "cannot be asked of windows still open", fix)
    if nowcast:
        from latecomer.observe.nowcast.nowcasting import nowcast as nowcast_of

        _require_alone("--nowcast", {"--serving": serving, "--prefer": prefer, **texts})
        found = nowcast_of(reader, output, valid, key_values)
        show(found.rows, form, "no window is open or has closed recently", limit)
        note(*found.notes)
        return
    if serving and prefer is not None:
        fix = "leave --serving out; it shows what --prefer rebuilt does, with base and correction"
        raise WrongUsage("--prefer", prefer.value, "cannot be asked together with --serving", fix)
    if serving or prefer is not None:
        from latecomer.after.serving import served

        # Corrections are known as they are now, for windows that have closed.
        _require_alone("--serving" if serving else "--prefer", {"--open": open_windows, **texts})
        chosen = reader.condition(reader.book(output), valid, key_values)
        rows = (
            served.serving(reader, output, chosen)
            if prefer is None
            else served.preferred(reader, output, prefer, chosen)
        )
    else:
        rows = reader.results(output, open_windows, published, valid, key_values, as_of_arrival=arrived)
    empty = ""
    if not rows.num_rows:
        asked = moment is None and not open_windows and (valid_text is not None or bool(key_values))
        is_open = _is_open(reader, output, valid, key_values) if asked else None
        empty = _nothing(is_open, moment and moment[1], valid_text, key_values)
        empty = empty or _no_windows(reader, file, output, open_windows)
    show(rows, form, empty, limit)
    note(*reader.notes)


def _require_alone(asked: str, others: Mapping[str, object]) -> None:
    for option, value in others.items():
        if value:
            text = value if isinstance(value, bool) else str(value)
            fix = f"ask for {asked} or for {option}"
            raise WrongUsage(option, text, f"cannot be asked together with {asked}", fix)


def _by_clock(clock: Clock, as_of: str | None, as_of_arrival: str | None) -> tuple[str | None, str | None]:
    """The moments of --as-of and --as-of-arrival, where one is given in the deprecated way."""
    if as_of is None:
        fix = "give --as-of T, or --as-of-arrival T for the arrival clock"
        raise WrongUsage("--clock", clock.value, "has no meaning without --as-of", fix)
    if clock is Clock.PUBLISHED:
        LOG.warning("--clock is deprecated: --as-of T alone goes by publication")
        return as_of, as_of_arrival
    LOG.warning("--clock is deprecated: write --as-of-arrival T for --as-of T --clock arrival")
    return None, as_of_arrival or as_of


def _is_open(reader: Reader, output: str, valid_at: datetime | None, key: Mapping[str, str | None]) -> bool:
    """Whether --open would show a window: a key that never came has none."""
    notes = reader.notes
    found = reader.results(output, include_open=True, valid_at=valid_at, key=key)
    reader.notes = notes
    return bool(found.num_rows)


def _nothing(
    is_open: bool | None, as_of: str | None, valid_at: str | None, key: Mapping[str, str | None]
) -> str:
    """Why no row was chosen; nothing where all rows were asked for. `is_open` says whether an open window would be
    shown; None where they were asked for, or cannot be."""
    if as_of is not None or valid_at is not None or key:
        window = "no window" if valid_at is None else f"no window that holds {valid_at}"
        if key:
            window += f" for {key_in_words(key)}"
        when = "has a number" if as_of is None else f"had a number by {as_of}"
        more = {True: "; --open shows those still open", False: ", and none is open", None: ""}[is_open]
        return f"{window} {when}{more}"
    return ""


def _no_windows(reader: Reader, file: Path, output: str, open_windows: bool) -> str:
    """Why an output has no windows at all, or none that are shown."""
    from latecomer.model.ledger import EVENTS
    from latecomer.model.verdicts import END_OF_TIME

    totals = [
        row for row in reader.ledger_totals().to_pylist() if (row["output"], row["unit"]) == (output, EVENTS)
    ]
    if totals and totals[0]["received"] and totals[0]["received"] == totals[0]["dead_letter"]:
        rows = int(totals[0]["received"])
        dead = f"all {rows:,} rows are dead letters" if rows > 1 else "the only row is a dead letter"
        return f"no windows: {dead}; {command('dead-letters', file, '--by', 'reason')} shows why"
    if open_windows:
        return "no windows yet: no event has entered this output"
    timeline = reader.timeline()
    if timeline is not None and timeline.watermark == END_OF_TIME:
        return (
            f"no windows: the input was drained, and no event is in any; {command('ledger', file)} shows why"
        )
    return "no windows have closed yet; --open shows those still open"
