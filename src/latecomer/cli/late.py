"""`latecomer late`: the side output."""

from __future__ import annotations

from latecomer.cli.options import File, Format, Formatted, Limit, OutputName, Zoned, choose_zone, open_reader


def late(
    file: File, output: OutputName, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None
) -> None:
    """Show the side output: events that were fine, but came too late for their window."""
    from latecomer.cli.render import show

    choose_zone(zone, file, output)
    rows = open_reader(file).late(output)
    # Most sources fill only some columns of the envelope; a table shows those.
    if form is Format.TABLE and rows.num_rows:
        rows = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    show(rows, form, f"no event has gone to the side output of {output}", limit)
