"""Reads the bodies of requests: checks size and content type, then JSON within limits, then the shape.

An unknown key is refused, unless its value is null, empty or false: such a value asks for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from latecomer.schemas import SchemaError, written_path
from latecomer.schemas.json_input import read_json
from latecomer.schemas.migrations import MigrationRules
from latecomer.schemas.mistakes import shown_value
from latecomer.schemas.registry import refusals
from latecomer.schemas.registry.contracts import merged_metadata, merged_rules
from latecomer.schemas.registry.migrating import MOST_CONSUMERS, MigrationChange, phase_of
from latecomer.schemas.registry.names import LARGEST, LATEST, subject_of
from latecomer.schemas.registry.policy import level_of, policy_of
from latecomer.schemas.registry.records import Body, Definition, Reference
from latecomer.schemas.registry.refusals import Refused

MEDIA = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
"""Content types, the default first."""
LARGEST_BODY = 4 * 2**20
LARGEST_HEAD = 32 * 1024
"""Largest size of a request's headers, in bytes."""
_UTF8 = ("utf-8", "utf8")
_NOTHING: tuple[Any, ...] = (None, False, "", [], {})

Text = Annotated[str, Field(max_length=1000)]
LongText = Annotated[str, Field(max_length=100_000)]
Micros = Annotated[int, Field(ge=0, le=2**53)]


class ReferenceBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=1000)]
    subject: str
    version: int = LATEST

    def reference(self) -> Reference:
        if self.version != LATEST and not 1 <= self.version <= LARGEST:
            raise refusals.invalid_schema(
                f"references.{self.name}: {self.version} is no version; write a number from 1 on, or -1 for the latest"
            )
        return Reference(self.name, subject_of(self.subject), self.version)


class MetadataBody(Body):
    """The metadata of a schema."""

    tags: Annotated[dict[Text, list[Text]] | None, Field(max_length=1000)] = None
    properties: Annotated[dict[Text, Text] | None, Field(max_length=1000)] = None
    sensitive: Annotated[list[Text] | None, Field(max_length=1000)] = None

    def value(self) -> dict[str, Any]:
        return merged_metadata(self.model_dump(exclude_none=True)) or {}


class ContractRuleBody(Body):
    """A rule of a data contract, with Confluent's keys."""

    name: Text | None = None
    doc: LongText | None = None
    kind: Literal["TRANSFORM", "CONDITION"] | None = None
    mode: Literal["UPGRADE", "DOWNGRADE", "UPDOWN", "WRITE", "READ", "WRITEREAD"] | None = None
    type: Text | None = None
    tags: list[Text] | None = None
    params: dict[Text, LongText] | None = None
    expr: LongText | None = None
    on_success: Annotated[Text | None, Field(alias="onSuccess")] = None
    on_failure: Annotated[Text | None, Field(alias="onFailure")] = None
    disabled: bool | None = None


class RuleSetBody(Body):
    """The rules of a data contract. They are stored, and not run."""

    migration: Annotated[list[ContractRuleBody] | None, Field(alias="migrationRules", max_length=1000)] = None
    domain: Annotated[list[ContractRuleBody] | None, Field(alias="domainRules", max_length=1000)] = None
    encoding: Annotated[list[ContractRuleBody] | None, Field(alias="encodingRules", max_length=1000)] = None
    enable_at: Annotated[
        Literal["ALL", "CLIENT", "GATEWAY", "SERVER", "NONE"] | None, Field(alias="enableAt")
    ] = None

    def value(self) -> dict[str, Any]:
        for rules in (self.migration, self.domain, self.encoding):
            names = [each.name for each in rules or ()]
            if None in names or "" in names:
                raise refusals.invalid_rules("a rule has no name; give it one")
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise refusals.invalid_rules(
                    f"two rules are called {twice[:60]!r}; give each a name of its own"
                )
        return merged_rules(self.model_dump(exclude_none=True, by_alias=True)) or {}


class SchemaBody(Body):
    """A schema to register, look up or test."""

    text: Annotated[str | None, Field(alias="schema")] = None
    type: Annotated[str | None, Field(alias="schemaType")] = None
    references: list[ReferenceBody] | None = None
    metadata: MetadataBody | None = None
    rules: Annotated[RuleSetBody | None, Field(alias="ruleSet")] = None
    id: int | None = None
    version: int | None = None

    def definition(self) -> Definition:
        if self.text is None or not self.text.strip():
            raise refusals.empty_schema()
        return self.new_definition()

    def new_definition(self) -> Definition:
        """The definition; an empty text stands for the text of the latest version."""
        references = tuple(each.reference() for each in self.references or ())
        metadata = None if self.metadata is None else self.metadata.value()
        rules = None if self.rules is None else self.rules.value()
        return Definition(
            self.text if self.text and self.text.strip() else "",
            self.type or "AVRO",
            references,
            metadata,
            rules,
        )

    @property
    def asked_id(self) -> int | None:
        return _number("id", self.id, nothing=(None, -1))

    @property
    def asked_version(self) -> int | None:
        """A number, or LATEST: the latest version if it has this schema, else a new one."""
        return LATEST if self.version == LATEST else _number("version", self.version, nothing=(None, 0))


class ConfigBody(Body):
    compatibility: str | None = None
    level: Annotated[str | None, Field(alias="compatibilityLevel")] = None
    policy: Annotated[str | None, Field(alias="compatibilityPolicy")] = None
    group: Annotated[Text | None, Field(alias="compatibilityGroup")] = None
    alias: str | None = None
    default_metadata: Annotated[MetadataBody | None, Field(alias="defaultMetadata")] = None
    override_metadata: Annotated[MetadataBody | None, Field(alias="overrideMetadata")] = None
    default_rules: Annotated[RuleSetBody | None, Field(alias="defaultRuleSet")] = None
    override_rules: Annotated[RuleSetBody | None, Field(alias="overrideRuleSet")] = None
    normalize: bool | None = None
    validates: Annotated[bool | None, Field(alias="validateNewSchemas")] = None

    def change(self) -> dict[str, Any]:
        """The settings to change. Null or an empty value removes a group, an alias, metadata or rules; a key that is
        missing changes nothing."""
        levels = {level_of(each) for each in (self.compatibility, self.level) if each is not None}
        if len(levels) > 1:
            raise refusals.invalid_level(
                "compatibility and compatibilityLevel have different values; write one of them"
            )
        change: dict[str, Any] = {"compatibility": str(levels.pop())} if levels else {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("compatibility", "level") or name not in self.model_fields_set:
                continue
            if isinstance(value, MetadataBody | RuleSetBody):
                value = value.value()
            elif name == "alias" and value:
                value = subject_of(value)
            elif name == "policy" and value is not None:
                value = str(policy_of(value))
            if value is not None or name not in ("normalize", "validates", "policy"):
                change[field.alias or name] = None if value in ("", {}) else value
        return change


class ModeBody(Body):
    mode: str


class AboutBody(Body):
    """The owner of a subject, and other metadata."""

    owner: Annotated[str | None, Field(min_length=1, max_length=300)] = None
    metadata: Annotated[dict[Text, Text], Field(max_length=100, default_factory=dict)]

    def value(self) -> dict[str, Any]:
        return {"owner": self.owner, "metadata": self.metadata}


class MeasuredBody(Body):
    """How many events of a log were checked, and how many of them drift."""

    events: Annotated[int, Field(ge=0, le=2**63 - 1)]
    drifted: Annotated[int, Field(ge=0, le=2**63 - 1)]


class SoakBody(Body):
    """How long each phase lasts at least, in microseconds."""

    expand: Micros
    dual_write: Micros
    migrate: Micros


class RulesBody(Body):
    soak: SoakBody
    drift_limit: Annotated[float, Field(ge=0, lt=1)]
    consumers: Annotated[list[Text], Field(max_length=MOST_CONSUMERS)]

    def rules(self) -> MigrationRules:
        return MigrationRules.read(self.model_dump())


class MigrationBody(Body):
    """A change of a migration: the revision that the client has seen, and the phase to enter."""

    revision: Annotated[int, Field(ge=0, le=2**53)]
    subject: str
    owner: Annotated[str, Field(min_length=1, max_length=300)]
    phase: str | None = None
    identity: Annotated[str | None, Field(max_length=100)] = None
    register_: Annotated[SchemaBody | None, Field(alias="register")] = None
    measured: MeasuredBody | None = None
    rules: RulesBody | None = None

    def change(self) -> MigrationChange:
        if self.measured is not None and self.measured.drifted > self.measured.events:
            raise refusals.unusable("measured: more events drift than there are; see how they were counted")
        return MigrationChange(
            self.revision,
            subject_of(self.subject),
            self.owner,
            phase_of(self.phase),
            self.identity,
            None if self.register_ is None else self.register_.definition(),
            None if self.measured is None else (self.measured.events, self.measured.drifted),
            None if self.rules is None else self.rules.rules(),
        )


class SeenBody(Body):
    """A consumer, and its reader schema as text."""

    consumer: Annotated[str, Field(min_length=1, max_length=300)]
    reader: Annotated[str, Field(max_length=1_000_000)]


def _number(name: str, value: int | None, nothing: tuple[int | None, ...]) -> int | None:
    if value in nothing:
        return None
    if value is None or not 1 <= value <= LARGEST:
        raise refusals.unusable(
            f"{name}: {value} is none; write a whole number from 1 to {LARGEST}, or leave it out"
        )
    return value


# Reading

B = TypeVar("B", bound=Body)


def require_json(headers: Mapping[str, str]) -> None:
    """Refuse a body that is not declared as JSON. Web pages cannot send such a body to another site."""
    kind, _, settings = headers.get("content-type", "").lower().partition(";")
    name, _, charset = settings.strip().partition("=")
    if kind.strip() not in MEDIA:
        raise Refused(415, f"The content type is {kind[:60]!r}; send JSON, as {' or '.join(MEDIA)}.")
    if name.strip() == "charset" and charset.strip().strip('"') not in _UTF8:
        raise Refused(415, f"The charset is {charset[:40]!r}; send UTF-8.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "The body is compressed; send it as it is.")
    if (length := headers.get("content-length", "")).isdecimal() and int(length[:20]) > LARGEST_BODY:
        raise body_too_large()


def body_too_large() -> Refused:
    return Refused(413, f"The body is larger than {LARGEST_BODY} bytes; send a smaller one.")


def read_body(raw: bytes, shape: type[B]) -> B:
    """The values of a body, checked by its shape."""
    try:
        value = read_json(raw.decode(), LARGEST_BODY)
    except UnicodeDecodeError as error:
        raise Refused(400, f"The body is not UTF-8, from byte {error.start} on.") from None
    except SchemaError as error:
        place = written_path(error.path) if error.path else "the body"
        raise Refused(400, f"{place}: {error.message}; {error.fix}") from None
    if not isinstance(value, dict):
        raise refusals.unusable("the body is no JSON object; write {…}")
    known = [field.alias or name for name, field in shape.model_fields.items()]
    for key in value:
        if key not in known and value[key] not in _NOTHING:
            raise refusals.unusable(
                f"{key[:60]!r} is not supported by this registry; leave it out. Known are {', '.join(known)}."
            )
    try:
        return shape.model_validate({key: value[key] for key in value if key in known})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        message = first["msg"]
        raise refusals.unusable(
            f"{written_path(first['loc'])}: {message[:1].lower()}{message[1:]}{_fix(first)}"
        ) from None


def _fix(problem: Mapping[str, Any]) -> str:
    """The fix, or else the value, if the message does not name it."""
    if problem["loc"] == ("schema",) and isinstance(problem["input"], dict | list):
        return '; a schema is sent as text, its quotes escaped: {"schema": "{\\"type\\": \\"string\\"}"}'
    shown = shown_value(problem["input"])
    return "" if problem["type"] == "missing" else f" (value: {shown})"
