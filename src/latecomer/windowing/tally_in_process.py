"""What became of events, batch by batch, without Spark: what `tally.py` and `judge.py` say in SQL, for the common case
(ADR 0068). The log is gone through a part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.models import Output
from latecomer.fast import Declined, flat
from latecomer.log.logged import Logged
from latecomer.model import types
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.verdicts import Fate
from latecomer.store.layout import EventLayout
from latecomer.windowing.derived_in_process import expressions_of
from latecomer.windowing.exact_arrow import halves, unscaled
from latecomer.windowing.judge import FATES, Periods
from latecomer.windowing.judge_in_process import Judged, Watermarks, judged
from latecomer.windowing.merge import Counts, Merger

_DIGITS = 6
"""Amounts of the ledger have so many digits after the point."""
_WIDE = Context(prec=60)
_LATE, _PARTLY = "late_at_source", "partly_late"
_BATCH, _FATE = "batch", "fate"


def counts_by_batch(
    merger: Merger, logged: Logged, timeline: Watermarks, last: int, periods: Periods = ()
) -> dict[int, Counts]:
    """For each batch up to the last, how many events met which fate, and how much of each measure; under the policies
    that the output has had."""
    layout, measures = merger.layout.events, merger.measures
    rules = periods or [(0, merger.output)]
    for _, under in rules:
        expressions_of(under, layout.types)
    sums = Sums([EVENTS, ASSIGNMENTS, *measures, _LATE, _PARTLY])
    for part in logged.parts(stored_columns(layout, [under for _, under in rules], measures)):
        batch = flat(part.column("batch"))
        for (since, under), until in zip(rules, [*(each for each, _ in rules[1:]), last + 1], strict=True):
            within = pc.and_(pc.greater_equal(batch, since), pc.less(batch, min(until, last + 1)))
            events = part.filter(within)
            if events.num_rows:
                found = judged(events, layout, under, timeline, measures)
                sums.add(*_counted(found, flat(events.column("batch")), measures))
    return _as_counts(sums, measures)


def counts_of(merger: Merger, judged: Iterable[tuple[Judged, pa.Array]]) -> dict[int, Counts]:
    """The same of events that have been judged, each with the batch in which it was logged."""
    sums = Sums([EVENTS, ASSIGNMENTS, *merger.measures, _LATE, _PARTLY])
    for found, batch in judged:
        if len(found):
            sums.add(*_counted(found, batch, merger.measures))
    return _as_counts(sums, merger.measures)


def stored_columns(layout: EventLayout, outputs: Sequence[Output], wanted: Iterable[str]) -> list[str]:
    """The columns of the log that judging events for outputs takes, with those that are wanted besides."""
    texts = [made.sql for output in outputs for made in output.columns.values()]
    texts += [output.where for output in outputs if output.where is not None]
    named = [name for name in layout.view if any(name in text for text in texts)]
    needed = [layout.view[name] for name in (*wanted, *named) if name in layout.view]
    return list(dict.fromkeys(["batch", "tick", "event_time", "arrival_time", *needed]))


def _counted(
    found: Judged, batch: pa.Array, measures: Mapping[str, str]
) -> tuple[Mapping[str, pa.Array], Mapping[str, pa.Array]]:
    """Where each row is counted, and what it adds to which sum."""
    leads = pa.array(found.leading)
    amounts = {
        EVENTS: _numbers(found.leading),
        ASSIGNMENTS: _numbers(np.ones(len(found), bool)),
        _LATE: _numbers(found.leading & (found.time < found.watermark)),
        _PARTLY: _numbers(found.partly),
    }
    amounts |= {
        name: pc.if_else(leads, in_ledger_digits(found.columns[name], kind), 0)
        for name, kind in measures.items()
    }
    return {_BATCH: batch.take(pa.array(found.nth)), _FATE: pa.array(found.fate)}, amounts


def _numbers(flags: np.ndarray) -> pa.Array:
    return pa.array(flags.astype(np.int64))


def in_ledger_digits(column: pa.Array, kind: str) -> pa.Array:
    """The amounts of a measure without their point; `Declined` where the ledger would have to round them."""
    if not types.is_exact(kind) or types.scale_of(kind) > _DIGITS:
        raise Declined(f"a measure of type {kind}")
    return pc.fill_null(unscaled(column), 0)


def amount(number: int, digits: int = 0) -> Decimal:
    """A sum as the ledger has it, of a number without its point.

    >>> str(amount(5)), str(amount(-1234, 2))
    ('5.000000', '-12.340000')
    """
    return Decimal(number * 10 ** (_DIGITS - digits)).scaleb(-_DIGITS, _WIDE)


class Sums:
    """Exact sums of whole numbers by place, added up part by part."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.by_place: dict[tuple[int, ...], dict[str, int]] = {}

    def add(self, places: Mapping[str, pa.Array], amounts: Mapping[str, pa.Array]) -> None:
        """Add some rows: where each is counted, and what it adds to each sum."""
        columns: dict[str, pa.Array] = dict(places)
        for nth, name in enumerate(self.names):
            columns[f"{nth}.low"], columns[f"{nth}.high"] = halves(amounts[name])
        parts = [name for name in columns if name not in places]
        found = (
            pa.table(columns)
            .group_by(list(places), use_threads=False)
            .aggregate([(name, "sum") for name in parts])
        )
        for row in found.to_pylist():
            known = self.by_place.setdefault(
                tuple(row[name] for name in places), dict.fromkeys(self.names, 0)
            )
            for nth, name in enumerate(self.names):
                known[name] += (row[f"{nth}.high_sum"] << 32) + row[f"{nth}.low_sum"]


def _as_counts(sums: Sums, measures: Mapping[str, str]) -> dict[int, Counts]:
    digits = {name: types.scale_of(kind) for name, kind in measures.items()}
    fates: dict[int, dict[str, dict[Fate, Decimal]]] = {}
    notes: dict[int, dict[str, int]] = {}
    for (batch, code), found in sums.by_place.items():
        counted = fates.setdefault(batch, {unit: {} for unit in (EVENTS, ASSIGNMENTS, *measures)})
        for unit, by_fate in counted.items():
            by_fate[FATES[code]] = amount(found[unit], digits.get(unit, 0))
        counts = notes.setdefault(batch, {_LATE: 0, _PARTLY: 0})
        for name in counts:
            counts[name] += found[name]
    return {batch: Counts(counted, **notes[batch]) for batch, counted in fates.items()}
