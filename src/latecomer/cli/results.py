"""`latecomer results`: the numbers that stand."""

from __future__ import annotations

from collections.abc import Mapping
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
    moment_of,
    open_reader,
)
from latecomer.corrections.choices import Origin

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.reader import Reader


def results(
    file: File,
    output: OutputName,
    open_windows: Annotated[bool, typer.Option("--open", help="Also show windows still open.")] = False,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="T", help="What stood at this moment of processing time, by the arrival clock."
        ),
    ] = None,
    valid_at: Annotated[
        str | None,
        typer.Option("--valid-at", metavar="T", help="Only the windows that hold this moment of event time."),
    ] = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="Base plus correction, with both beside it.")
    ] = False,
    prefer: Annotated[
        Origin | None,
        typer.Option(help="The number of this origin where there is one, and say which.", show_default=False),
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show the number that stands for each window and key, or that stood at a moment."""
    from latecomer.cli.render import note, show

    choose_zone(zone, file, output)
    known = None if as_of is None else moment_of("--as-of", as_of)
    valid = None if valid_at is None else moment_of("--valid-at", valid_at)
    if as_of is not None and open_windows:
        mend = "leave --open out: panes that had been published by then are shown, EARLY ones too"
        raise WrongUsage("--as-of", as_of, "cannot be asked of windows still open", mend)
    reader = open_reader(file)
    if serving or prefer is not None:
        _only_one_of(serving, prefer, {"--open": open_windows, "--as-of": as_of, "--valid-at": valid_at})
        rows = _served(reader, output, prefer)
    else:
        rows = reader.results(output, include_open=open_windows, as_of=known, valid_at=valid)
    show(rows, form, _nothing(open_windows, as_of, valid_at), limit)
    for remark in reader.notes:
        note(remark)


def _only_one_of(serving: bool, prefer: Origin | None, others: Mapping[str, object]) -> None:
    """Corrections are known as they are now, and of windows that have closed."""
    asked = "--serving" if serving else "--prefer"
    if serving and prefer is not None:
        mend = "leave --serving out; it shows what --prefer rebuilt does, with base and correction"
        raise WrongUsage("--prefer", prefer.value, "cannot be asked together with --serving", mend)
    for option in [option for option, given in others.items() if given]:
        mend = f"ask for {asked} or for {option}"
        raise WrongUsage(option, str(others[option]), f"cannot be asked together with {asked}", mend)


def _served(reader: Reader, output: str, prefer: Origin | None) -> pa.Table:
    from latecomer.corrections.serving import preferred, serving

    return serving(reader, output) if prefer is None else preferred(reader, output, prefer)


def _nothing(open_windows: bool, as_of: str | None, valid_at: str | None) -> str:
    """Why there is no row."""
    if as_of is not None or valid_at is not None:
        window = "no window" if valid_at is None else f"no window that holds {valid_at}"
        when = "has a number" if as_of is None else f"had a number by {as_of}"
        more = "; --open shows those still open" if as_of is None and not open_windows else ""
        return f"{window} {when}{more}"
    if open_windows:
        return "no windows yet: no event has entered this output"
    return "no windows have closed yet; --open shows those still open"
