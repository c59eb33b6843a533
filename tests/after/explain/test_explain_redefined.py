"""A number whose meaning a rebuild has changed: each pane is explained under what it meant then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from after.explain.explain_kit import MINUTE, asked, times
from after.story.story_kit import PIPELINE, Story, new_story, paid, printed, shown
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.model.verdicts import END_OF_TIME, Fate
from latecomer.store.definitions import definition_of
from latecomer.store.rebuilds import RebuildRecord, Rebuilds

OLD, NEW = "where: \"status = 'OK'\"", 'where: "paise > 5"'


def redefine(story: Story, batch: int, *changes: tuple[str, str]) -> None:
    """What `rebuild apply` leaves behind: another file, the record of the rebuild, and its batch."""
    text = story.file.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    story.file.write_text(text, encoding="utf-8")
    definition = json.loads(json.dumps(definition_of(story.pipeline.outputs["successes"])))
    rebuilds = Rebuilds(story.pipeline.store_path, "successes")
    record = RebuildRecord("successes", 0, END_OF_TIME, batch - 1, 0, 0, 0, definition, {})
    rebuilds.keep(rebuilds.draft(), record).accept(batch)
    story.watermarks(batch, [{"tick": batch, "at": None, "watermark": None, "kind": "rebuild"}])
    story.store.pin()


def held(story: Story, paise: int, payments: int, sequence: int, timing: str, batch: int) -> None:
    story.panes("successes", batch, [shown(MINUTE, sequence, paise, payments, timing)])


def many(statuses: Sequence[tuple[int, str, int]], at: int = 10) -> list[dict[str, Any]]:
    """So many payments of a status, of so many paise each, a second apart."""
    each = [(status, paise) for count, status, paise in statuses for _ in range(count)]
    return [
        paid(at + nth, paise, status=status, event_id=f"{at}-{nth}")
        for nth, (status, paise) in enumerate(each)
    ]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Twelve payments are OK, seven of them and two others are larger than five paise."""
    story = new_story(tmp_path)
    story.logged(0, 30, None, many([(5, "OK", 1), (7, "OK", 10), (2, "FAILED", 10), (1, "FAILED", 1)]))
    story.logged(1, 95, 65, [])
    held(story, 75, 12, 0, "ON_TIME", 1)
    return story


def test_a_pane_has_the_events_that_passed_the_where_of_its_batch(story: Story) -> None:
    redefine(story, 2, (OLD, NEW))
    held(story, 90, 9, 1, "CORRECTION", 2)
    found = asked(story, "successes")
    first, corrected = found.panes
    assert (len(first.took), len(corrected.took), len(corrected.lost)) == (12, 2, 5)
    assert (found.reconciled, found.notes, found.filter) == (True, [], "applied")
    assert corrected.differences == {"paise": 15, "payments": -3}
    assert [each.reason for each in found.left_out[Fate.FILTERED]] == ["where excludes it"]
    assert not found.in_no_pane


def test_late_panes_go_on_from_the_rebuilt_number(story: Story) -> None:
    """It holds what had been set aside too, and what comes later is judged by the new where."""
    story.logged(2, 900, 700, [paid(30, 50, status="OK"), paid(31, 60, status="FAILED")])
    aside = {"window_start": shown(MINUTE, 0, 0, 0)["window_start"], "verdict": "too_late"}
    aside["window_end"] = shown(MINUTE, 0, 0, 0)["window_end"]
    story.set_aside("successes", 2, {**paid(30, 50, status="OK"), **aside}, 0)
    redefine(story, 3, (OLD, NEW))
    held(story, 200, 11, 1, "CORRECTION", 3)
    story.logged(4, 905, 65, [paid(32, 7, status="FAILED"), paid(33, 2, status="OK")])
    held(story, 207, 12, 2, "LATE", 4)
    found = asked(story, "successes")
    assert [times(each.took) for each in found.panes[1:]] == [[22, 23, 30, 31], [32]]
    assert (found.reconciled, found.notes) == (True, [])
    assert times(found.left_out[Fate.FILTERED]) == [24, 33]
    assert not found.left_out[Fate.SIDE_OUTPUT]


def test_a_window_that_was_open_when_the_meaning_changed_closes_under_the_new_one(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    story.logged(0, 30, None, many([(2, "OK", 1), (1, "OK", 10), (1, "FAILED", 10)]))
    story.partials("successes", 0, [shown(MINUTE, 0, 12, 3)])
    assert times(asked(story, "successes").in_no_pane) == [10, 11, 12]
    redefine(story, 1, (OLD, NEW))
    waiting = asked(story, "successes")
    assert times(waiting.in_no_pane) == [12, 13]
    excluded = waiting.left_out[Fate.FILTERED]
    assert times(excluded) == [10, 11]
    assert excluded[0].reason == "where excludes it, since a rebuild changed it"
    story.logged(2, 95, 65, [])
    held(story, 20, 2, 0, "ON_TIME", 2)
    found = asked(story, "successes")
    assert times(found.panes[0].took) == [12, 13]
    assert (found.reconciled, found.notes, list(found.in_no_pane)) == (True, [], [])


def test_an_aggregate_that_became_another_is_checked_as_what_it_was(story: Story) -> None:
    old = f"{OLD}\n    aggregates: {{paise: sum(paise)"
    redefine(story, 2, (old, old.replace("sum", "max")))
    held(story, 10, 12, 1, "CORRECTION", 2)
    story.logged(3, 100, 65, [paid(40, 30, status="OK")])
    held(story, 30, 13, 2, "LATE", 3)
    found = asked(story, "successes")
    assert [each.check.agrees for each in found.panes] == [True, True, True]
    assert found.defined_otherwise(found.panes[0]) == "paise is sum(paise)"
    assert found.defined_otherwise(found.panes[1]) is None


def test_the_text_and_the_document_say_what_a_number_meant(story: Story) -> None:
    redefine(story, 2, (OLD, NEW))
    held(story, 90, 9, 1, "CORRECTION", 2)
    asking = ["explain", str(story.file), "successes", "--window", "2026-04-25T12:00Z", "--events", "0"]
    text = printed(*asking)
    assert "  under an earlier definition: where status = 'OK'\n  took in 12 events (paise 75)" in text
    took, lost = "  took in 2 events (paise 20)", "  no longer holds 5 events (paise 5)"
    assert f"{took}\n{lost}: the output's where now excludes them" in text
    document = json.loads(printed(*asking, "--format", "json"))
    assert [pane["where"] for pane in document["panes"]] == ["status = 'OK'", "paise > 5"]
    assert [pane["lost"]["count"] for pane in document["panes"]] == [0, 5]


def test_the_allowed_lateness_that_is_named_is_that_of_its_time(story: Story) -> None:
    story.logged(2, 100, 65, [paid(40, 30, status="OK")])
    held(story, 105, 13, 1, "LATE", 2)
    story.ledger(2, [{"output": "successes"}])
    text = story.file.read_text(encoding="utf-8").replace("allowed_lateness: 5m", "allowed_lateness: 9m")
    story.file.write_text(text, encoding="utf-8")
    story.store.pin()
    found = asked(story, "successes")
    assert found.why(found.panes[1]).endswith("within the allowed lateness of 5m")


def test_a_reconciliation_says_which_windows_still_have_another_meaning(story: Story, tmp_path: Path) -> None:
    source = tmp_path / "truth.csv"
    source.write_text("window_start,merchant,paise,payments\n2026-04-25T12:00:00Z,amul,90,9\n")
    story.ledger(1, [{"output": "successes"}])
    redefine(story, 2, (OLD, NEW))
    found = reconcile(story.pipeline, "successes", Against(str(source)))
    assert found.notes[-1] == (
        "windows and keys published before batch 2, under another where, are compared with what the output "
        "means now, 1 in all; latecomer rebuild apply FILE successes --from T brings them over"
    )
    held(story, 90, 9, 1, "CORRECTION", 2)
    story.ledger(2, [{"output": "successes"}])
    assert not reconcile(story.pipeline, "successes", Against(str(source))).notes


def test_a_reconciliation_names_columns_that_came_with_a_definition(story: Story, tmp_path: Path) -> None:
    source = tmp_path / "truth.csv"
    source.write_text("window_start,merchant,paise,payments,halves\n2026-04-25T12:00:00Z,amul,75,12,37.5\n")
    story.ledger(1, [{"output": "successes"}])
    old = f"{OLD}\n    aggregates: {{paise: sum(paise)"
    more = f"columns: {{half: paise / 2}}\n    {OLD}\n    aggregates: {{halves: sum(half), paise: sum(paise)"
    redefine(story, 2, (old, more))
    found = reconcile(story.pipeline, "successes", Against(str(source)))
    assert found.notes[-1].startswith(
        "windows and keys published before batch 2, under other aggregates and other columns, are compared with"
    )
    # Before that, the pane has no such aggregate, and is explained without it.
    assert asked(story, "successes").reconciled


def test_the_kits_where_is_the_one_that_is_changed() -> None:
    assert OLD in PIPELINE
