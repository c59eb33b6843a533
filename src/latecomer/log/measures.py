"""What can be read of the ledger's measures in dead letters. A kernel.

A letter that is JSON may still say its amount. One that is larger than an event's may be is not read: it would stop the
batch when the sum outgrew the ledger.
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
from latecomer.model.written_numbers import fits, written_number
from latecomer.store.layout import Reading

_DIGITS = Decimal(1).scaleb(-6)
_NOTHING = Decimal(0)


def letter_amounts(letters: pa.Table, reading: Reading, measures: Iterable[str]) -> dict[str, Decimal]:
    """What the dead letters of a source come to in each measure."""
    names = {measure: reading.pipeline.source_name(measure) for measure in measures}
    total = dict.fromkeys(names, _NOTHING)
    for raw in letters.column("raw").to_pylist() if names else ():
        for measure, amount in _amounts(raw, names).items():
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
    return _amounts(raw, {measure: view.source_name(measure) for measure in measures})


def _amounts(raw: str, names: Mapping[str, str]) -> dict[str, Decimal]:
    fields = _object(raw)
    return {measure: _amount(fields, name) for measure, name in names.items()}


def _object(raw: str) -> Mapping[str, Any]:
    """The object that a text begins with; an empty one where it does not."""
    reader = json.JSONDecoder(
        strict=False, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_first_of_each
    )
    try:
        found, _ = reader.raw_decode(raw.lstrip())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _amount(fields: Mapping[str, Any], name: str) -> Decimal:
    """A number by its name, or by the way through objects that the name is."""
    found = fields.get(name)
    if found is None:
        found = fields
        for step in ways_of([name]).get(name, (name,)):
            found = found.get(step) if isinstance(found, dict) else None
    number = written_number(found.strip(" ")) if isinstance(found, str) else None
    if number is None:
        return _NOTHING
    rounded = number.quantize(_DIGITS, ROUND_HALF_UP) if fits(number, WHOLE_DIGITS) else None
    return rounded if rounded is not None and fits(rounded, WHOLE_DIGITS) else _NOTHING
