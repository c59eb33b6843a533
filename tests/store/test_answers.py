"""What a polled source has answered: kept as long as a batch rests on it, and longer where it says what was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.errors import StoreError
from latecomer.store import files
from latecomer.store.answers import Lost, SourceAnswer, SourceAnswers
from latecomer.store.inbox import Inbox

GAP = {"topics": {}, "lost": {"pay/0": [3, 9], "pay/2": [0, 1]}}


@pytest.fixture
def answers(tmp_path: Path) -> SourceAnswers:
    return SourceAnswers(tmp_path)


def test_there_are_none_at_first(answers: SourceAnswers) -> None:
    assert (answers.last(), answers.read(-1), answers.read(0), list(answers.lost())) == (-1, None, None, [])


def test_the_draft_of_an_answer_is_no_answer(answers: SourceAnswers) -> None:
    """A crash may leave only the draft of the first one."""
    draft = answers.root / "offsets" / ".000000000000.json"
    draft.parent.mkdir()
    draft.write_text('{"since": null, "unt')
    assert answers.last() == -1
    answers.write(0, SourceAnswer(None, 7))
    assert (answers.last(), answers.read(0)) == (0, SourceAnswer(None, 7))


def test_what_is_accepted_is_forgotten_but_for_what_was_lost(answers: SourceAnswers) -> None:
    for number in range(12):
        answers.write(number, SourceAnswer(number or None, GAP if number == 4 else number + 1))
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
def test_other_answers_may_use_the_word(answers: SourceAnswers, until: object) -> None:
    answers.write(0, SourceAnswer(None, until))
    assert list(answers.lost()) == []


DAMAGED = [b'{"since": null, "unt', b"", b"[]", b"7", b'{"until": 1}', b"[" * 100_000, b"\xff"]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_answer_is_named(answers: SourceAnswers, content: bytes) -> None:
    answers.write(3, SourceAnswer(None, 7))
    answers.file(3).write_bytes(content)
    for asks in (answers.read, Inbox(answers.root, answers.root).read):
        with pytest.raises(
            StoreError, match=r"offsets/000000000003\.json cannot be read: .*; restore the store"
        ):
            asks(3)


@pytest.mark.parametrize("text", ['{"lost"', '{"since": 1, "until": {"lost": {"pay/0": 7}}}'])
def test_a_damaged_answer_that_says_what_was_lost_is_named(answers: SourceAnswers, text: str) -> None:
    answers.write(3, SourceAnswer(None, 7))
    answers.file(3).write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"000000000003\.json cannot be read"):
        list(answers.lost())
    with pytest.raises(StoreError, match=r"000000000003\.json cannot be read"):
        answers.forget(before=4)


@pytest.mark.parametrize(
    "receipt",
    [7, None, {}, {"files": [], "at": 1, "more": 2}, {"files": "a", "at": 1}, {"files": [1], "at": 1},
     {"files": [], "at": "1"}, {"files": [], "at": 1, "reached": {"query": None}}],
)  # fmt: skip
def test_a_receipt_that_is_none_is_named(answers: SourceAnswers, receipt: object) -> None:
    answers.write(3, SourceAnswer(None, receipt))
    with pytest.raises(StoreError, match=r"000000000003\.json cannot be read"):
        Inbox(answers.root, answers.root).read(3)
