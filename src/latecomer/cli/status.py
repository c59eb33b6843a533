"""`latecomer status`: how far each sink is behind, and why; how far the watermark is; fields that are no columns."""

from __future__ import annotations

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, load


def status(file: File, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None) -> None:
    """Show how far each sink is: its last batch, how many it lacks, since when and why."""
    from latecomer.after.reading.reader import Reader
    from latecomer.cli.progress import watermark_in_words
    from latecomer.cli.render import note, show
    from latecomer.sink.keeper import sink_status
    from latecomer.store.publications import wall_clock
    from latecomer.store.store import open_store
    from latecomer.store.turns import sources_away
    from latecomer.store.unknown import LAST_BATCHES, unknown_in_last

    choose_zone(zone, file)
    pipeline = load(file)
    store = open_store(pipeline)
    show(sink_status(store), form, "the pipeline has no sinks", limit)
    timeline = Reader(pipeline).timeline()
    if timeline is not None:
        note(watermark_in_words(timeline.watermark, timeline.last_at, wall_clock()))
    for away in sorted(sources_away(store.root)):
        named = f"source {away}" if away else "the source"
        note(f"{named} could not be asked, or has not caught up since: no silence counts")
    if any(view.source.unknown_fields == "keep" for view in pipeline.views.values()):
        seen = unknown_in_last(store)
        if seen.events:
            note(f"in the last {LAST_BATCHES} batches, {seen.in_words}")
