"""What can be read of the ledger's measures in dead letters. A kernel.

A letter that is JSON may still say its amount. A text with other signs than a point is not read, for the signs may be
set after letters have come, and the ledger's account of them stays as it is. An amount that is larger than an event's
may be is not read either: it would stop the batch when the sum outgrew the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.model.ledger import WHOLE_DIGITS
from latecomer.model.paths import ways_of
from latecomer.model.sources import BETWEEN
from latecomer.model.written_numbers import POINT, fits, written_number
from latecomer.store.layout import Reading

_DIGITS = Decimal(1).scaleb(-6)
_NOTHING = Decimal(0)


def letter_amounts(letters: pa.Table, reading: Reading, measures: Iterable[str]) -> dict[str, Decimal]:
    """What the dead letters of a source come to in each measure."""
    measures = list(measures)
    total = dict.fromkeys(measures, _NOTHING)
    for raw in letters.column("raw").to_pylist() if measures else ():
        for measure, amount in _amounts(raw, reading.pipeline, measures).items():
            total[measure] += amount
    return total


def amounts_of_letter(
    raw: str, partition: str | None, pipeline: Pipeline, measures: Iterable[str]
) -> dict[str, Decimal]:
    """What one dead letter comes to in each measure. Each source has its own names for them."""
    source = (partition or "").partition(BETWEEN)[0] if pipeline.sources else ""
    view = pipeline.views.get(source)
    if view is None:
        return dict.fromkeys(measures, _NOTHING)
    return _amounts(raw, view, measures)


def _amounts(raw: str, view: Pipeline, measures: Iterable[str]) -> dict[str, Decimal]:
    fields = fields_of_letter(raw)
    return {measure: _amount(number_in_letter(fields, measure, view)) for measure in measures}


class _Number(str):
    """A number as JSON writes it, whatever signs numbers have in texts."""


def fields_of_letter(raw: str) -> Mapping[str, Any]:
    """The object that a text begins with; an empty one where it does not."""
    reader = json.JSONDecoder(
        strict=False,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
        object_pairs_hook=_first_of_each,
    )
    try:
        found, _ = reader.raw_decode(raw.lstrip())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def number_in_letter(fields: Mapping[str, Any], column: str, view: Pipeline) -> Decimal | None:
    """The number of a column, as far as the fields show it: by its name in the source, or by the way through objects
    that the name is."""
    name = view.source_name(column)
    found = fields.get(name)
    if found is None:
        found = fields
        for step in ways_of([name]).get(name, (name,)):
            found = found.get(step) if isinstance(found, dict) else None
    if not isinstance(found, str):
        return None
    if not isinstance(found, _Number) and view.source.numbers.of(name) != POINT:
        return None
    number = written_number(found.strip(" "))
    return number if number is not None and fits(number, WHOLE_DIGITS) else None


def _amount(number: Decimal | None) -> Decimal:
    if number is None:
        return _NOTHING
    rounded = number.quantize(_DIGITS, ROUND_HALF_UP)
    return rounded if fits(rounded, WHOLE_DIGITS) else _NOTHING
