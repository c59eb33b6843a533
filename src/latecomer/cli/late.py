"""`latecomer late`: the side output."""

from __future__ import annotations

from latecomer.cli.options import File, Format, Formatted, Limit, OutputName, Zoned, choose_zone, open_reader


def late(
    file: File,
    output: OutputName,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show the side output: events that were fine, but came too late for their window."""
    from latecomer.cli.render import show

    choose_zone(zone, file, output)
    show(open_reader(file).late(output), form, f"no event has gone to the side output of {output}", limit)
