"""`latecomer watermarks`: the timeline."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Zoned, choose_zone, limit_option, open_reader
from latecomer.model.holding import holding_in_words

if TYPE_CHECKING:
    import pyarrow as pa

LOG = logging.getLogger(__name__)


def watermarks(
    file: File,
    alignment: Annotated[
        bool,
        typer.Option(
            "--alignment", help="Which partition held the watermark back, for how long, by how much."
        ),
    ] = False,
    form: Formatted = Format.TABLE,
    limit: Annotated[
        int | None,
        limit_option("the newest N ticks in order of time; with --alignment the first N partitions"),
    ] = None,
    zone: Zoned = None,
) -> None:
    """Show the watermark in force for each tick of arrival time, and which partition held it back.

    `tick` counts the intervals of watermark.every since 1970; `at` is its moment. `settled` is empty except with
    `every: event`.
    """
    from latecomer.cli.render import show

    choose_zone(zone, file)
    reader = open_reader(file)
    if holding := reader.holding():
        LOG.warning("%s", holding_in_words(holding))
    if alignment:
        show(reader.alignment(), form, "no partition has held the watermark back", limit)
        return
    rows = reader.watermarks()
    if form is Format.TABLE:
        rows = _without_empty_names(rows)
    show(rows, form, "there is no watermark yet: nothing has arrived", limit, newest=True)


def _without_empty_names(rows: pa.Table) -> pa.Table:
    """The timeline for people: a partition without a name, as of a source that has no others, is no answer to who held
    the watermark back, just as null is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place, names = rows.schema.get_field_index("held_by"), rows["held_by"]
    named = pc.if_else(pc.equal(names, ""), pa.scalar(None, names.type), names)
    return rows.set_column(place, rows.schema.field(place), named)
