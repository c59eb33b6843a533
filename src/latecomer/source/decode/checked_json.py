"""JSON whose records name the JSON Schema of their writer, and are checked against it (ADR 0048)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from latecomer.config.registered import RegisteredJson
from latecomer.errors import SourceError
from latecomer.model.unknown_fields import KnownFields, unknown_names
from latecomer.schemas.jsonschema import Schema, SchemaError, Validator
from latecomer.schemas.jsonschema.validation import NotJson, read_record
from latecomer.source.decode.checked_messages import CheckedMessages
from latecomer.source.decode.frames import HEAD_SIZE, framing_mistake, number_of
from latecomer.source.decode.framing import FramedRecords

_MOST_SHOWN = 3


@dataclass
class CheckedJson(FramedRecords):
    """JSON records in Confluent's framing. A record that its schema does not allow is INVALID."""

    @property
    def _format(self) -> RegisteredJson:
        assert isinstance(self.pipeline.format, RegisteredJson)  # noqa: S101
        return self.pipeline.format

    def in_tasks(self) -> CheckedMessages:
        validates = self._format.validates
        schemas = self.schemas.known if validates else {}
        for number, schema in schemas.items():
            if isinstance(schema, Schema):
                _require_checkable(number, schema)
        return CheckedMessages(dict(schemas), self.pipeline.source.unknown_fields, validates)

    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        return unknown_names(raw[HEAD_SIZE:].decode(errors="replace"), known)

    def mistake(self, raw: bytes) -> str | None:
        if not self._format.validates:
            return self._without_header(raw) or framing_mistake(raw) or _unread(raw)
        if (wrong := self._without_header(raw) or self.head_mistake(raw) or _unread(raw)) is not None:
            return wrong
        number, schema = number_of(raw), self.schemas.known[number_of(raw)]
        return _faults(number, schema, raw[HEAD_SIZE:].decode()) if isinstance(schema, Schema) else None

    def _without_header(self, raw: bytes) -> str | None:
        """What is wrong with a record that should have its id in a header, and got no framing from it."""
        name = self._format.id_header
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


def _faults(number: int, schema: Schema, text: str) -> str | None:
    """Which rules of its schema a record breaks, and where."""
    faults = [str(each) for each in _validator(schema).faults(text)]
    more = f"; and {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
    return f"schema {number} does not allow it: {'; '.join(faults[:_MOST_SHOWN])}{more}" if faults else None


@lru_cache(maxsize=64)
def _validator(schema: Schema) -> Validator:
    return Validator(schema)


def _require_checkable(number: int, schema: Schema) -> None:
    try:
        _validator(schema)
    except SchemaError as error:
        raise SourceError(
            f"records of schema {number} cannot be checked: {error}; or read them unchecked, with validate: false"
        ) from None
