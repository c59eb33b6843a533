"""Triggers: when panes fire, besides the moment when the watermark closes a window.

A rule looks at the events of a window and key that no pane has published yet. Rules repeat: after each pane they start
again. They can be combined with `any`, `all` and `until`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

from latecomer.model.base import Model, without_defaults
from latecomer.model.durations import PARTS, WRITTEN_POSITIVE, PositiveDuration
from latecomer.model.predicates import check_where, with_names_quoted

Per = Literal["firing", "batch"]


class Rule(Model):
    """When the events that no pane has published are published."""

    def __init__(self, first: object = None, /, **fields: Any) -> None:
        if first is not None:
            fields[next(iter(type(self).model_fields))] = first
        super().__init__(**fields)

    @property
    def per_batch(self) -> bool:
        """Whether it is checked only when a batch ends, for at most one pane; otherwise each firing is a pane."""
        return False

    @property
    def parts(self) -> tuple[Rule, ...]:
        """The rules that it combines."""
        return ()

    @property
    def leaves(self) -> Iterator[Rule]:
        """The simple rules in it."""
        for part in self.parts or (self,):
            yield from part.leaves if self.parts else (self,)

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(dump(self), per=None)


class Every(Rule):
    """At the multiples of an interval: `Every("1m")`.

    By the arrival clock, or with `clock="event"` by the watermark, counted from each window's start; the
    global window has none, and counts from the first watermark.
    """

    every: PositiveDuration
    clock: Literal["arrival", "event"] = "arrival"
    per: Per | None = None

    @property
    def per_batch(self) -> bool:
        return self.per == "batch"


class Count(Rule):
    """At so many events: `Count(100)`."""

    count: Annotated[int, Field(strict=True, ge=1)]
    per: Per | None = None

    @property
    def per_batch(self) -> bool:
        return self.per == "batch"


class AfterFirst(Rule):
    """So long after the first event that no pane has published, by the arrival clock: `AfterFirst("30s")`."""

    after_first: PositiveDuration


def _condition(when: str) -> str:
    if not when.strip():
        raise ValueError('an empty predicate; write one, such as when: "paise > 100000"')
    check_where(when)
    return with_names_quoted(when)


class When(Rule):
    """At each event for which an SQL predicate is true: `When("paise > 100000")`."""

    when: Annotated[str, AfterValidator(_condition)]


def _simple(written: object) -> Rule:
    rule = read_rule(written)
    if any(isinstance(each, Until) for each in (rule, *rule.parts)):
        raise ValueError("until stands alone; put any or all inside repeat and until")
    if rule.per_batch:
        raise ValueError("per: batch stands alone; leave it out within other rules")
    return rule


Part = Annotated[SerializeAsAny[Rule], BeforeValidator(_simple), WithJsonSchema({"type": "object"})]
Parts = Annotated[tuple[Part, ...], Field(min_length=1)]


class AnyOf(Rule):
    """As soon as one of several rules fires: `AnyOf([Count(100), AfterFirst("30s")])`."""

    any: Parts

    @property
    def parts(self) -> tuple[Rule, ...]:
        return self.any


class AllOf(Rule):
    """Once each of several rules has fired since the last pane: `AllOf([Count(100), Every("1m")])`."""

    all: Parts

    @property
    def parts(self) -> tuple[Rule, ...]:
        return self.all


class Until(Rule):
    """A rule that ends with the first firing of another one, which counts all events of the window:
    `Until(Every("1m"), until=Count(1000))`. The pane of that firing is the last early one."""

    repeat: Part
    until: Part

    @property
    def parts(self) -> tuple[Rule, ...]:
        return self.repeat, self.until


KINDS: dict[str, type[Rule]] = {
    "every": Every,
    "count": Count,
    "after_first": AfterFirst,
    "when": When,
    "any": AnyOf,
    "all": AllOf,
    "until": Until,
}
"""Key in the pipeline file → rule."""
_EXAMPLES = (
    "{every: 1m}, {count: 100}, {after_first: 30s}, {when: paise > 100000}, {any: [...]} or {all: [...]}"
)


def read_rule(written: object) -> Rule:
    """A rule as it is written. `{repeat: RULE}` alone is the rule itself, since all rules repeat."""
    if isinstance(written, Rule):
        return written
    if not isinstance(written, dict):
        raise ValueError(f"is no rule; write {_EXAMPLES}")
    if set(written) == {"repeat"}:
        return read_rule(written["repeat"])
    kinds = [key for key in KINDS if key in written]
    if len(kinds) != 1:
        both = f", not {' and '.join(kinds)}" if kinds else ""
        raise ValueError(f"needs one rule{both}; write {_EXAMPLES}, or put several into any or all")
    return KINDS[kinds[0]].model_validate(written)


def _read_early(written: object) -> object:
    if written is None:
        return None
    return read_rule(written) if isinstance(written, dict | Rule) else Every(written)


def _read_late(written: object) -> object:
    if written == "batch":
        return written
    if isinstance(written, str) and written.startswith("every "):
        return Every(written.removeprefix("every ").strip())
    if not isinstance(written, dict | Rule):
        raise ValueError("is no trigger; write batch, every 30s or {count: 100}")
    rule = read_rule(written)
    if isinstance(rule, Until):
        raise ValueError("until is for early panes; leave it out")
    if any(isinstance(each, Every) and each.clock != "arrival" for each in rule.leaves):
        raise ValueError("late panes follow the arrival clock; leave clock out")
    return rule


def _schema(text: str, examples: list[str], clock: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a trigger that is written as a text, or as one of the rules."""
    kinds = [kind.model_json_schema() for kind in KINDS.values() if kind is not Until]
    kinds[0]["properties"]["clock"] = clock
    repeated = {"type": "object", "properties": {"repeat": {"type": "object"}}}
    alone = {**repeated, "required": ["repeat"], "additionalProperties": False}
    return {"anyOf": [{"type": "string", "pattern": text, "examples": examples}, *kinds, alone, *more]}


_EARLY = _schema(
    WRITTEN_POSITIVE["pattern"],
    ["1m"],
    {"enum": ["arrival", "event"]},
    Until.model_json_schema(),
    {"type": "null"},
)
_LATE = _schema(f"^(batch|every +(?=.*[1-9]){PARTS})$", ["batch", "every 30s"], {"const": "arrival"})


def per_firing(rule: object) -> TypeGuard[Rule]:
    """Whether each firing of a rule is a pane, independent of where batches are cut."""
    return isinstance(rule, Rule) and not rule.per_batch


class Trigger(Model):
    """When panes fire: before a window closes, when it does, for late events, and when nothing more can come."""

    early: Annotated[SerializeAsAny[Rule] | None, BeforeValidator(_read_early), WithJsonSchema(_EARLY)] = (
        Field(
            default=None,
            description="publish open windows too: 1m, {every: 1m, clock: event} or {count: 100}",
        )
    )
    late: Annotated[
        Literal["batch"] | SerializeAsAny[Rule], BeforeValidator(_read_late), WithJsonSchema(_LATE)
    ] = Field(
        default="batch",
        description="late panes once a batch, every 30s, or {count: 100} late events a pane",
    )
    on_time: Literal["always", "if_changed"] = Field(
        default="always", description="if_changed: no ON_TIME pane where the last early one says it all"
    )
    closing: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="a last pane for each window and key when nothing more can come for it"
    )

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(dump(self), on_time="always", closing=False)

    @property
    def fires_within(self) -> bool:
        """Whether panes may fire within a batch, not only at its end."""
        return any(map(per_firing, self.rules))

    @property
    def rules(self) -> list[Rule]:
        """The rules that are set, the early one first."""
        return [each for each in (self.early, self.late) if isinstance(each, Rule)]

    @property
    def whens(self) -> list[str]:
        """The predicates in the rules, each once."""
        leaves = (leaf for rule in self.rules for leaf in rule.leaves)
        return list(dict.fromkeys(leaf.when for leaf in leaves if isinstance(leaf, When)))
