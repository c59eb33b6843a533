"""An explanation in a notebook: what stands, a picture, each pane with its reason, and the events left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.after.explain.document import event_rows, shown_value
from latecomer.after.explain.fates import Judged
from latecomer.after.explain.life import Published
from latecomer.after.explain.picture import picture
from latecomer.after.explain.places import in_words
from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.markup import (
    arrow_table,
    escape,
    fragment,
    heading,
    table,
    text_table,
    warning,
)
from latecomer.model.panes import Op
from latecomer.model.windows import zone_of
from latecomer.model.zoned import current_zone, in_zone, written

if TYPE_CHECKING:
    from latecomer.after.explain.explanation import Explanation

MOST_EVENTS = 10
"""At most so many events of each group are shown."""


def shown(explanation: Explanation) -> str:
    """The explanation as a part of a page, with times in the zone of the output's windows."""
    with in_zone(zone_of(explanation.rules.window)):
        return fragment(_parts(explanation))


def as_text(explanation: Explanation) -> str:
    """The explanation as lines of text."""
    with in_zone(zone_of(explanation.rules.window)):
        return harmless("\n".join(_lines(explanation)), lines=True)


def title(explanation: Explanation) -> str:
    """The number: its output, window and key."""
    key = [f"{column}={shown_value(value)}" for column, value in explanation.key.items()]
    return " · ".join([explanation.output, in_words(explanation.window), *key])


def standing(explanation: Explanation) -> str:
    """The number as it is now, in a sentence."""
    if explanation.stands is not None:
        return f"stands at {values_in_words(explanation.stands)}"
    return "no number stands" if explanation.panes else "no number has been published"


def values_in_words(values: Mapping[str, Any]) -> str:
    """The values of a number, each with its name."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in values.items())


def change(by: Any) -> str:
    """A difference from the pane before, with its sign."""
    return ("+" if by > 0 else "") + shown_value(by)


def _lines(explanation: Explanation) -> Iterator[str]:
    yield title(explanation)
    yield standing(explanation)
    if explanation.panes:
        heads, rows = _heads(explanation), [_pane(explanation, published) for published in explanation.panes]
        panes = pa.table({str(nth): pa.array(column) for nth, column in enumerate(zip(*rows, strict=True))})
        yield from text_table(panes.rename_columns(heads), current_zone(), len(rows))
    if explanation.in_no_pane:
        yield f"accepted, and in no pane yet: {counted(len(explanation.in_no_pane), 'event')}"
    for fate, events in explanation.left_out.items():
        if events:
            yield f"left out: {fate.value.replace('_', ' ')}, {counted(len(events), 'event')}"
    yield from (f"note: {note}" for note in explanation.notes)


def _parts(explanation: Explanation) -> Iterator[str]:
    yield from heading(title(explanation))
    yield f"<p>{escape(standing(explanation))}</p>"
    if not explanation.reconciled:
        yield warning("a pane does not hold what the log says: see its check")
    if explanation.panes:
        yield f'<div class="picture">{picture(explanation)}</div>'
        yield from _panes(explanation)
    if explanation.in_no_pane:
        yield from _events("accepted, and in no pane yet", explanation.in_no_pane)
    for fate, events in explanation.left_out.items():
        if events:
            yield from _events(f"left out: {fate.value.replace('_', ' ')}", events)
    for note in explanation.notes:
        yield f'<p class="pale">{escape(note)}</p>'
    read = read_in_words(explanation)
    yield f'<p class="pale">{read}; times in {escape(current_zone())}</p>'


def read_in_words(explanation: Explanation) -> str:
    """How much of the log was read for an explanation."""
    read, were = explanation.files_read, "was" if explanation.files_read == 1 else "were"
    return f"{read:,} of the {counted(explanation.files, 'file')} of the event log {were} read"


def _heads(explanation: Explanation) -> list[str]:
    aggregates = explanation.rules.aggregates
    return ["", "timing", "op", *aggregates, "took in", "batch", "published at", "why", "check"]


def _panes(explanation: Explanation) -> Iterator[str]:
    heads = _heads(explanation)
    count = len(explanation.rules.aggregates)
    rows = [_pane(explanation, published) for published in explanation.panes]
    yield from table(heads, rows, numbers=[0, *range(3, 5 + count)], words=[len(heads) - 2])


def _pane(explanation: Explanation, published: Published) -> list[str | None]:
    pane, check = published.pane, published.check
    agrees = {True: "as the log says", False: f"not as the log says: {check.reason}", None: "not compared"}
    return [
        str(pane.sequence),
        pane.timing.value,
        pane.op.value,
        *(_amount(published, name) for name in explanation.rules.aggregates),
        "" if pane.op is Op.RETRACT else f"{len(published.took):,}",
        str(pane.batch),
        written(pane.published_at),
        explanation.why(published),
        agrees[check.agrees],
    ]


def _amount(published: Published, name: str) -> str | None:
    value, by = published.pane.values.get(name), published.differences.get(name)
    if value is None:
        return None
    return shown_value(value) + (f" ({change(by)})" if by else "")


def _events(title: str, events: Sequence[Judged]) -> Iterator[str]:
    yield from heading(title, counted(len(events), "event"))
    rows = event_rows({(None, ""): events[:MOST_EVENTS]}).drop_columns(["pane", "fate"])
    empty = [name for name in rows.schema.names if rows[name].null_count == rows.num_rows]
    yield from arrow_table(rows.drop_columns(empty), current_zone())
