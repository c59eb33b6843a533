"""Decodes JSON in Confluent's framing in a task, and checks it against the schema of its writer.

Plain records of plain schemas are checked as columns, all at once (`arrow_checked.py`). Records that this cannot decide
are checked one by one: they are found by halving, so that few others are checked with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from latecomer.config.sources import UnknownFields
from latecomer.model.array_types import Flags, Integers
from latecomer.schemas.jsonschema import Schema, Validator
from latecomer.schemas.jsonschema.validation import NotJson
from latecomer.source.decode.arrow_checked import Rules
from latecomer.source.decode.arrow_text import NotPlain
from latecomer.source.decode.frames import HEAD_SIZE, Decoded, End, FramedDecoder, Frames
from latecomer.source.decode.json_rows import JsonLines
from latecomer.source.decode.private_columns import CORRUPT, KEPT
from latecomer.source.decode.text_lines import Lines

FEW = 64
"""Fewer records are checked one by one."""


@dataclass(frozen=True)
class CheckedMessages(FramedDecoder):
    """JSON records. A record that its schema does not allow is INVALID."""

    validates: bool = True
    """Whether records are checked; if not, only their ids are taken."""
    checks = True

    @property
    def asks(self) -> bool:
        return self.validates

    def ends(self, number: int) -> End:
        """JSON has no zero byte, and the next message begins with one."""

        def end(data: bytes, at: int, is_last: bool) -> int | None:
            zero = data.find(b"\0", at)
            return zero if zero >= 0 else len(data) if is_last else None

        return end

    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> Decoded:
        texts = [frames.records[row][HEAD_SIZE:] for row in rows]
        # `keep` reports the unknown fields; `FramedDecoder` decides whether they make a record a dead letter.
        unknown: UnknownFields = "ignore" if self.unknown_fields == "ignore" else "keep"
        if not self.validates:
            return _read(
                texts, columns, unknown, np.zeros(len(texts), np.bool_), np.ones(len(texts), np.bool_)
            )
        check = _check_of(self.writers[number], tuple(columns.items()), unknown)
        return Decoded.joined(list(check.checked(texts)))


def _read(
    texts: Sequence[bytes], columns: Mapping[str, str], unknown: UnknownFields, invalid: Flags, is_json: Flags
) -> Decoded:
    """Decodes records that are checked already."""
    rows = JsonLines(columns, unknown, blank_rows=True).read(Lines.of_records(texts))
    corrupt = np.asarray(rows.column(CORRUPT).is_valid()) | invalid | ~is_json
    kept = rows.column(KEPT).combine_chunks() if KEPT in rows.column_names else None
    return Decoded(rows.select(list(columns)), corrupt, kept, invalid)


@dataclass(frozen=True)
class _Check:
    """How the records of one writer are checked."""

    validator: Validator
    rules: Rules | None
    """For many records at once, if they cover the schema."""
    columns: Mapping[str, str]
    unknown: UnknownFields

    def checked(self, texts: Sequence[bytes]) -> Iterator[Decoded]:
        if self.rules is None or len(texts) < FEW:
            yield self._one_by_one(texts)
            return
        try:
            rows = self.rules.read(texts)
        except (NotPlain, pa.ArrowException):
            half = len(texts) // 2
            yield from self.checked(texts[:half])
            yield from self.checked(texts[half:])
            return
        nothing = np.zeros(len(texts), np.bool_)
        kept = rows.column(KEPT).combine_chunks() if KEPT in rows.column_names else None
        yield Decoded(rows.select(list(self.columns)), nothing, kept, nothing)

    def _one_by_one(self, texts: Sequence[bytes]) -> Decoded:
        invalid, is_json = np.zeros(len(texts), np.bool_), np.ones(len(texts), np.bool_)
        for nth, text in enumerate(texts):
            try:
                # a record that is not UTF-8 is corrupt in any case
                invalid[nth] = not self.validator.allows(text.decode(errors="replace"))
            except NotJson:
                is_json[nth] = False
        return _read(texts, self.columns, self.unknown, invalid, is_json)


@lru_cache(maxsize=256)
def _check_of(schema: Schema, columns: tuple[tuple[str, str], ...], unknown: UnknownFields) -> _Check:
    kinds = dict(columns)
    try:
        rules = Rules.of(schema, kinds, unknown)
    except NotPlain:
        rules = None
    return _Check(Validator(schema), rules, kinds, unknown)
