"""What the registry needs to know of each type of schema. A type is one entry of `KINDS`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from latecomer.errors import LatecomerError
from latecomer.schemas import Level, Policy, avro, jsonschema
from latecomer.schemas.levels import Breach, breaches, compared
from latecomer.schemas.mistakes import Incompatibility
from latecomer.schemas.packages import protobuf_model
from latecomer.schemas.registry.records import Definition, Reference
from latecomer.schemas.registry.refusals import Refused, invalid_schema, unusable


@dataclass(frozen=True)
class Kind:
    """The functions for the schemas of a type."""

    parse: Callable[[str, Mapping[str, Any], bool], Any]
    """Text, referred schemas by name, and whether to be strict → the schema. Raises an error with place, value and
    fix."""
    normalized: Callable[[Any], str]
    """The same text for schemas that differ only in layout."""
    written_out: Callable[[Any], str]
    """The normalized text with references written out."""
    compare: Callable[[Any, Any, Policy], Sequence[Incompatibility]]
    """Why a reader's schema cannot read the writer's data, under a policy."""
    suffix: str
    """The file name suffix of such schemas."""
    text: Callable[[Any, str], str] = lambda _, sent: sent
    """The text to store for a schema that was sent."""
    formats: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    """Name → another text that clients can ask for."""


KINDS: dict[str, Kind] = {
    "AVRO": Kind(
        lambda text, references, strict: avro.parse_schema(text, references, strict=strict),
        avro.normalized,
        avro.self_contained,
        lambda reader, writer, _: avro.incompatibilities(reader, writer),
        ".avsc",
    ),
    "JSON": Kind(
        lambda text, references, _: jsonschema.parse_schema(text, references),
        lambda schema: str(schema.text),
        lambda schema: str(schema.text),
        lambda reader, writer, policy: jsonschema.changes(reader, writer, lenient=policy is Policy.LENIENT),
        ".schema.json",
    ),
    "PROTOBUF": Kind(
        lambda text, references, _: protobuf_model().parse_schema(text, references),
        lambda schema: str(schema.normalized),
        lambda schema: str(schema.normalized),
        lambda reader, writer, _: list(protobuf_model().changes(reader, writer)),
        ".proto",
        lambda schema, _: str(schema.text),
        {"serialized": lambda schema: str(schema.serialized)},
    ),
}


@dataclass(frozen=True)
class Parsed:
    """A schema with its type."""

    type: str
    schema: Any

    @property
    def normalized(self) -> str:
        return KINDS[self.type].normalized(self.schema)

    @property
    def written_out(self) -> str:
        return KINDS[self.type].written_out(self.schema)

    def text_of(self, sent: str) -> str:
        """The text to store for the text that was sent."""
        return KINDS[self.type].text(self.schema, sent)

    def formatted(self, name: str) -> str:
        """Another text of it."""
        formats = KINDS[self.type].formats
        if name not in formats:
            fix = f"write {' or '.join(formats)}, or leave it out" if formats else "leave it out"
            raise unusable(
                f"the parameter 'format' is not supported as {name[:40]!r} for schemas of the type {self.type}; {fix}"
            )
        return formats[name](self.schema)


def require_kind(name: str) -> str:
    if name not in KINDS:
        raise invalid_schema(
            f"schemas of the type {name[:40]!r} are not supported; this registry takes {', '.join(sorted(KINDS))}"
        )
    return name


def parsed(definition: Definition, references: Mapping[str, Parsed], *, strict: bool = False) -> Parsed:
    """The schema of a definition; `references` are the schemas that it refers to, by name. If not `strict`, it may have
    what the specification forbids but readers can handle."""
    kind = KINDS[require_kind(definition.type)]
    for name, each in references.items():
        if each.type != definition.type:
            raise invalid_schema(
                f"references.{name}: a schema of the type {each.type} is referred to from one of the type "
                f"{definition.type}; refer to schemas of the same type"
            )
    try:
        below = {name: each.schema for name, each in references.items()}
        return Parsed(definition.type, kind.parse(definition.text, below, strict))
    except Refused:
        raise
    except LatecomerError as error:
        raise invalid_schema(str(error)) from None


def identity(schema: Parsed, references: Mapping[Reference, int], contract: Sequence[Any] = ()) -> str:
    """Equal for equal schemas: of type, normalized text, references with their ids, and contract."""
    named = sorted((each.name, each.subject, each.version, number) for each, number in references.items())
    more = [list(contract)] if any(contract) else []
    text = json.dumps([schema.type, schema.normalized, named, *more], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def complaints(
    new: Parsed, versions: Mapping[int, Parsed], level: Level, policy: Policy = Policy.STRICT
) -> list[Breach]:
    """Why a schema may not follow the versions of a subject under a level, the latest version first."""
    olds = {version: versions[version] for version in compared(versions, level)}
    problems = [
        Breach(
            version,
            "TYPE_CHANGED",
            f"version {version} is of the type {old.type}, and the new schema of the type {new.type} "
            "(TYPE_CHANGED); keep the type, or register the schema under another subject",
        )
        for version, old in olds.items()
        if old.type != new.type
    ]
    alike = {version: old.schema for version, old in olds.items() if old.type == new.type}
    compare = KINDS[new.type].compare
    try:
        return problems + breaches(
            lambda reader, writer: compare(reader, writer, policy), new.schema, alike, level
        )
    except LatecomerError as error:  # it takes too many steps to compare
        raise invalid_schema(str(error)) from None
