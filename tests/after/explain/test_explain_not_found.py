"""A window, a key or a number that is not there: the error names the nearest."""

from __future__ import annotations

import pytest

from after.explain.explain_kit import MINUTE, asked
from after.story.story_kit import Story, paid, second, shown
from cli.cli_kit import at
from latecomer.after.explain.explain import explain
from latecomer.after.reading.reader import Reader
from latecomer.errors import PipelineError
from latecomer.model.windows import Window


def test_a_moment_in_no_window_names_the_nearest(played: Story) -> None:
    with pytest.raises(PipelineError) as error:
        asked(played, moment=at(30))
    assert str(error.value) == (
        "pipeline upi: window: no window for merchant=amul holds this moment (value: '2026-04-25T12:30:00Z')\n"
        "    fix: the nearest are 2026-04-25T12:00:00Z to 2026-04-25T12:01:00Z"
    )


def test_a_key_that_never_was_names_the_nearest(played: Story) -> None:
    with pytest.raises(PipelineError) as error:
        asked(played, merchant="amull")
    assert "key: the window has no such key (value: 'merchant=amull')" in str(error.value)
    assert "fix: the nearest in this window: --key merchant=amul" in str(error.value)


def test_a_key_that_was_not_said_is_found_or_asked_for(played: Story) -> None:
    with pytest.raises(
        PipelineError, match=r"the window has 2 keys .*\n.*--key merchant=amul; --key merchant=bata"
    ):
        explain(Reader(played.pipeline), "totals", at(0, 30))
    played.panes("dropping", 1, [shown(MINUTE, 0, 50, 1, merchant="bata")])
    assert explain(Reader(played.pipeline), "dropping", at(0, 30)).key == {"merchant": "bata"}
    names = ["Kiosk Ost", "Café;"]
    played.panes("dropping", 2, [shown(MINUTE, 0, 50, 1, merchant=name) for name in names])
    with pytest.raises(PipelineError, match="--key 'merchant=Café;'; --key 'merchant=Kiosk Ost'"):
        explain(Reader(played.pipeline), "dropping", at(0, 30))


def test_a_column_that_is_no_key_is_told(played: Story) -> None:
    with pytest.raises(PipelineError, match="the output has no such key column"):
        asked(played, merchnt="a")


def test_of_windows_that_overlap_one_is_named_by_its_start(story: Story) -> None:
    story.logged(0, 100, None, [paid(70, 1)])
    story.panes("sliding", 0, [shown((0, 120), 0, 1, 1), shown((60, 180), 0, 1, 1)])
    with pytest.raises(
        PipelineError, match=r"2 windows hold this moment .*\n.*name one by its start: 2026-04-25T12:00:00Z"
    ):
        asked(story, "sliding", at(1, 10))
    assert asked(story, "sliding", at(1)).window == Window(second(60), second(180))


def test_an_empty_output_says_so(story: Story) -> None:
    with pytest.raises(PipelineError, match="no window has any number yet"):
        asked(story)
