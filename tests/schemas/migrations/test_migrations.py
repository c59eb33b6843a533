"""Expand and contract: the file, the schemas, what is allowed when, and the calendar. Both worked examples."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from latecomer.errors import LatecomerError
from latecomer.model.durations import DAY
from latecomer.schemas.avro import incompatibilities, parse_schema
from latecomer.schemas.migrations import (
    LastSeen,
    MeasuredDrift,
    Migration,
    MigrationState,
    Phase,
    Situation,
    calendar,
    checks_of,
    consumer_standings,
    contracted_text,
    due_since,
    expanded_text,
    obstacles,
)
from latecomer.schemas.migrations.phases import steps
from schemas.migrations.migration_kit import HOUR, NOW, PRICING, RIDE, USER, avro, made, pricing, rename, text

TYPES = {
    "fare_cents": "bigint",
    "pricing.base": "bigint",
    "pricing.surge": "bigint",
    "pricing.tax": "bigint",
    "signup_date": "string",
    "created_at": "string",
}


def state(phase: Phase | None, migration: Migration, since: int = NOW, **more: Any) -> MigrationState:
    entered = {} if phase is None else {phase: since}
    return MigrationState("m", 1, phase=phase, identity=migration.identity, entered=entered, **more)


def reasons(migration: Migration, standing: MigrationState, now: int = NOW, schema: Any = RIDE) -> list[str]:
    contracted = parse_schema(contracted_text(expanded_text(text(schema), migration), migration))
    return [str(each) for each in obstacles(Situation(migration, standing, now, contracted))]


def names(schema: str) -> list[str]:
    return [each["name"] for each in json.loads(schema)["fields"]]


# The file


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"migration": "a b"}, "is no name"),
        ({"to": {}}, "to has no field"),
        ({"to": {"fare_cents": {"type": "long"}}}, "from and to both have fare_cents"),
        ({"from": {"fare_cents": "rand()"}}, "the expression of fare_cents: rand may not be called"),
        ({"from": {"fare_cents": "12"}}, "nothing says how pricing.base follows|names no field"),
        ({"from": {"fare_cents": "pricing.base + pricing.tax"}}, "nothing says how pricing.surge follows"),
        ({"drift_limit": "much"}, "is no share of events"),
        ({"drift_limit": 1}, "is no share of events"),
        ({"soak": {"expand": "soon"}}, "not a duration"),
        ({"from": {"fare.cents": "pricing.base"}}, "is no field of the schema"),
    ],
)
def test_a_file_that_is_wrong(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        made(pricing(**change))


def test_a_record_may_have_an_expression_for_some_of_its_fields() -> None:
    to = {"pricing": {"type": PRICING, "sql": {"base": "fare_cents - pricing.surge - pricing.tax"}}}
    migration = made(pricing(to=to))
    assert migration.forward == {"pricing.base": "fare_cents - pricing.surge - pricing.tax"}
    assert migration.new == ["pricing.base", "pricing.surge", "pricing.tax"]
    with pytest.raises(ValidationError, match=r"pricing.tip has an expression, and to has no such field"):
        made(pricing(to={"pricing": {"type": PRICING, "sql": {"tip": "fare_cents"}}}))


def test_soaks_and_consumers_may_change_under_way_and_fields_may_not() -> None:
    begun = made(pricing())
    assert made(pricing(consumers={}, soak={}, drift_limit=0)).identity == begun.identity
    other = made(pricing(to={"pricing": {"type": PRICING, "default": {"base": 0, "surge": 0, "tax": 0}}}))
    assert other.identity != begun.identity
    [reason] = reasons(other, state(Phase.EXPAND, begun), NOW + DAY)
    assert "another subject, other fields or other expressions" in reason


# The schemas


def test_expanding_adds_the_new_shape_and_everybody_reads_on() -> None:
    for schema, migration in ((RIDE, made(pricing())), (USER, made(rename()))):
        both = expanded_text(text(schema), migration)
        assert names(both) == [*names(text(schema)), *migration.to]
        old, new = parse_schema(text(schema)), parse_schema(both)
        assert not incompatibilities(old, new)
        assert not incompatibilities(new, old)
        left = contracted_text(both, migration)
        assert names(left) == [name for name in names(both) if name not in migration.from_]
        assert not incompatibilities(parse_schema(left), new)


def test_a_plain_additive_change_needs_no_migration() -> None:
    migration = made(pricing(**{"from": {}, "to": {"tip": {"type": "long"}}}))
    with pytest.raises(LatecomerError, match="an additive change; register the schema as it is"):
        expanded_text(text(RIDE), migration)
    [reason] = [str(each) for each in obstacles(Situation(migration, MigrationState("m"), NOW))]
    assert "no old field goes away" in reason


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (avro("Ride", ("fare_cent", "long")), "has no field fare_cents; did you mean fare_cent"),
        (avro("Ride", ("fare_cents", "long"), ("pricing", "long")), "has a field pricing already"),
        ("string", "is no Avro record"),
        # Without the old field nobody defines Pricing any more.
        (avro("Ride", ("fare_cents", PRICING), ("other", "Pricing")), "would not be valid"),
    ],
)
def test_what_cannot_be_expanded(schema: Any, said: str) -> None:
    with pytest.raises(LatecomerError, match=said):
        expanded_text(text(schema), made(pricing()))


# What may happen when


def test_a_step_is_one_phase_on_or_back() -> None:
    ways = [None, *Phase]
    single = {(a, b) for a in ways for b in ways if abs(steps(a, b)) == 1}
    assert len(single) == 8
    assert (Phase.CONTRACT, Phase.MIGRATE) in single
    assert (None, Phase.CONTRACT) not in single


def test_a_phase_lasts_as_long_as_it_must() -> None:
    migration = made(pricing())
    [reason] = reasons(migration, state(Phase.EXPAND, migration), NOW + 23 * HOUR)
    assert reason == "expand is to last 1d, and 1h of it are left (ask fares@rides.example)"
    assert not reasons(migration, state(Phase.EXPAND, migration), NOW + DAY)


def test_drift_is_to_be_looked_at_in_the_phase_itself() -> None:
    migration, later = made(pricing()), NOW + 7 * DAY
    dual = state(Phase.DUAL_WRITE, migration)
    for measured, said in (
        (None, "drift was not measured since dual_write began"),
        (MeasuredDrift(NOW - 1, 1000, 0), "drift was not measured since dual_write began"),
        (MeasuredDrift(NOW + 1, 0, 0), "there was no event"),
        (MeasuredDrift(NOW + 1, 1000, 2), "2 of 1,000 events drift (0.2%), and the limit is 0.1%"),
    ):
        [reason] = reasons(migration, replace(dual, measured=measured), later)
        assert said in reason
    assert not reasons(migration, replace(dual, measured=MeasuredDrift(NOW + 1, 1000, 1)), later)


def test_the_last_phase_waits_for_every_consumer() -> None:
    migration, later = made(pricing()), NOW + 14 * DAY
    last = state(Phase.MIGRATE, migration, measured=MeasuredDrift(NOW, 1000, 0))
    [reason] = reasons(migration, last, later)
    assert reason.startswith(
        "the consumer billing needs the old shape: fields[1]: the field fare_cents is read"
    )
    assert reason.endswith("(ask billing@rides.example)")


def test_a_default_does_not_make_a_reader_of_the_old_shape_ready() -> None:
    guessing = {"guessing": {"reader": avro("Ride", ("ride_id", "string"), ("fare_cents", "long", 0))}}
    migration = made(pricing(consumers=guessing))
    last = state(Phase.MIGRATE, migration, measured=MeasuredDrift(NOW, 1000, 0))
    [reason] = reasons(migration, last, NOW + 14 * DAY)
    assert "it reads fare_cents, which would always be the default 0" in reason


def test_an_alias_of_the_old_name_is_ready() -> None:
    reader = avro("User", ("user_id", "long"), ("created_at", ["null", "string"], None))
    reader["fields"][1]["aliases"] = ["signup_date"]
    migration = made(rename(consumers={"crm": {"reader": reader}}))
    last = state(Phase.MIGRATE, migration, measured=MeasuredDrift(NOW, 10, 0))
    assert not reasons(migration, last, NOW + 7 * DAY, USER)


def test_what_was_last_seen_counts_beside_what_is_declared() -> None:
    ready = pricing()["consumers"]["dashboard"]
    migration = made(pricing(consumers={"billing": ready}))
    last = state(Phase.MIGRATE, migration, measured=MeasuredDrift(NOW, 1000, 0))
    seen = replace(last, seen={"billing": LastSeen(NOW, text(RIDE))})
    [reason] = reasons(migration, seen, NOW + 14 * DAY)
    assert "billing was last seen with a schema that needs the old shape" in reason
    deployed = replace(last, seen={"billing": LastSeen(NOW, text(ready["reader"]))})
    assert not reasons(migration, deployed, NOW + 14 * DAY)
    contracted = parse_schema(contracted_text(expanded_text(text(RIDE), migration), migration))
    found = [consumer_standings(Situation(migration, each, NOW, contracted)) for each in (seen, deployed)]
    assert [standing.migrated for [standing] in found] == [False, True]


def test_what_the_registry_would_refuse_is_known_before() -> None:
    migration = made(pricing(consumers={}))
    last = state(Phase.MIGRATE, migration, measured=MeasuredDrift(NOW, 1000, 0))
    refused = Situation(migration, last, NOW + 14 * DAY, None, ["fare_cents has no default"])
    [reason] = obstacles(refused)
    assert "would refuse the contracted schema: fare_cents has no default" in str(reason)


def test_nothing_follows_the_last_phase() -> None:
    migration = made(pricing())
    [reason] = reasons(migration, state(Phase.CONTRACT, migration))
    assert "nothing follows" in reason


# The calendar


def test_the_calendar_before_it_begins() -> None:
    days = [
        (each.phase, (each.at - NOW) // DAY) for each in calendar(made(pricing()), MigrationState("m"), NOW)
    ]
    assert days == [(Phase.EXPAND, 0), (Phase.DUAL_WRITE, 1), (Phase.MIGRATE, 8), (Phase.CONTRACT, 22)]


def test_the_calendar_under_way_has_what_was_and_what_can_be() -> None:
    migration = made(pricing())
    entered = {Phase.EXPAND: NOW - 20 * DAY, Phase.DUAL_WRITE: NOW - 10 * DAY, Phase.CONTRACT: NOW - 5 * DAY}
    standing = MigrationState("m", 4, phase=Phase.DUAL_WRITE, entered=entered)
    found = calendar(migration, standing, NOW)
    assert [(each.at - NOW) // DAY for each in found] == [
        -20,
        -10,
        0,
        14,
    ]  # dual_write is over, so from now on
    assert [each.entered for each in found] == [True, True, False, False]


# Drift


def test_drift_is_forgiven_once_producers_were_right_for_the_soak_time() -> None:
    migration = made(pricing())
    assert due_since(migration, MigrationState("m"), NOW) is None
    begun = state(Phase.DUAL_WRITE, migration)
    assert due_since(migration, begun, NOW + DAY) == NOW
    assert due_since(migration, begun, NOW + 10 * DAY) == NOW + 3 * DAY
    migrating = replace(begun, phase=Phase.MIGRATE, entered={**begun.entered, Phase.MIGRATE: NOW + 8 * DAY})
    assert due_since(migration, migrating, NOW + 30 * DAY) == NOW + 16 * DAY
    assert due_since(made(pricing(soak={"dual_write": "0s"})), begun, NOW + DAY) == NOW


def row(fare: int | None, base: int | None, surge: int | None = 0, tax: int | None = 0) -> dict[str, Any]:
    return {"fare_cents": fare, "pricing.base": base, "pricing.surge": surge, "pricing.tax": tax}


def test_the_shapes_of_a_ride() -> None:
    checks = checks_of(made(pricing()), TYPES)
    assert not checks.needs_spark
    assert checks.drift(row(1250, 1000, 150, 100)) is None
    assert checks.drift(row(1250, 1000, 150, 101)) == "fare_cents differs"
    assert checks.drift(row(1250, 1000, None, 100)) == "fare_cents differs"
    assert checks.drift(row(1250, None, None, None)) == "the new shape is missing"
    assert checks.drift(row(None, 1000)) == "the old shape is missing"
    assert checks.drift(row(None, None, None, None)) is None


def test_the_shapes_of_a_user() -> None:
    checks = checks_of(made(rename()), TYPES)
    assert checks.needs_spark == ["signup_date"]  # left() is Spark's; the other way can be computed here
    simple = checks_of(made(rename(**{"from": {"signup_date": "created_at"}})), TYPES)
    assert simple.drift({"signup_date": "a", "created_at": "a"}) == "created_at differs"


def test_a_log_without_the_new_columns_cannot_be_compared() -> None:
    with pytest.raises(LatecomerError, match=r"the pipeline has no column pricing\.base"):
        checks_of(made(pricing()), {"fare_cents": "bigint"})
    with pytest.raises(
        LatecomerError, match="the expression of fare_cents cannot be used: its type is not known"
    ):
        checks_of(made(pricing()), {**TYPES, "pricing.tax": "decimal(10,2)"})
