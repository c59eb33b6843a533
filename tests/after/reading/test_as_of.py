"""What was known at a moment, and what was valid at one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from after.story.story_kit import PIPELINE, Story, new_story, second
from cli.cli_kit import MINUTE, NOON, Lake, at, pane
from examples_kit import drawn
from latecomer.after.reading.reader import Reader
from latecomer.cli import app
from latecomer.cli.options import WrongUsage
from latecomer.errors import PipelineError
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.panes import Op, Pane, Place, Timing, summed, surviving
from latecomer.model.publications import publication_time
from latecomer.store.publications import PublicationClock, Publications
from latecomer.store.store import joining

Step = tuple[int, str | None, Op]
BATCHES = st.lists(
    st.tuples(
        st.integers(-2, 3),
        st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(("x", None)), st.sampled_from(tuple(Op))), max_size=4
        ),
    ),
    min_size=1,
    max_size=5,
)
"""For each batch, by how many seconds the machine's clock went on or was set back, and what it published."""


def history(batches: list[tuple[int, list[Step]]]) -> list[tuple[int, list[Pane]]]:
    """Batches as they can happen, with the machine's clock: sequences grow, a retract takes back the last insert."""
    last: dict[tuple[int, str | None], tuple[int, bool]] = {}
    clock, played = 0, []
    for seconds, steps in batches:
        clock += seconds
        panes = []
        for minute, key, op in steps:
            sequence, stands = last.get((minute, key), (-1, False))
            if op is Op.RETRACT and not stands:
                continue
            sequence += op is Op.INSERT
            last[minute, key] = sequence, op is Op.INSERT
            start = NOON + minute * MINUTE
            values = {"paise": sequence + 1, "payments": 1}
            panes.append(Pane(start, start + MINUTE, (key,), values, sequence, Timing.LATE, op))
        played.append((clock, panes))
    return played


def stored(lake: Lake, output: str, batch: int, panes: list[Pane]) -> None:
    rows = [
        pane(
            (each.window_start - NOON) // MINUTE,
            each.sequence,
            each.op,
            each.timing,
            merchant=each.key[0],
            # When the window closed says nothing of when the batch was published.
            fired_at=NOON - MINUTE,
            **each.values,
        )
        for each in panes
    ]
    lake.panes(output, batch, rows)


def placed(rows: list[dict[str, Any]]) -> dict[Place, dict[str, Any]]:
    return {
        (to_micros(row["window_start"]), to_micros(row["window_end"]), (row["merchant"],)): row
        for row in rows
    }


@drawn(8)
@given(BATCHES, st.sampled_from(("totals", "successes", "parts")))
def test_as_of_a_moment_stands_what_the_model_says_of_the_panes_that_had_been_published(
    batches: list[tuple[int, list[Step]]], output: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = new_story(Path(folder))
        played, at, published = history(batches), None, []
        for batch, (clock, panes) in enumerate(played):
            stored(story, output, batch, panes)
            story.published(batch, second(clock))
            at = publication_time(at, second(clock))
            published.append((at, panes))
        reader, rules = Reader(story.pipeline), story.pipeline.outputs[output]
        shown = reader.panes(output)
        assert set(zip(shown["batch"].to_pylist(), shown["published_at"].to_pylist(), strict=True)) == {
            (batch, to_moment(at)) for batch, (at, panes) in enumerate(published) if panes
        }
        for moment in {at + more for at, _ in published for more in (-1, 0, 999_999)}:
            known = [each for at, panes in published if at <= moment for each in panes]
            found = placed(reader.results(output, as_of=to_moment(moment)).to_pylist())
            if output == "parts":
                expected = summed(known, rules.aggregates)
                assert {
                    p: {"paise": r["paise"], "payments": r["payments"]} for p, r in found.items()
                } == expected
            else:
                stands = {place: one.sequence for place, one in surviving(known).items()}
                assert {place: row["sequence"] for place, row in found.items()} == stands
        now = reader.results(output)
        assert reader.results(output, as_of=datetime(9999, 1, 1, tzinfo=UTC)) == now


class Killed(BaseException):
    """As a SIGKILL there."""


def killed_at(place: str) -> Callable[[str, int], None]:
    def failpoint(name: str, _: int) -> None:
        if name == place:
            raise Killed

    return failpoint


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return new_story(tmp_path)


@pytest.fixture
def played(story: Story) -> Story:
    """A number published at 12:02, corrected at 12:04; another window beside it at 12:04. All of it arrived within
    a minute, hours before."""
    story.watermarks(0, [{"tick": 1, "at": second(-7200)}])
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=5, fired_at=second(-7200))])
    story.published(0, second(120))
    story.watermarks(1, [{"tick": 3, "at": second(-7140), "kind": "drain"}])
    replaced = [
        pane(0, 0, "retract", "LATE", merchant="a", paise=5, fired_at=second(-7140)),
        pane(0, 1, timing="LATE", merchant="a", paise=9, fired_at=second(-7140)),
        pane(1, 0, merchant="a", paise=1, fired_at=second(-7140)),
    ]
    story.panes("totals", 1, replaced)
    story.published(1, second(240))
    return story


def amounts(story: Story, **asked: Any) -> list[int]:
    found: list[int] = Reader(story.pipeline).results("totals", **asked)["paise"].to_pylist()
    return found


def test_a_pane_is_known_when_it_was_published_not_when_it_could_have_been(played: Story) -> None:
    assert amounts(played, as_of=at(1, 59)) == []
    assert amounts(played, as_of=at(2)) == [5]
    assert amounts(played, as_of=at(3, 59)) == [5]
    assert amounts(played, as_of=at(4)) == [9, 1]
    assert amounts(played, as_of_arrival=at(0) - timedelta(hours=2)) == [5]
    assert amounts(played, as_of_arrival=at(0) - timedelta(hours=1)) == [9, 1]


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
        PublicationClock(played.store, lambda: second(900)).begin()  # the next run writes it down
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
    PublicationClock(played.store, lambda: second(600)).close(1, empty, output="successes")
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
        PublicationClock(played.store).begin()


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
    PublicationClock(story.store).begin()
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


def test_without_a_timeline_the_arrival_clock_goes_by_when_a_pane_fired(story: Story) -> None:
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=7, fired_at=second(60))])
    assert amounts(story, as_of_arrival=at(0, 59)) == []
    assert amounts(story, as_of_arrival=at(1)) == [7]


def test_valid_at_keeps_the_windows_that_hold_the_moment(played: Story) -> None:
    assert amounts(played, valid_at=at(0)) == [9]
    assert amounts(played, valid_at=at(0, 59)) == [9]
    assert amounts(played, valid_at=at(1)) == [1]
    assert amounts(played, valid_at=at(2)) == []


def test_both_together(played: Story) -> None:
    assert amounts(played, as_of=at(2), valid_at=at(0)) == [5]
    assert amounts(played, as_of=at(2), valid_at=at(1)) == []
    assert amounts(played, as_of=at(4), valid_at=at(1)) == [1]


def test_a_moment_without_zone_is_utc(played: Story) -> None:
    assert amounts(played, as_of=datetime(2026, 4, 25, 12, 2)) == [5]
    assert amounts(played, as_of=at(2) - timedelta(microseconds=1)) == []


def test_valid_at_holds_for_open_windows_too(played: Story) -> None:
    for minute in (2, 3):
        played.partials("totals", minute, [pane(minute, None, merchant="a", paise=minute)])
    reader = Reader(played.pipeline)
    shown = reader.results("totals", include_open=True, valid_at=at(3)).to_pylist()
    assert [(row["paise"], row["timing"]) for row in shown] == [(3, "OPEN")]


@pytest.mark.parametrize("option", ["as_of", "as_of_arrival"])
def test_open_windows_have_no_past(played: Story, option: str) -> None:
    with pytest.raises(
        PipelineError, match=rf"{option}: open windows are known only as they are now .*\n.*fix"
    ):
        amounts(played, include_open=True, **{option: at(2)})


def test_only_one_clock_can_be_asked(played: Story) -> None:
    with pytest.raises(PipelineError, match=r"as_of: goes by another clock than as_of_arrival .*\n.*fix"):
        amounts(played, as_of=at(2), as_of_arrival=at(2))


# The clock


@pytest.fixture
def caught_up(story: Story) -> Story:
    """A month in one batch: a window that closed on its first day and one that closed on its last."""
    story.watermarks(0, [{"tick": 1, "at": second(95)}, {"tick": 2, "at": second(30 * 86_400)}])
    panes = [
        pane(0, 0, merchant="a", paise=5, fired_at=second(95)),
        pane(0, 0, "retract", "LATE", merchant="a", paise=5, fired_at=second(200)),
        pane(0, 1, timing="LATE", merchant="a", paise=9, fired_at=second(200)),
        pane(1, 0, merchant="a", paise=1, fired_at=second(30 * 86_400)),
    ]
    story.panes("totals", 0, panes)
    story.published(0, second(31 * 86_400))
    return story


def test_by_the_arrival_clock_a_pane_counts_from_what_fired_it(caught_up: Story) -> None:
    assert amounts(caught_up, as_of=at(5)) == []
    for moment, known in ((at(1, 34), []), (at(1, 35), [5]), (at(3, 20), [9]), (at(5), [9])):
        assert amounts(caught_up, as_of_arrival=moment) == known
    month, day = at(0) + timedelta(days=30), timedelta(days=1)
    assert amounts(caught_up, as_of_arrival=month) == amounts(caught_up, as_of=month + day) == [9, 1]
    assert amounts(caught_up, as_of=month) == []


def test_a_pane_of_which_is_not_known_what_fired_it_counts_from_the_end_of_its_batch(story: Story) -> None:
    story.watermarks(0, [{"tick": 1, "at": second(120)}])
    story.panes("totals", 0, [pane(0, 0, merchant="a", paise=5, fired_at=None)])
    assert amounts(story, as_of_arrival=at(1)) == []
    assert amounts(story, as_of_arrival=at(2)) == [5]


def test_the_old_way_to_choose_a_clock_works_and_names_the_new_one(caught_up: Story) -> None:
    with pytest.warns(DeprecationWarning, match="as_of_arrival=T"):
        assert amounts(caught_up, as_of=at(5), clock="arrival") == [9]
    with pytest.warns(DeprecationWarning, match="clock is deprecated"):
        assert amounts(caught_up, as_of=at(5), clock="published") == []


def test_another_clock_is_told_with_those_there_are(played: Story) -> None:
    with pytest.raises(PipelineError, match=r"clock: there is no such clock \(value: 'wall'\)\n.*arrival"):
        amounts(played, as_of=at(2), clock="wall")


def test_explain_tells_both_clocks(caught_up: Story) -> None:
    asked = ["explain", caught_up.file, "totals", "--window", "2026-04-25T12:00"]
    published = "published by batch 0 at 2026-05-26T12:00:00Z, arrival clock 2026-05-25T12:00:00Z, under"
    for clock in ("published", "arrival"):
        assert f"  fired at 2026-04-25T12:01:35Z, {published}" in said(*asked, "--clock", clock)
    panes = json.loads(said(*asked, "--clock", "arrival", "-f", "json"))["panes"]
    assert [each["known_at"] for each in panes][::2] == ["2026-04-25T12:01:35Z", "2026-04-25T12:03:20Z"]
    for each in json.loads(said(*asked, "-f", "json"))["panes"]:
        assert each["known_at"] == each["published_at"] == "2026-05-26T12:00:00Z"
        assert each["batch_ended_at"] == "2026-05-25T12:00:00Z"


# The command line


def said(*arguments: object) -> str:
    ended = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout


def test_results_as_of_and_valid_at_on_the_command_line(played: Story) -> None:
    asked = ["results", played.file, "totals", "-f", "json"]
    assert [row["paise"] for row in json.loads(said(*asked, "--as-of", "2026-04-25T12:02:00Z"))] == [5]
    assert [row["paise"] for row in json.loads(said(*asked, "--as-of", "2026-04-25T17:34:00+05:30"))] == [
        9,
        1,
    ]
    assert [row["paise"] for row in json.loads(said(*asked, "--valid-at", "2026-04-25T12:01"))] == [1]
    both = said(*asked, "--as-of", "2026-04-25T12:02", "--valid-at", "2026-04-25T12:00:30")
    assert [row["paise"] for row in json.loads(both)] == [5]


def test_results_by_key_and_window_and_clock_on_the_command_line(caught_up: Story) -> None:
    caught_up.panes("totals", 1, [pane(0, 0, merchant="b", paise=7)])
    caught_up.partials("totals", 1, [pane(2, None, merchant=each, paise=4) for each in ("a", "b")])
    asked = ["results", caught_up.file, "totals", "-f", "json"]

    def paise(*options: str) -> list[int]:
        return [row["paise"] for row in json.loads(said(*asked, *options))]

    assert paise("--key", "merchant=a") == [9, 1]
    assert paise("--key", "merchant=a", "--window", "2026-04-25T12:00") == [9]
    assert paise("--key", "merchant=b", "--open") == [7, 4]
    assert paise("--key", "merchant=", "--open") == []
    assert paise("--as-of-arrival", "2026-04-25T12:02") == [5, 7]
    assert paise("--as-of", "2026-04-25T12:02") == []
    for option in (["--serving"], ["--prefer", "live"]):
        assert paise("--key", "merchant=a", "--window", "2026-04-25T12:00", *option) == [9]
    assert said("results", caught_up.file, "totals", "--key", "merchant=c") == (
        "no window for merchant=c has a number, and none is open\n"
    )
    still_open = said(
        "results", caught_up.file, "totals", "--key", "merchant=b", "--window", "2026-04-25T12:02"
    )
    assert still_open == (
        "no window that holds 2026-04-25T12:02 for merchant=b has a number; --open shows those still open\n"
    )
    with pytest.raises(PipelineError, match="the output has no such key column"):
        said(*asked, "--key", "shop=a")


def test_the_old_option_for_the_clock_works_and_names_the_new_one(
    caught_up: Story, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ["results", caught_up.file, "totals", "-f", "json", "--as-of", "2026-04-25T12:02"]
    assert [row["paise"] for row in json.loads(said(*asked, "--clock", "arrival"))] == [5]
    assert json.loads(said(*asked, "--clock", "published")) == []
    assert [each.split(":")[0] for each in caplog.messages] == ["--clock is deprecated"] * 2
    assert "--as-of-arrival T" in caplog.messages[0]


def test_no_row_says_why(played: Story) -> None:
    asked = ["results", played.file, "totals"]
    assert said(*asked, "--as-of", "2026-04-25T12:01Z") == "no window had a number by 2026-04-25T12:01Z\n"
    none = said(*asked, "--valid-at", "2020-01-01")
    assert none == "no window that holds 2020-01-01 has a number, and none is open\n"
    both = said(*asked, "--as-of", "2026-04-25T12:02Z", "--valid-at", "2026-04-25T12:01Z")
    assert both == "no window that holds 2026-04-25T12:01Z had a number by 2026-04-25T12:02Z\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--as-of", "yesterday"], r"--as-of 'yesterday' is not a moment\n    fix: write ISO-8601"),
        (["--valid-at", "25:00"], r"--valid-at '25:00' is not a moment\n    fix: write ISO-8601"),
        (["--clock", "arrival"], r"--clock 'arrival' has no meaning without --as-of\n    fix: give --as-of"),
        (["--as-of-arrival", "soon"], r"--as-of-arrival 'soon' is not a moment\n    fix: write ISO-8601"),
        (
            ["--as-of", "2026-04-25", "--as-of-arrival", "2026-04-25"],
            r"--as-of '2026-04-25' goes by another clock than --as-of-arrival\n    fix: give one of the two",
        ),
        (
            ["--as-of-arrival", "2026-04-25", "--open"],
            r"--as-of-arrival '2026-04-25' cannot be asked of windows still open\n    fix: leave --open out",
        ),
        (
            ["--window", "2026-04-25", "--valid-at", "2026-04-25"],
            r"--window '2026-04-25' means the same as --valid-at\n    fix: give one of the two",
        ),
        (["--window", "soon"], r"--window 'soon' is not a moment"),
        (["--limit", "few"], r"--limit 'few' is not a number of rows\n    fix: write a number such as 20"),
        (
            ["--as-of", "2026-04-25", "--open"],
            r"--as-of '2026-04-25' cannot be asked .*\n    fix: leave --open out",
        ),
    ],
)
def test_wrong_moments_are_told(played: Story, options: list[str], reason: str) -> None:
    with pytest.raises(WrongUsage, match=reason):
        said("results", played.file, "totals", *options)


def test_the_kits_pipeline_has_every_accumulation(story: Story) -> None:
    """The property above is about three rules of what stands; it would be about one if the file changed."""
    modes = {story.pipeline.outputs[name].accumulation for name in ("totals", "successes", "parts")}
    assert len(modes) == 3
    assert "discarding" in PIPELINE
