"""Triggers: when panes fire besides when the watermark closes a window."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

from latecomer.model.base import Model
from latecomer.model.durations import PositiveDuration


class Every(Model):
    """At the multiples of an interval: `Every("1m")`.

    By the arrival clock, or with `clock="event"` by the watermark, counted from each window's start; the
    global window has none, and counts from the first watermark.
    """

    every: PositiveDuration
    clock: Literal["arrival", "event"] = "arrival"

    def __init__(self, every: object = None, /, **fields: Any) -> None:
        if every is not None:
            fields["every"] = every
        super().__init__(**fields)


class Count(Model):
    """When a batch ends with so many events that no pane has told: `Count(100)`."""

    count: Annotated[int, Field(strict=True, ge=1)]

    def __init__(self, count: object = None, /, **fields: Any) -> None:
        if count is not None:
            fields["count"] = count
        super().__init__(**fields)


def _read_early(written: object) -> object:
    if written is None or isinstance(written, Every | Count):
        return written
    if isinstance(written, dict):
        return _read_rule(written)
    return Every(written)


def _read_late(written: object) -> object:
    if written == "batch" or isinstance(written, Count):
        return written
    if isinstance(written, str) and written.startswith("every "):
        return Every(written.removeprefix("every ").strip())
    rule = _read_rule(written) if isinstance(written, dict) else written
    if not isinstance(rule, Every | Count):
        raise ValueError("is no trigger; write batch, every 30s or {count: 100}")
    if isinstance(rule, Every) and rule.clock != "arrival":
        raise ValueError("late panes follow the arrival clock; leave clock out")
    return rule


def _read_rule(written: dict[str, Any]) -> Every | Count:
    if ("every" in written) == ("count" in written):
        raise ValueError("needs one of every and count; write {every: 1m} or {count: 100}")
    return Count.model_validate(written) if "count" in written else Every.model_validate(written)


_INTERVAL = "(?=.*[1-9])([0-9]+(us|ms|s|m|h|d))+"


def _schema(text: dict[str, Any], every: dict[str, Any]) -> dict[str, Any]:
    interval = {"type": "string", "pattern": f"^{_INTERVAL}$", "examples": ["30s", "1m"]}
    return {
        "anyOf": [
            text,
            {
                "type": "object",
                "properties": {"every": interval, **every},
                "required": ["every"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"count": {"type": "integer", "minimum": 1}},
                "required": ["count"],
                "additionalProperties": False,
            },
        ]
    }


_EARLY = _schema(
    {"type": "string", "pattern": f"^{_INTERVAL}$", "examples": ["1m"]},
    {"clock": {"enum": ["arrival", "event"]}},
)
_EARLY["anyOf"].append({"type": "null"})
_LATE = _schema(
    {"type": "string", "pattern": f"^(batch|every +{_INTERVAL})$", "examples": ["batch", "every 30s"]},
    {"clock": {"const": "arrival"}},
)


class Trigger(Model):
    """When panes fire: before a window closes, when it does, for late events, and when nothing more can come."""

    early: Annotated[Every | Count | None, BeforeValidator(_read_early), WithJsonSchema(_EARLY)] = Field(
        default=None, description="publish open windows too: 1m, {every: 1m, clock: event} or {count: 100}"
    )
    late: Annotated[Literal["batch"] | Every | Count, BeforeValidator(_read_late), WithJsonSchema(_LATE)] = (
        Field(
            default="batch",
            description="late panes once a batch, every 30s, or {count: 100} late events a pane",
        )
    )
    on_time: Literal["always", "if_changed"] = Field(
        default="always", description="if_changed: no ON_TIME pane where the last early one says it all"
    )
    closing: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="a last pane for each window and key when nothing more can come for it"
    )

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What came after the first stores is left out where it is not used: their triggers are the same."""
        written: dict[str, Any] = dump(self)
        unused = {"on_time": "always", "closing": False}
        return {name: value for name, value in written.items() if unused.get(name, ...) != value}
