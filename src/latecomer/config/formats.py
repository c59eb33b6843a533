"""`format` in a pipeline file: a word, `avro`, `protobuf` or `json` with options, or a user-defined decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, SerializeAsAny, WithJsonSchema

from latecomer.config.custom import load_own, made_with
from latecomer.config.own import OWN, Decoder, WrittenDecoder
from latecomer.config.registered import Avro, Protobuf, Registered, RegisteredJson

BuiltIn = Literal["json", "csv", "parquet"]
FORMATS: tuple[str, ...] = get_args(BuiltIn)
AVRO, JSON, PROTOBUF = Avro.kind, RegisteredJson.kind, Protobuf.kind
_REGISTERED: dict[str, type[Registered]] = {AVRO: Avro, JSON: RegisteredJson, PROTOBUF: Protobuf}


def _read_format(written: object) -> object:
    if isinstance(written, Decoder):
        return written
    name: object = written
    options: Any = {}
    if isinstance(written, dict) and len(written) == 1:
        ((name, options),) = written.items()
    has_options = isinstance(name, str) and bool(
        OWN.fullmatch(name) or name in (AVRO, PROTOBUF) or (name == JSON and options)
    )
    if isinstance(name, str) and has_options and isinstance(options or {}, dict):
        return WrittenDecoder(name=name, options=options or {})
    if name in FORMATS and not options:
        return name
    raise ValueError(
        f"is not a format; write one of {', '.join((*FORMATS, AVRO, PROTOBUF))}, or a decoder of your own as "
        "module:Class"
    )


def load_format(written: WrittenDecoder, base: Path, field: str) -> Decoder:
    """An instance of the decoder that the file names, with its options."""
    if written.name in _REGISTERED:
        return made_with(_REGISTERED[written.name], written.options, f"{field}.{written.name}")
    return load_own(written, Decoder, base, field)


def _options(model: type[Registered]) -> dict[str, Any]:
    made = model.model_json_schema()
    properties = {
        name: {key: value for key, value in each.items() if key not in ("default", "title")}
        for name, each in made["properties"].items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


_FORMAT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": [*FORMATS, AVRO, PROTOBUF]},
        {"type": "string", "pattern": f"^{OWN.pattern}$", "description": "a decoder of your own"},
        *(
            {
                "type": "object",
                "description": f"{name}, with {what}",
                "properties": {name: _options(_REGISTERED[name])},
                "required": [name],
                "additionalProperties": False,
            }
            for name, what in (
                (AVRO, "the registry and the schema that the columns follow from"),
                (JSON, "the registry that knows the schemas of the writers"),
                (PROTOBUF, "the registry, and the schema and the message that the columns follow from"),
            )
        ),
        {
            "type": "object",
            "description": "a decoder of your own, module:Class, with its options",
            "propertyNames": {"pattern": f"^{OWN.pattern}$"},
            "minProperties": 1,
            "maxProperties": 1,
        },
    ]
}
Format = Annotated[
    BuiltIn | SerializeAsAny[Decoder],
    BeforeValidator(_read_format),
    WithJsonSchema(_FORMAT_SCHEMA),
]
