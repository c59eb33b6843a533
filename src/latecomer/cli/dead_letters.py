"""`latecomer dead-letters`: what never became an event."""

from __future__ import annotations

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, open_reader


def dead_letters(file: File, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None) -> None:
    """Show the rows that could not be read as events, and why."""
    from latecomer.cli.render import show

    choose_zone(zone, file)
    show(open_reader(file).dead_letters(), form, "there are no dead letters", limit)
