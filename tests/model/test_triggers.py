"""Triggers as they are written."""

from __future__ import annotations

import pytest

from latecomer.errors import PipelineError
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Trigger, Until, When
from latecomer.model.windows import Session


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, None),
        ("1m", Every("1m")),
        ({"every": "1m"}, Every("1m")),
        ({"every": "1m", "clock": "event"}, Every("1m", clock="event")),
        ({"count": 100}, Count(100)),
    ],
)
def test_early(written: object, expected: object) -> None:
    trigger = Trigger(early=written)
    assert trigger.early == expected
    assert Trigger.model_validate(trigger.model_dump(mode="json")) == trigger


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("batch", "batch"),
        ("every 30s", Every("30s")),
        ({"every": "30s"}, Every("30s")),
        ({"count": 100}, Count(100)),
    ],
)
def test_late(written: object, expected: object) -> None:
    trigger = Trigger(late=written)
    assert trigger.late == expected
    assert Trigger.model_validate(trigger.model_dump(mode="json")) == trigger


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"after_first": "30s"}, AfterFirst("30s")),
        ({"when": "paise > 9"}, When("paise > 9")),
        ({"any": [{"count": 3}, {"every": "1m"}]}, AnyOf([Count(3), Every("1m")])),
        (
            {"all": [{"count": 3}, {"any": [{"when": "ok"}, {"every": "1m"}]}]},
            AllOf([Count(3), AnyOf([When("ok"), Every("1m")])]),
        ),
        ({"repeat": {"every": "1m"}, "until": {"count": 9}}, Until(Every("1m"), until=Count(9))),
        ({"repeat": {"count": 3}}, Count(3)),
        ({"count": 3, "per": "batch"}, Count(3, per="batch")),
    ],
)
def test_rules_that_are_put_together(written: object, expected: object) -> None:
    trigger = Trigger(early=written)
    assert trigger.early == expected
    assert Trigger.model_validate(trigger.model_dump(mode="json")) == trigger
    assert Trigger.model_validate_json(trigger.model_dump_json()) == trigger


@pytest.mark.parametrize(
    ("fields", "fix"),
    [
        ({"early": "often"}, "write a number and a unit"),
        ({"early": {}}, "write {every: 1m}, {count: 100}"),
        ({"early": {"every": "1m", "count": 3}}, "needs one rule, not every and count"),
        ({"early": {"any": []}}, "name at least one"),
        ({"early": {"all": [{"count": 3}, "1m"]}}, "is no rule"),
        ({"early": {"any": [{"count": 3}, {"count": 2, "per": "batch"}]}}, "per: batch stands alone"),
        ({"early": {"any": [{"count": 3}, {"repeat": {"count": 1}, "until": {"count": 9}}]}}, "stands alone"),
        ({"early": {"when": " "}}, "an empty predicate"),
        ({"early": {"when": "rand() > 0.5"}}, "rand"),
        ({"late": {"repeat": {"count": 1}, "until": {"count": 9}}}, "until is for early panes"),
        ({"late": {"any": [{"count": 3}, {"every": "1m", "clock": "event"}]}}, "leave clock out"),
        ({"early": {"count": 0}}, "write 1 or more"),
        ({"early": {"count": True}}, "write a whole number"),
        ({"late": "30s"}, "write batch, every 30s or"),
        ({"late": "every now and then"}, "write a number and a unit"),
        ({"late": {"every": "30s", "clock": "event"}}, "leave clock out"),
    ],
)
def test_what_is_no_trigger_is_refused(fields: dict[str, object], fix: str) -> None:
    with pytest.raises(PipelineError, match=fix):
        Trigger(**fields)


def test_a_store_that_knew_fewer_settings_sees_no_change() -> None:
    """What a store writes down of an output holds a setting that came later only where it is used."""
    assert Trigger().model_dump(mode="json") == {"early": None, "late": "batch"}
    assert Session("10s").model_dump(mode="json").keys() == {"session", "max"}
    used = Trigger(on_time="if_changed", closing=True)
    assert Trigger.model_validate(used.model_dump(mode="json")) == used
    joined = Session("10s", touching="joins", final="after_gap")
    assert joined.model_dump(mode="json").keys() == {"session", "max", "touching", "final"}
