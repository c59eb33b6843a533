"""When a batch was published: also after a kill, in an output that joined later, in a store of an earlier version."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from after.reading.as_of_kit import amounts
from after.story.story_kit import Story, second
from cli.cli_kit import at, pane
from latecomer.after.reading.reader import Reader
from latecomer.errors import PipelineError
from latecomer.model.durations import to_micros
from latecomer.store.publications import BatchCloser, Publications
from latecomer.store.store import joining


class Killed(BaseException):
    """As a SIGKILL there."""


def killed_at(place: str) -> Callable[[str, int], None]:
    def failpoint(name: str, _: int) -> None:
        if name == place:
            raise Killed

    return failpoint


def test_a_batch_that_is_not_complete_is_not_known_yet(played: Story) -> None:
    played.panes("totals", 2, [pane(5, 0, merchant="a", paise=7)])
    assert amounts(played) == [9, 1, 7]
    assert amounts(played, as_of=at(59)) == [9, 1]
    assert Reader(played.pipeline).panes("totals")["published_at"].to_pylist()[-2:] == [at(4), None]


def test_the_ledgers_commit_says_when_where_a_kill_came_right_after_it(played: Story) -> None:
    played.panes("totals", 2, [pane(5, 0, merchant="a", paise=7)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latecomer.store.publications.failpoint", killed_at("ledger.committed"))
        with pytest.raises(Killed):
            played.published(2, second(600))
    assert played.store.publications.last_batch() == 1
    for _ in range(2):
        assert amounts(played, as_of=at(9, 59)) == [9, 1]
        assert amounts(played, as_of=at(10)) == [9, 1, 7]
        assert Reader(played.pipeline).panes("totals")["published_at"].to_pylist()[-1] == at(10)
        BatchCloser(played.store, lambda: second(900)).begin()  # the next run writes it down
    assert played.store.publications.last_batch() == 2
    played.panes("totals", 3, [pane(6, 0, merchant="a", paise=8)])
    played.published(3, second(-9000))
    assert amounts(played, as_of=at(9, 59)) == [9, 1]
    assert amounts(played, as_of=at(10)) == [9, 1, 7, 8], (
        "a clock that was set back does not take the store with it"
    )


def test_an_output_that_joined_later_was_not_known_before_it_was_computed(played: Story) -> None:
    played.panes("successes", 1, [pane(0, 0, merchant="a", paise=5)])
    empty = played.store.ledger.schema.empty_table()
    BatchCloser(played.store, lambda: second(600)).close(1, empty, output="successes")
    reader = Reader(played.pipeline)
    assert reader.results("successes", as_of=at(9, 59)).num_rows == 0
    assert reader.results("successes", as_of=at(10)).num_rows == 1
    assert reader.panes("successes")["published_at"].to_pylist() == [at(10)]
    assert amounts(played, as_of=at(4)) == [9, 1]


def test_an_output_that_joined_nobody_knows_when_is_known_with_the_next_batch(played: Story) -> None:
    played.panes("successes", 1, [pane(0, 0, merchant="a", paise=5)])
    played.store.ledger.append(1, played.store.ledger.schema.empty_table(), joining("successes"))
    played.ledger(2, [{"output": "totals"}])
    forget_commits(played)
    for _ in range(2):
        reader = Reader(played.pipeline)
        with pytest.raises(PipelineError, match="it is not known which batches"):
            reader.results("successes", as_of=at(9, 59))
        assert reader.results("successes", as_of=datetime.now(UTC)).num_rows == 1
        assert reader.panes("successes")["published_at"].to_pylist() == [None]
        assert amounts(played, as_of=at(9, 59)) == [9, 1]
        BatchCloser(played.store).begin()


def forget_commits(story: Story) -> None:
    """As Delta does in time: the checkpoint says what there is, and the commits before it go."""
    root = story.store.ledger.root
    DeltaTable(root).create_checkpoint()
    for commit in sorted((root / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()


def test_a_store_of_an_earlier_version_goes_by_the_commits_of_its_ledger(story: Story) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # Delta's timestamps have no more digits
    for batch in (0, 1):
        story.panes("totals", batch, [pane(batch, 0, merchant="a", paise=batch + 1)])
        story.ledger(batch, [{"output": "totals"}])
    assert amounts(story, as_of=before) == []
    assert amounts(story, as_of=datetime.now(UTC)) == [1, 2]
    reader = Reader(story.pipeline)
    reader.results("totals", as_of=before)
    assert reader.notes == [
        "an earlier version wrote this store and did not say when batches were published: the times are those of its "
        "ledger's commits"
    ]
    first, second_one = Reader(story.pipeline).panes("totals")["published_at"].to_pylist()
    assert before <= first <= second_one <= datetime.now(UTC)
    BatchCloser(story.store).begin()
    assert Reader(story.pipeline).panes("totals")["published_at"].to_pylist() == [first, second_one]
    reader.results("totals", as_of=before)
    assert reader.notes == []
    forget_commits(story)
    assert Publications(story.store).times(0, 1, "totals") == {0: to_micros(first), 1: to_micros(second_one)}


def test_where_the_commits_are_gone_only_what_came_after_can_be_told(story: Story) -> None:
    for batch in (0, 1):
        story.panes("totals", batch, [pane(batch, 0, merchant="a", paise=batch + 1)])
        story.ledger(batch, [{"output": "totals"}])
    forget_commits(story)
    with pytest.raises(PipelineError, match=r"as_of: it is not known which .*\n.*fix: .* --as-of-arrival"):
        amounts(story, as_of=at(5))
    assert amounts(story, as_of=datetime.now(UTC)) == [1, 2]
    later = datetime.now(UTC) + timedelta(hours=1)
    story.panes("totals", 2, [pane(5, 0, merchant="a", paise=7)])
    story.published(2, to_micros(later))
    with pytest.raises(PipelineError, match="ask for a later moment"):
        amounts(story, as_of=at(5))
    assert amounts(story, as_of=datetime.now(UTC)) == [1, 2]
    assert amounts(story, as_of=later) == [1, 2, 7]
    assert Reader(story.pipeline).panes("totals")["published_at"].to_pylist()[::2] == [None, later]


@pytest.mark.parametrize(
    "planted",
    [
        {"published_at": "soon"},
        {"published_at": 7},
        {"timestamp": 10**30},
        {"timestamp": None},
        {"timestamp": "late"},
    ],
)
def test_a_commit_that_says_no_time_says_nothing(story: Story, planted: dict[str, Any]) -> None:
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=1)])
    story.ledger(0, [{"output": "totals"}])
    commit = story.store.ledger.root / "_delta_log" / f"{1:020d}.json"
    first, *others = commit.read_text(encoding="utf-8").splitlines()
    info = json.loads(first)["commitInfo"]
    commit.write_text("\n".join([json.dumps({"commitInfo": {**info, **planted}}), *others]), encoding="utf-8")
    assert Publications(story.store).times(0, 0, "totals") == {}
