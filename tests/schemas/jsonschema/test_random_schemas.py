"""What holds of every schema, with the `jsonschema` library as the judge of values.

A seed stands for schemas and values: `tests/jsonschema_kit.py` makes them.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples_kit import drawn
from jsonschema_kit import DRAFTS, anything, changed, judge, value_for, whole_schema
from latecomer.schemas.jsonschema import (
    Validator,
    changes,
    parse_schema,
    schema_of,
)
from latecomer.schemas.levels import Level, breaches

pytestmark = pytest.mark.drawn
seeds = st.integers(0, 2**64)


def written_alike(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def library_can_judge(schema: Any, draft: str) -> bool:
    """Its `unevaluated…` of 2019-09 are not those of that draft: `contains` evaluates items, as in
    2020-12, `additionalProperties` does not, and where `items` is true or false it fails."""
    return "2019-09" not in draft or "unevaluated" not in written_alike(schema)


@drawn(400)
@given(seeds, st.sampled_from(list(DRAFTS)))
def test_records_are_judged_as_another_library_judges_them(seed: int, draft: str) -> None:
    rng = Random(seed)
    schema = whole_schema(rng, draft)
    assume(library_can_judge(schema, draft))
    ours, theirs = Validator(schema_of(schema)), judge(schema)
    for _ in range(12):
        value = value_for(rng, schema, schema) if rng.random() < 0.8 else anything(rng)
        faults = ours.faults(written_alike(value))
        assert ours.allows(written_alike(value)) == (not faults)
        assert (not faults) == theirs.is_valid(value), (
            f"{written_alike(schema)} {written_alike(value)} {faults}"
        )


def shuffled(value: Any) -> Any:
    """The same JSON with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(each) for each in value] if isinstance(value, list) else value


@drawn(100)
@given(seeds, st.sampled_from((None, 1, 4)))
def test_layout_is_of_no_importance(seed: int, indent: int | None) -> None:
    schema = whole_schema(Random(seed))
    one, other = schema_of(schema), parse_schema(json.dumps(shuffled(schema), indent=indent))
    assert other == one
    assert other.text == one.text
    assert parse_schema(one.text) == one


@drawn(100)
@given(seeds)
def test_full_is_backward_and_forward(seed: int) -> None:
    rng = Random(seed)
    one = whole_schema(rng)
    new, versions = schema_of(one), {1: schema_of(changed(rng, one))}
    backward, forward, full = (
        breaches(changes, new, versions, level) for level in (Level.BACKWARD, Level.FORWARD, Level.FULL)
    )
    assert full == backward + forward
    reads_old, old_reads = changes(new, versions[1]), changes(versions[1], new)
    assert [each.text.partition(": ")[2] for each in full] == [str(each) for each in (*reads_old, *old_reads)]


@drawn(200)
@given(seeds)
def test_confluents_rules_end_and_lenient_takes_what_strict_takes(seed: int) -> None:
    rng = Random(seed)
    one = whole_schema(rng)
    new, old = schema_of(one), schema_of(changed(rng, one))
    assert changes(new, new) == []
    strict, lenient = changes(new, old), changes(new, old, lenient=True)
    assert strict or not lenient
    assert all(each.message and each.fix and str(each.rule) in str(each) for each in strict)


@drawn(200)
@given(seeds)
def test_every_problem_has_a_place_a_rule_and_a_fix(seed: int) -> None:
    rng = Random(seed)
    one = whole_schema(rng)
    for problem in changes(schema_of(one), schema_of(changed(rng, one))):
        assert problem.message
        assert problem.fix
        assert str(problem.rule) in str(problem)
