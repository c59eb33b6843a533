"""`latecomer watermarks`: the timeline."""

from __future__ import annotations

from latecomer.cli.options import File, Format, Formatted, Limit, open_reader


def watermarks(file: File, form: Formatted = Format.TABLE, limit: Limit = None) -> None:
    """Show the watermark in force for each tick of arrival time, and which partition held it back."""
    from latecomer.cli.render import show

    show(open_reader(file).watermarks(), form, "there is no watermark yet: nothing has arrived", limit)
