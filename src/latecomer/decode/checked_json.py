"""JSON whose records name the JSON Schema that they were written with, and are checked against it (ADR 0059)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.registered_json import RegisteredJson
from latecomer.config.sources import UnknownFields
from latecomer.decode import json_rules
from latecomer.decode.arrow_json import require_plain_columns
from latecomer.decode.checked_messages import CheckedMessages
from latecomer.decode.columns import CORRUPT, HEAD, INVALID, RECORD, SCHEMA_ID
from latecomer.decode.frames import HEAD_SIZE, framing_mistake, number_of
from latecomer.decode.framing import FramedRecords, head_of, is_framed
from latecomer.decode.json import JsonRecords
from latecomer.errors import SourceError
from latecomer.model.jsonschema import Schema, SchemaError, Validator
from latecomer.model.jsonschema.checkable import require_checkable
from latecomer.model.jsonschema.records import NotJson, read_record
from latecomer.model.unknown_fields import Known, unknown_names
from latecomer.store.schemas import WriterJsonSchemas
from latecomer.store.sql import quoted

_RAW, _TEXT, _VARIANT = f"{PRIVATE}framed_record", f"{PRIVATE}payload", f"{PRIVATE}variant"
_IS_JSON, _FITS = f"{PRIVATE}is_json", f"{PRIVATE}fits"
_FACT = f"{PRIVATE}fact_"
_MOST_TOLD = 3


@dataclass
class CheckedJson(FramedRecords):
    """Records of JSON in Confluent's framing. One that its schema does not allow is INVALID."""

    @cached_property
    def schemas(self) -> WriterJsonSchemas:
        return WriterJsonSchemas.of(self.pipeline)

    @property
    def _validates(self) -> bool:
        assert isinstance(self.schemas.registered, RegisteredJson)  # noqa: S101
        return self.schemas.registered.validates

    @property
    def knows_nothing(self) -> bool:
        return self._validates and super().knows_nothing

    def unknown(self, record: Column) -> Column:
        return super().unknown(record) if self._validates else F.lit(False)

    def learn(self, records: DataFrame, wait: bool = True) -> bool:
        return self._validates and super().learn(records, wait)

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        payload = F.expr(f"substring({RECORD}, {HEAD_SIZE + 1})")
        rows = records.withColumns(
            {
                HEAD: F.substring(RECORD, 1, HEAD_SIZE),
                _RAW: F.col(RECORD),
                _TEXT: payload.cast("string"),
                RECORD: payload,
            }
        )
        found = JsonRecords(self._unknown).decoded(self._checked(rows), columns)
        read = F.col(SCHEMA_ID).isNotNull() & F.col(_IS_JSON) & F.col(CORRUPT).isNull()
        fine = F.coalesce(read & F.col(_FITS), F.lit(False))
        others = [
            quoted(name)
            for name in found.columns
            if name not in (CORRUPT, HEAD, _RAW, _TEXT, _VARIANT, _IS_JSON, _FITS, *columns)
        ]
        return found.select(
            *(quoted(name) for name in columns),
            F.when(~fine, F.col(_RAW).cast("string")).alias(CORRUPT),
            F.coalesce(F.col(SCHEMA_ID).isNotNull() & F.col(_IS_JSON) & ~F.col(_FITS), F.lit(False)).alias(
                INVALID
            ),
            *others,
        )

    def in_tasks(self) -> CheckedMessages:
        known = self.schemas.known if self._validates else {}
        for number, schema in known.items():
            if isinstance(schema, Schema):
                _require_checkable(number, schema)
        return CheckedMessages(dict(known), self._unknown, self._validates)

    def require_fast(self, columns: Mapping[str, str]) -> None:
        require_plain_columns(columns)

    def _checked(self, rows: DataFrame) -> DataFrame:
        """The rows with SCHEMA_ID, null where it is of no use, whether they are JSON, and whether it is valid."""
        text, variant, head = F.col(_TEXT), F.col(_VARIANT), F.col(HEAD)
        if not self._validates:
            number = F.conv(F.hex(F.substring(_RAW, 2, HEAD_SIZE - 1)), 16, 10).try_cast("int")
            return rows.withColumns(
                {SCHEMA_ID: F.when(is_framed(F.col(_RAW)), number), _IS_JSON: F.lit(True), _FITS: F.lit(True)}
            )
        schemas = {number: each for number, each in self.schemas.known.items() if isinstance(each, Schema)}
        numbers = [F.when(head == F.expr(head_of(number)), F.lit(number)) for number in schemas]
        found = {number: _valid(variant, number, schema) for number, schema in schemas.items()}
        facts = {
            name: F.when(head == F.expr(head_of(number)), column)
            for number, condition in found.items()
            for name, column in condition.facts.items()
        }
        fits = [
            F.when(head == F.expr(head_of(number)), condition.holds) for number, condition in found.items()
        ]
        parsed = rows.withColumn(_VARIANT, json_rules.parsed(text)).withColumns(facts)
        checked = parsed.withColumns(
            {
                SCHEMA_ID: F.coalesce(*numbers, F.lit(None).cast("int")),
                _IS_JSON: json_rules.is_json(text, variant),
                _FITS: F.coalesce(*fits, F.lit(False)),
            }
        )
        return checked.drop(*facts)

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def unknown_names(self, raw: bytes, known: Known) -> list[str]:
        return unknown_names(raw[HEAD_SIZE:].decode(errors="replace"), known)

    def mistake(self, raw: bytes) -> str | None:
        if not self._validates:
            return self._without_header(raw) or framing_mistake(raw) or _unread(raw)
        if (wrong := self._without_header(raw) or self.head_mistake(raw) or _unread(raw)) is not None:
            return wrong
        number, schema = number_of(raw), self.schemas.known[number_of(raw)]
        return (
            _faults(number, schema, read_record(raw[HEAD_SIZE:].decode()))
            if isinstance(schema, Schema)
            else None
        )

    def _without_header(self, raw: bytes) -> str | None:
        """What is wrong with a record that has its id in a header, and was not given the framing for it."""
        settings = self.pipeline.format
        name = settings.id_header if isinstance(settings, RegisteredJson) else None
        if name is None or raw[:1] == b"\0":
            return None
        return f"it has no header {name} with the id of its schema: four bytes, or a decimal number"


def _unread(raw: bytes) -> str | None:
    try:
        read_record(raw[HEAD_SIZE:].decode())
    except UnicodeDecodeError as error:
        return f"byte 0x{raw[HEAD_SIZE + error.start]:02X} at {HEAD_SIZE + error.start} is not utf-8"
    except NotJson as error:
        return str(error)
    return None


def _faults(number: int, schema: Schema, value: object) -> str | None:
    """Which rules of its schema a record breaks, and where."""
    found = [str(each) for each in _validator(schema).faults(value)]
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return f"schema {number} does not allow it: {'; '.join(found[:_MOST_TOLD])}{more}" if found else None


@lru_cache(maxsize=64)
def _validator(schema: Schema) -> Validator:
    return Validator(schema)


def _valid(variant: Column, number: int, schema: Schema) -> json_rules.Condition:
    try:
        return json_rules.valid(variant, schema, f"{_FACT}{number}_")
    except SchemaError as error:
        raise SourceError(f"records of schema {number} cannot be checked: {error}") from None


def _require_checkable(number: int, schema: Schema) -> None:
    try:
        require_checkable(schema)
    except SchemaError as error:
        raise SourceError(f"records of schema {number} cannot be checked: {error}") from None
