"""Windows that a longer lateness opens again, of an output whose definition a rebuild has changed (ADR 0016).

Late events are added to the pane that stands. If that was published under an earlier definition, its numbers would mix
both definitions.
"""

from __future__ import annotations

from latecomer.errors import StoreMismatch
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.durations import iso
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.rebuilds import Rebuild, Rebuilds
from latecomer.store.store import Store


def require_brought_over(store: Store) -> None:
    """Refuse a lateness that reaches windows of an earlier definition."""
    last = store.ledger.last_batch()
    for name in store.pipeline.outputs:
        if name == store.redefining:
            continue
        published = Rebuilds(store.root, name).published(last)
        given = [each for each in published if each.record.definition is not None]
        if given:
            _require(store, name, given[-1], published)


def _require(store: Store, name: str, given: Rebuild, published: list[Rebuild]) -> None:
    output = store.pipeline.outputs[name]
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(store.ledger.last_batch())
    watermark = BEGIN_OF_TIME if reached is None else reached.watermark
    if END_OF_TIME in (watermark, given.record.watermark):
        return  # nothing is accepted any more, or the rebuild has taken in all windows
    then = [under for since, under in store.policies(name) if since <= (given.batch or 0)][-1]
    opened, brought_over = watermark - output.settles_after, given.record.watermark - then.settles_after
    first = max(opened - output.window.reach, FIRST_MOMENT)
    since = [each.record.since for each in published if (each.batch or 0) >= (given.batch or 0)]
    if opened >= brought_over or min(since) <= first:
        return
    raise StoreMismatch(
        f"output {name} would add late events to windows that were published under another definition, before batch "
        f"{given.batch}: its lateness reaches back to {iso(opened)} now; with the lateness as it was, run latecomer "
        f"rebuild apply FILE {name} --from {iso(first)}, then make it longer"
    )
