"""`latecomer watermarks`: the timeline."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, open_reader
from latecomer.model.holding import holding_in_words

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
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show the watermark in force for each tick of arrival time, and which partition held it back."""
    from latecomer.cli.render import show

    choose_zone(zone, file)
    reader = open_reader(file)
    if holding := reader.holding():
        LOG.warning("%s", holding_in_words(holding))
    if alignment:
        show(reader.alignment(), form, "no partition has held the watermark back", limit)
        return
    show(reader.watermarks(), form, "there is no watermark yet: nothing has arrived", limit)
