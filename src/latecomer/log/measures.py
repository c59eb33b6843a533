"""The ledger's measures as far as dead letters show them. A kernel.

A letter that is JSON may still have its amount. A text is read only where numbers are written with a point: other signs
may be configured after letters have come, and the ledger's account of them must stay as it is. An amount that is larger
than an event may have is not read either: the sum could outgrow the ledger and stop the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.log.summaries import added
from latecomer.model.ledger import EXACT, WHOLE_DIGITS
from latecomer.model.paths import paths_of
from latecomer.model.sources import BETWEEN
from latecomer.model.written_numbers import POINT, fits, written_number
from latecomer.store.layout import Reading

_DIGITS = Decimal(1).scaleb(-6)
_WIDE = Context(prec=EXACT)
_NOTHING = Decimal(0)


def letter_amounts(letters: pa.Table, reading: Reading, measures: Iterable[str]) -> dict[str, Decimal]:
    """The sum of a source's dead letters in each measure."""
    measures = list(measures)
    raw = letters.column("raw").to_pylist() if measures else ()
    return added((_amounts(each, reading.pipeline, measures) for each in raw), measures)


def amounts_of_letter(
    raw: str, partition: str | None, pipeline: Pipeline, measures: Iterable[str]
) -> dict[str, Decimal]:
    """The amount of one dead letter in each measure. Each source has its own names for measures."""
    source = (partition or "").partition(BETWEEN)[0] if pipeline.sources else ""
    view = pipeline.views.get(source)
    if view is None:
        return dict.fromkeys(measures, _NOTHING)
    return _amounts(raw, view, measures)


def _amounts(raw: str, view: Pipeline, measures: Iterable[str]) -> dict[str, Decimal]:
    fields = fields_of_letter(raw)
    return {measure: _amount(number_in_letter(fields, measure, view)) for measure in measures}


class _Number(str):
    """A number of JSON, not a number in a text of JSON."""


def fields_of_letter(raw: str) -> Mapping[str, Any]:
    """The JSON object at the beginning of a text; an empty one where there is none."""
    reader = json.JSONDecoder(
        strict=False,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
        object_pairs_hook=lambda pairs: dict(reversed(pairs)),  # of several with one name the first counts
    )
    try:
        found, _ = reader.raw_decode(raw.lstrip())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number_in_letter(fields: Mapping[str, Any], column: str, view: Pipeline) -> Decimal | None:
    """The number of a column, if the fields show one: under its name in the source, or along the path through objects
    that the name describes."""
    name = view.source_name(column)
    found = fields.get(name)
    if found is None:
        found = fields
        for step in paths_of([name]).get(name, (name,)):
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
    rounded = number.quantize(_DIGITS, ROUND_HALF_UP, _WIDE)
    return rounded if fits(rounded, WHOLE_DIGITS) else _NOTHING
