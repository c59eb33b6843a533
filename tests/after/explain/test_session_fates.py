"""Which events are of the life of a session, and what became of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from after.explain.explain_kit import asked, times
from after.story.story_kit import Story, paid, second, shown
from cli.cli_kit import at
from examples_kit import drawn
from latecomer.after.explain.fates import Event, Policies, judged_sessions
from latecomer.after.explain.places import grown_from
from latecomer.config.outputs import Output
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.oracle.sessions import SessionBook
from latecomer.model.verdicts import Fate, LatePolicy
from latecomer.model.windows import Session, Window


def test_a_session_that_grew_is_one_life(story: Story) -> None:
    story.logged(0, 10, None, [paid(0, 1)])
    story.logged(1, 60, None, [paid(50, 2)])
    story.logged(2, 120, 100, [paid(25, 4), paid(110, 9)])
    story.panes("visits", 1, [shown((0, 30), 0, 1, 1)])
    story.panes("visits", 2, [shown((50, 80), 0, 2, 1)])
    story.watermarks(3, [{"tick": 3, "at": second(121), "watermark": second(101)}])
    grown = [
        shown((0, 30), 0, 1, 1, "LATE", "retract"),
        shown((50, 80), 0, 2, 1, "LATE", "retract"),
        shown((0, 80), 0, 7, 3, "LATE"),
    ]
    story.panes("visits", 3, grown)
    for moment in (at(0, 5), at(0, 40), at(1, 15)):
        found = asked(story, "visits", moment)
        assert [times(each.took) for each in found.panes] == [[0], [50], [], [], [25]]
        assert found.window == Window(second(0), second(80))
        assert (found.reconciled, found.notes, times(found.in_no_pane)) == (True, [], [])
        assert found.stands == {"paise": 7, "payments": 3}


def test_an_event_that_a_final_session_turns_away_is_of_its_life(story: Story) -> None:
    story.logged(0, 10, None, [paid(0, 1)])
    story.logged(1, 500, 400, [paid(20, 2), paid(450, 3)])
    story.panes("visits", 1, [shown((0, 30), 0, 1, 1)])
    judged = {"window_start": second(0), "window_end": second(30), "verdict": "too_late"}
    story.set_aside("visits", 1, {**paid(20, 2), **judged}, 0)
    found = asked(story, "visits", at(0, 20))
    assert times(found.left_out[Fate.SIDE_OUTPUT]) == [20]
    assert (found.notes, found.reconciled) == ([], True)


ARRIVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=12)


@drawn(60)
@given(
    ARRIVALS,
    st.integers(0, 10),
    st.sampled_from([LatePolicy.UPDATE, LatePolicy.DROP, LatePolicy.SIDE_OUTPUT]),
    st.sampled_from([None, "12us"]),
    st.sampled_from(["separate", "joins"]),
    st.sampled_from(["at_once", "after_gap"]),
)
def test_sessions_are_judged_as_the_oracle_judges_them(
    arrivals: list[tuple[int, int]],
    lateness: int,
    late: LatePolicy,
    longest: str | None,
    touching: str,
    final: str,
) -> None:
    window = Session("5us", max=longest, touching=touching, final=final)
    output = Output(window=window, aggregates={"n": "count(*)"}, late=late, allowed_lateness=f"{lateness}us")
    book, watermark = SessionBook(output, None, {}), 0
    events, expected = [], []
    for nth, (time, rise) in enumerate(arrivals):
        watermark += 3 * rise
        events.append(Event(time, nth, 0, nth, watermark))
        (judged,) = book.take(0, nth, Arrival(time, nth), watermark, nth)
        expected.append((judged.fate, judged.window, judged.verdict))
    found = judged_sessions(events, Policies([(0, output)], {}))
    assert [(each.fate, each.window, each.verdict) for each in found] == expected


@given(st.lists(st.integers(0, 60), max_size=10), st.integers(0, 60))
def test_what_is_connected_is_all_that_touches(moments: list[int], around: int) -> None:
    window = Session("5us")
    spans = [window.span(moment) for moment in moments]
    low, high = grown_from([Window(around, around + 1)], spans, window.joins)
    assert low <= around < high
    for moment in moments:
        span = window.span(moment)
        inside = low <= span.start and span.end <= high
        assert inside or not span.overlaps(Window(low, high))
    ends = {around, around + 1, *moments, *(moment + 5 for moment in moments)}
    assert {low, high} <= ends
