"""Verdicts and fates."""

from __future__ import annotations

import pytest

from latecomer.model.verdicts import (
    BEGIN_OF_TIME,
    END_OF_TIME,
    Fate,
    LatePolicy,
    TooLatePolicy,
    Verdict,
    fate_of,
    judge,
)


@pytest.mark.parametrize(
    ("watermark", "verdict"),
    [
        (BEGIN_OF_TIME, Verdict.ON_TIME),
        (99, Verdict.ON_TIME),
        (100, Verdict.LATE),
        (109, Verdict.LATE),
        (110, Verdict.TOO_LATE),
        (END_OF_TIME, Verdict.TOO_LATE),
    ],
)
def test_the_verdict_changes_at_the_end_and_at_end_plus_lateness(watermark: int, verdict: Verdict) -> None:
    assert judge(100, watermark, allowed_lateness=10) is verdict


@pytest.mark.parametrize(("watermark", "verdict"), [(99, Verdict.ON_TIME), (100, Verdict.TOO_LATE)])
def test_without_lateness_nothing_is_merely_late(watermark: int, verdict: Verdict) -> None:
    assert judge(100, watermark, allowed_lateness=0) is verdict


@pytest.mark.parametrize("late", LatePolicy)
@pytest.mark.parametrize("too_late", TooLatePolicy)
def test_no_policy_touches_an_event_on_time(late: LatePolicy, too_late: TooLatePolicy) -> None:
    assert fate_of(Verdict.ON_TIME, late, too_late) is Fate.ON_TIME


@pytest.mark.parametrize("too_late", TooLatePolicy)
@pytest.mark.parametrize(
    ("late", "fate"),
    [
        (LatePolicy.DROP, Fate.DROPPED),
        (LatePolicy.UPDATE, Fate.LATE_ACCEPTED),
        (LatePolicy.RETRACT, Fate.LATE_ACCEPTED),
        (LatePolicy.SIDE_OUTPUT, Fate.SIDE_OUTPUT),
    ],
)
def test_the_late_policy_alone_decides_what_is_late(
    late: LatePolicy, too_late: TooLatePolicy, fate: Fate
) -> None:
    assert fate_of(Verdict.LATE, late, too_late) is fate


@pytest.mark.parametrize("late", LatePolicy)
@pytest.mark.parametrize(
    ("too_late", "fate"),
    [(TooLatePolicy.SIDE_OUTPUT, Fate.SIDE_OUTPUT), (TooLatePolicy.DROP, Fate.DROPPED)],
)
def test_the_too_late_policy_alone_decides_what_is_too_late(
    late: LatePolicy, too_late: TooLatePolicy, fate: Fate
) -> None:
    assert fate_of(Verdict.TOO_LATE, late, too_late) is fate
