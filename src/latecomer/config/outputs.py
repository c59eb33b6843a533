"""An output: one number per window and key, and the policy for late events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from latecomer.config.renames import DerivedColumn, WrittenExpression
from latecomer.config.sinks import AnySink
from latecomer.config.spark_columns import as_sql
from latecomer.model.aggregates import WrittenAggregate
from latecomer.model.base import Model
from latecomer.model.durations import Duration
from latecomer.model.panes import Accumulation
from latecomer.model.predicates import check_where, named_columns, with_names_quoted
from latecomer.model.triggers import Trigger
from latecomer.model.verdicts import LatePolicy, OnError, TooLatePolicy
from latecomer.model.windows import AnyWindow


def _aggregates_as_mapping(value: object) -> object:
    if isinstance(value, dict) and not value:
        raise ValueError("is empty; name at least one aggregate, such as {events: count(*)}")
    return value


_OnError = Annotated[
    OnError,
    BeforeValidator(
        lambda written: OnError.NULL if written is None else written
    ),  # YAML reads null without quotes as None
    WithJsonSchema({"enum": [*map(str, OnError), None]}),
]


class Output(Model):
    """One number per window and key, and what happens to events that are late for it."""

    window: AnyWindow
    by: tuple[str, ...] = ()
    where: Annotated[str | None, BeforeValidator(as_sql)] = Field(
        None, description="an SQL predicate; what it excludes is counted as filtered"
    )
    aggregates: Annotated[dict[str, WrittenAggregate], BeforeValidator(_aggregates_as_mapping)]
    columns: dict[str, WrittenExpression] = Field(
        default_factory=dict,
        description="derived columns of this output alone: SQL over the source's columns",
    )
    allowed_lateness: Duration = 0
    late: LatePolicy = LatePolicy.SIDE_OUTPUT
    too_late: TooLatePolicy = Field(
        None,  # type: ignore[assignment]  # filled below, from `late`
        description="side_output unless late is drop",
        validate_default=False,
    )
    on_error: _OnError = Field(
        OnError.DEAD_LETTER,
        description="what becomes of an event for which a derived column or `where` cannot be computed: a dead letter "
        "of this output, null in that column, or the end of the run",
    )
    trigger: Trigger = Trigger()
    accumulation: Accumulation = Field(
        None,  # type: ignore[assignment]  # filled below, from `late`
        description="retracting with late: retract, else accumulating",
        validate_default=False,
    )
    emit_empty: bool = Field(
        False, description="a key that has had events gets a pane for a window without any, too"
    )
    sinks: tuple[AnySink, ...] = ()
    late_to: tuple[AnySink, ...] = Field((), description="sinks for the side output")

    @model_validator(mode="before")
    @classmethod
    def _defaults_that_follow_late(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        drops = fields.get("late") == LatePolicy.DROP
        retracts = fields.get("late") == LatePolicy.RETRACT
        following = {
            "too_late": TooLatePolicy.DROP if drops else TooLatePolicy.SIDE_OUTPUT,
            "accumulation": Accumulation.RETRACTING if retracts else Accumulation.ACCUMULATING,
        }
        return {**fields, **{key: value for key, value in following.items() if fields.get(key) is None}}

    @field_validator("where")
    @classmethod
    def _only_a_condition(cls, where: str | None) -> str | None:
        if where is not None and not where.strip():
            raise ValueError("an empty predicate; leave `where` out to keep every event")
        if where is None:
            return None
        check_where(where)
        return with_names_quoted(where)

    @property
    def columns_in_numbers(self) -> list[str]:
        """The derived columns among its keys and aggregated columns."""
        return [name for name in self.columns if name in self._keys_and_aggregated]

    @property
    def _keys_and_aggregated(self) -> set[str | None]:
        return {*self.by, *(each.column for each in self.aggregates.values())}

    @property
    def columns_in_where(self) -> list[str]:
        """The derived columns that its `where` names."""
        return named_columns(self.where or "", self.columns)

    def with_columns(self, columns: Mapping[str, DerivedColumn]) -> Output:
        """The output with the pipeline's derived columns that it names; its own go first where names are the same."""
        named = self._keys_and_aggregated
        for sql in (self.where or "", *self.trigger.whens):
            named |= set(named_columns(sql, columns))
        given = {name: each for name, each in columns.items() if name in named}
        return (
            self
            if given.keys() <= self.columns.keys()
            else self.model_copy(update={"columns": {**given, **self.columns}})
        )

    @property
    def sets_aside(self) -> bool:
        """Whether an event may go to the side output."""
        return self.late is LatePolicy.SIDE_OUTPUT or self.too_late is TooLatePolicy.SIDE_OUTPUT

    def without_sinks(self) -> Output:
        """The same output, which writes to the store alone."""
        return self.model_copy(update={"sinks": (), "late_to": ()})

    @property
    def replaces(self) -> bool:
        """Whether a pane may replace an earlier one."""
        return self.trigger.early is not None or self.late.accepts or self.window.joinable_after > 0

    @property
    def settles_after(self) -> int:
        """How long after its end a window may still change."""
        lateness = self.allowed_lateness if self.late.accepts else 0
        return lateness + self.window.joinable_after

    @property
    def fires_within(self) -> bool:
        """Whether panes may fire within a batch, not only at its end."""
        return self.trigger.fires_within

    @property
    def closes_silently(self) -> bool:
        """Whether a window may close without a pane, where its last early pane has published everything."""
        return self.trigger.on_time == "if_changed" and self.trigger.early is not None
