"""`latecomer status`: how far each sink is behind, and why."""

from __future__ import annotations

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, load


def status(file: File, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None) -> None:
    """Show how far each sink is: its last batch, how many it lacks, since when and why."""
    from latecomer.cli.render import show
    from latecomer.sink.keeper import sink_status
    from latecomer.store.store import open_store

    choose_zone(zone, file)
    show(sink_status(open_store(load(file))), form, "the pipeline has no sinks", limit)
