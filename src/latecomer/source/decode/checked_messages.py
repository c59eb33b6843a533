"""Decodes JSON in Confluent's framing in a task, and checks it against the schema of its writer (ADR 0048).

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
from latecomer.errors import SourceError
from latecomer.model.array_types import Flags, Integers
from latecomer.model.unknown_fields import KnownFields, unknown_names
from latecomer.schemas.jsonschema import Schema, SchemaError, Validator
from latecomer.schemas.jsonschema.validation import NotJson, read_record
from latecomer.source.decode.arrow_checked import RecordRules
from latecomer.source.decode.framing import HEAD_SIZE, End, FramedDecoder, Frames, framing_mistake, number_of
from latecomer.source.decode.json_rows import JsonLines
from latecomer.source.decode.private_columns import CORRUPT, INVALID, WRONG
from latecomer.source.decode.text_lines import Lines
from latecomer.source.decode.typed_columns import NotPlain

FEW = 64
"""Fewer records are checked one by one."""
_MOST_SHOWN = 3


@dataclass(frozen=True)
class CheckedMessages(FramedDecoder):
    """JSON records. A record that its schema does not allow is INVALID."""

    validates: bool = True
    """Whether records are checked; if not, only their ids are taken."""
    id_header: str | None = None
    """The header that should have had the id of each record."""

    def require_usable(self) -> None:
        for number, schema in self.writers.items() if self.validates else ():
            try:
                _validator(schema) if isinstance(schema, Schema) else None
            except SchemaError as error:
                raise SourceError(
                    f"records of schema {number} cannot be checked: {error}; or read them unchecked, with validate: "
                    "false"
                ) from None

    @property
    def asks(self) -> bool:
        return self.validates

    def ends(self, number: int) -> End:
        """JSON has no zero byte, and the next message begins with one."""

        def end(data: bytes, at: int, is_last: bool) -> int | None:
            zero = data.find(b"\0", at)
            return zero if zero >= 0 else len(data) if is_last else None

        return end

    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> pa.Table:
        texts = [frames.records[row][HEAD_SIZE:] for row in rows]
        # `keep` reports the unknown fields; `FramedDecoder` decides whether they make a record a dead letter.
        unknown: UnknownFields = "ignore" if self.unknown_fields == "ignore" else "keep"
        if not self.validates:
            return _read(
                texts, columns, unknown, np.zeros(len(texts), np.bool_), np.ones(len(texts), np.bool_)
            )
        check = _check_of(self.writers[number], tuple(columns.items()), unknown)
        return pa.concat_tables(check.checked(texts), promote_options="default")

    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        return unknown_names(raw[HEAD_SIZE:].decode(errors="replace"), known)

    def mistake(self, raw: bytes) -> str | None:
        wrong = self._without_header(raw)
        wrong = wrong or (self.head_mistake(raw) if self.validates else framing_mistake(raw)) or _unread(raw)
        if wrong is not None or not self.validates:
            return wrong
        faults = [
            str(each) for each in _validator(self.writers[number_of(raw)]).faults(raw[HEAD_SIZE:].decode())
        ]
        more = f"; and {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
        shown = f"schema {number_of(raw)} does not allow it: {'; '.join(faults[:_MOST_SHOWN])}{more}"
        return shown if faults else None

    def _without_header(self, raw: bytes) -> str | None:
        """What is wrong with a record that should have its id in a header, and got no framing from it."""
        if self.id_header is None or raw[:1] == b"\0":
            return None
        return f"it has no header {self.id_header} with the id of its schema: four bytes, or a decimal number"


def _unread(raw: bytes) -> str | None:
    try:
        read_record(raw[HEAD_SIZE:].decode())
    except UnicodeDecodeError as error:
        return f"byte 0x{raw[HEAD_SIZE + error.start]:02X} at {HEAD_SIZE + error.start} is not utf-8"
    except NotJson as error:
        return str(error)
    return None


@lru_cache(maxsize=64)
def _validator(schema: Schema) -> Validator:
    return Validator(schema)


def _marked(rows: pa.Table, wrong: Flags, invalid: Flags) -> pa.Table:
    return rows.append_column(WRONG, pa.array(wrong)).append_column(INVALID, pa.array(invalid))


def _read(
    texts: Sequence[bytes], columns: Mapping[str, str], unknown: UnknownFields, invalid: Flags, is_json: Flags
) -> pa.Table:
    """Decodes records that are checked already."""
    rows = JsonLines(columns, unknown, blank_rows=True).read(Lines.of_records(texts))
    corrupt = np.asarray(rows.column(CORRUPT).is_valid()) | invalid | ~is_json
    return _marked(rows.drop_columns(CORRUPT), corrupt, invalid)


@dataclass(frozen=True)
class _Check:
    """How the records of one writer are checked."""

    validator: Validator
    rules: RecordRules | None
    """For many records at once, if they cover the schema."""
    columns: Mapping[str, str]
    unknown: UnknownFields

    def checked(self, texts: Sequence[bytes]) -> Iterator[pa.Table]:
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
        yield _marked(rows, nothing, nothing)

    def _one_by_one(self, texts: Sequence[bytes]) -> pa.Table:
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
        rules = RecordRules.of(schema, kinds, unknown)
    except NotPlain:
        rules = None
    return _Check(Validator(schema), rules, kinds, unknown)
