"""What a polled source has answered: kept as long as a batch rests on it, and longer where it says what was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.store import files
from latecomer.store.answers import Answer, Answers, Lost

GAP = {"topics": {}, "lost": {"pay/0": [3, 9], "pay/2": [0, 1]}}


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    return Answers(tmp_path)


def test_there_are_none_at_first(answers: Answers) -> None:
    assert (answers.last(), answers.read(-1), answers.read(0), list(answers.lost())) == (-1, None, None, [])


def test_the_draft_of_an_answer_is_no_answer(answers: Answers) -> None:
    """A crash may leave only the draft of the first one."""
    draft = answers.root / "offsets" / ".000000000000.json"
    draft.parent.mkdir()
    draft.write_text('{"since": null, "unt')
    assert answers.last() == -1
    answers.write(0, Answer(None, 7))
    assert (answers.last(), answers.read(0)) == (0, Answer(None, 7))


def test_what_is_accepted_is_forgotten_but_for_what_was_lost(answers: Answers) -> None:
    for number in range(12):
        answers.write(number, Answer(number or None, GAP if number == 4 else number + 1))
    answers.forget(before=10)
    assert len(files.names(answers.root / "offsets")) == 3
    assert [answers.read(number) is not None for number in (3, 4, 9, 10, 11)] == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert list(answers.lost()) == [Lost("pay/0", 3, 9), Lost("pay/2", 0, 1)]


@pytest.mark.parametrize("until", ['the word "lost"', {"lost": 7}, ["lost"], {"lost": None}])
def test_other_answers_may_use_the_word(answers: Answers, until: object) -> None:
    answers.write(0, Answer(None, until))
    assert list(answers.lost()) == []
