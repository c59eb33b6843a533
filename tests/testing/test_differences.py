"""Lines held against what there is: each finds its own, and panes that replace each other stand in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latecomer.config.outputs import Output
from latecomer.model.panes import Op, Pane, Timing
from latecomer.testing import Times, assert_panes, play
from latecomer.testing.checking import compare, in_turn
from latecomer.testing.differences import Pair, differs, matched
from latecomer.testing.notation import read_pane, write_pane
from latecomer.testing.outcome import Outcome
from spark_kit import assert_in_turn, comparable
from testing.test_kit import LATE, pipeline

TIMES = Times()
TOTALS = Output.model_validate({"window": {"tumbling": "1m"}, "by": ["key"], "aggregates": {"n": "count(*)"}})
VISITS = TOTALS.model_copy(
    update={"window": Output(window={"session": "1m"}, aggregates={"n": "count(*)"}).window}
)


def panes(*lines: str) -> list[Pane]:
    """Panes as lines that leave nothing out say them."""
    return [_pane(line) for line in lines]


def _pane(line: str) -> Pane:
    stated = read_pane(line, TIMES)
    return Pane(
        *stated.window,
        (str(stated.fields["key"]),),
        {"n": int(stated.fields["n"])},
        stated.sequence or 0,
        stated.timing or Timing.ON_TIME,
        stated.op,
    )


def held(lines: list[str], results: list[Pane], rules: Output = TOTALS) -> tuple[Pair, ...]:
    return matched(
        [read_pane(line, TIMES) for line in lines],
        results,
        lambda line, pane: line.names(pane, rules.by, TIMES),
        lambda pane: write_pane(pane, rules.by, TIMES),
        in_turn(rules),
    )


REPLACED = panes(
    "14:00..14:01 key=a ON_TIME sequence=0 n=1",
    "14:00..14:01 key=a LATE retract sequence=0 n=1",
    "14:00..14:01 key=a LATE sequence=1 n=2",
)
LINES = ["14:00..14:01 ON_TIME", "14:00..14:01 retract", "14:00..14:01 LATE"]
MERGED = panes(
    "14:00..14:01 key=a LATE retract n=1",
    "14:02..14:03 key=a LATE retract n=1",
    "14:00..14:03 key=a LATE n=3",
)


def test_a_vague_line_leaves_the_pane_that_another_needs() -> None:
    results = panes("14:00..14:01 key=a n=1", "14:00..14:01 key=b n=1")
    assert not differs(held(["14:00..14:01", "14:00..14:01 key=a"], results))
    assert not differs(
        held(["14:00..14:01 n=1", "14:00..14:01", "14:00..14:01 key=a n=1"], [*results, results[0]])
    )
    assert differs(held(["14:00..14:01 key=a", "14:00..14:01 key=a"], results))


def test_panes_of_one_window_and_key_stand_in_the_order_in_which_they_were_told() -> None:
    assert not differs(held(LINES, REPLACED))
    assert not differs(held(["14:00..14:01 insert", "14:00..14:01 retract", "14:00..14:01 insert"], REPLACED))
    wrong = held([LINES[0], LINES[2], LINES[1]], REPLACED)
    assert [pair.same for pair in wrong] == [True, False, False]
    assert [pair.actual.split()[2] + pair.actual.split()[3] for pair in wrong[1:]] == [
        "LATEretract",
        "LATEsequence=1",
    ]


def test_windows_and_keys_do_not_wait_for_each_other() -> None:
    results = [*REPLACED, *panes("14:00..14:01 key=b n=7", "14:01..14:02 key=a n=8")]
    assert not differs(held(["14:01..14:02", "14:00..14:01 key=b", *LINES], results))


def test_a_session_comes_after_what_it_swallowed_is_taken_back() -> None:
    lines = ["14:02..14:03 retract", "14:00..14:01 retract", "14:00..14:03 LATE"]
    assert not differs(held(lines, MERGED, VISITS))
    assert differs(held([lines[0], lines[2], lines[1]], MERGED, VISITS))
    assert not differs(held([lines[0], lines[2], lines[1]], MERGED, TOTALS))  # three windows of their own


@pytest.fixture
def outcome() -> Outcome:
    return play(pipeline(allowed_lateness="1h", late="retract"), LATE)


def test_an_assertion_about_panes_asks_for_their_order(outcome: Outcome) -> None:
    lines = ["14:00..14:01 ON_TIME", "14:00..14:01 LATE retract", "14:00..14:01 LATE"]
    assert_panes(outcome, lines)
    with pytest.raises(AssertionError, match=r"≠ 14:00\.\.14:01 LATE retract"):
        assert_panes(outcome, [lines[0], lines[2], lines[1]])


def test_two_outcomes_that_differ_in_order_alone_differ(outcome: Outcome) -> None:
    turned = [
        replace(results, panes={name: each[::-1] for name, each in results.panes.items()})
        for results in outcome.steps
    ]
    (difference,) = compare(outcome, replace(outcome, steps=turned))
    assert difference.what == "panes of totals after step 2"


def test_the_tests_own_comparison_sees_a_pane_told_twice_and_one_out_of_turn() -> None:
    results = [(0, pane) for pane in REPLACED]
    assert len(comparable(results)) == 3
    with pytest.raises(AssertionError, match="twice"):
        comparable([*results, results[0]])
    assert_in_turn(results, results, TOTALS)
    with pytest.raises(AssertionError, match=Op.RETRACT.value):
        assert_in_turn([results[0], results[2], results[1]], results, TOTALS)
