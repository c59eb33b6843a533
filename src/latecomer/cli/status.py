"""`latecomer status`: how far each sink is behind, and why; how far the watermark is; fields that are no columns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, load, note

if TYPE_CHECKING:
    from latecomer.store.store import Store


def status(file: File, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None) -> None:
    """Show how far each sink is: its last batch, how many it lacks, since when and why."""
    from latecomer.after.reading.reader import Reader
    from latecomer.cli.render import show
    from latecomer.cli.run_output import watermark_in_words
    from latecomer.sink.keeper import sink_status
    from latecomer.store.publications import wall_clock
    from latecomer.store.store import open_store
    from latecomer.store.turns import sources_away
    from latecomer.store.unknown import LAST_BATCHES, unknown_in_last

    choose_zone(zone, file)
    pipeline = load(file)
    store = open_store(pipeline)
    show(sink_status(store), form, "the pipeline has no sinks", limit)
    note(holder_in_words(store))
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


def holder_in_words(store: Store) -> str:
    """Who has the store, since when, and by which token."""
    from latecomer.model.zoned import written
    from latecomer.store.lock import holder_of, is_leased, lease_of

    found, record = holder_of(store.root), lease_of(store.root) if is_leased(store.root) else None
    if found is None:
        return "no run has the store" + (
            "" if record is None else f"; its last lease had token {record.token}"
        )
    who, since = found
    token = "" if record is None else f", by the lease with token {record.token}"
    silent = ""
    if record is not None and not record.gives_signs(time.time()):
        silent = f"; it has given no sign of life since {written(round(record.renewed_seconds * 1_000_000))}"
    return f"{who} has the store since {written(round(since * 1_000_000))}{token}{silent}"
