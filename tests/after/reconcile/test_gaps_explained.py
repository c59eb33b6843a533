"""The gap between results and a source, explained by what the store knows. No Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from after.reconcile.reconcile_kit import against, csv, gap_of, late, listed, row
from cli.cli_kit import MINUTE, NOON, Lake, at, pane
from latecomer.log.measures import fields_of_letter, number_in_letter


def test_the_side_output_explains_what_it_holds(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 7)])
    lake.late("totals", 0, [late(0, "amul", 3), late(0, "amul", None, 1), late(2, "bata", 4)])
    source = csv(
        tmp_path,
        """window_start,merchant,paise,payments
        @0,amul,13,3
        @1,amul,7,1
        @2,bata,4,1""",
    )
    found = against(lake, "totals", source)
    assert found.counts == {"equal": 1, "different": 1, "missing": 1, "extra": 0}
    assert found.explained
    assert gap_of(found, "paise").known["side_output"] == 7
    assert gap_of(found, "payments").known["side_output"] == 3
    assert gap_of(found, "paise").unexplained == 0
    assert listed(found, "explained") == [(True,), (True,)]


def test_gaps_that_cancel_out_are_not_explained(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 10)])
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,15,1\n@1,amul,5,1")
    found = against(lake, "totals", source)
    assert gap_of(found, "paise").gap == 0
    assert not found.explained
    lake.dead_letters(0, [{"raw": '{"paise": 1}', "reason": "no_event_time"}] * 2)
    assert not against(lake, "totals", source).explained


def test_a_side_output_that_the_source_lacks_too_explains_nothing(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.late("totals", 0, [late(0, "amul", 3)])
    found = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,10,1"))
    assert found.equal
    assert gap_of(found, "paise").known["side_output"] == 0


def test_what_the_accounts_explain_in_part_stays_unexplained(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.late("totals", 0, [late(0, "amul", 3)])
    found = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,14,2"))
    assert gap_of(found, "paise").unexplained == 1
    assert not found.explained


def test_open_windows_explain_what_they_hold(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.partials("totals", 0, [row(1, "amul", 5), row(1, "amul", 6, 2)])
    found = against(
        lake, "totals", csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,10,1\n@1,amul,11,3")
    )
    assert found.counts["missing"] == 1
    assert gap_of(found, "paise").known["not_closed"] == 11
    assert found.explained


def test_of_a_window_told_early_only_what_came_since_is_not_closed(lake: Lake, tmp_path: Path) -> None:
    for output, left in (("early", row(0, "amul", 15, 3)), ("discarding", row(0, "amul", 5, 1))):
        lake.panes(output, 0, [{**row(0, "amul", 10, 2), "timing": "EARLY"}])
        lake.partials(output, 0, [left])
        source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,15,3")
        found = against(lake, output, source)
        assert gap_of(found, "paise").known["not_closed"] == 5
        assert gap_of(found, "payments").known["not_closed"] == 1
        assert found.explained


def test_dead_letters_explain_what_their_text_says(lake: Lake, tmp_path: Path) -> None:
    lake.panes("filled", 0, [pane(0, 0, paid=10, with_fee=1)])
    raws = ['{"paise": 3, "fee": 1}', '{"paise": "4", "fee": null}', "{not json", None]
    lake.dead_letters(0, [{"raw": raw, "reason": "no_event_time"} for raw in raws])
    found = against(lake, "filled", csv(tmp_path, "window_start,paid,with_fee\n@0,17,2"))
    assert gap_of(found, "paid").known["dead_letter"] == 7
    assert gap_of(found, "with_fee").known["dead_letter"] == 1
    assert found.explained
    assert listed(found, "explained") == [(None,)]  # in total: the letters have no window
    assert "2 dead letters have no paise that can be read: counted as none" in found.notes
    worse = against(lake, "filled", csv(tmp_path, "window_start,paid,with_fee\n@0,18,2"))
    assert gap_of(worse, "paid").unexplained == 1
    assert not worse.explained
    assert listed(worse, "explained") == [(False,)]


def test_of_dead_letters_a_filter_excludes_none(lake: Lake, tmp_path: Path) -> None:
    """A dead letter has no columns."""
    text = lake.file.read_text(encoding="utf-8")
    lake.file.write_text(text.replace("  filled:\n", "  filled:\n    where: paise > 5\n"), encoding="utf-8")
    shutil.rmtree(lake.pipeline.store_path)
    lake.store.pin()
    lake.panes("filled", 0, [pane(0, 0, paid=10, with_fee=1)])
    lake.dead_letters(0, [{"raw": '{"paise": 3, "fee": 1}', "reason": "no_event_time"}])
    found = against(lake, "filled", csv(tmp_path, "window_start,paid,with_fee\n@0,13,2"))
    assert gap_of(found, "paid").known["dead_letter"] == 3
    assert "`where` cannot be evaluated for dead letters; all are counted" in found.notes


def test_in_a_range_only_dead_letters_with_an_event_time_there_count(lake: Lake, tmp_path: Path) -> None:
    lake.panes("sliding", 0, [pane(0, 0, paise=10, payments=1)])
    raw = '{"paise": 3}'
    lake.dead_letters(
        0,
        [
            {"raw": raw, "reason": "too_far_ahead", "event_time": NOON + MINUTE // 2},
            {"raw": raw, "reason": "too_far_ahead", "event_time": NOON + 5 * MINUTE},
            {"raw": raw, "reason": "no_event_time"},
        ],
    )
    source = csv(tmp_path, "window_start,paise,payments\n@0,13,2")
    found = against(lake, "sliding", source, since=at(0), until=at(1))
    assert gap_of(found, "paise").known["dead_letter"] == 3
    assert found.explained
    assert "1 dead letter has no event time that tells the window: left out" in found.notes
    # Without a range each is in both windows that slide over it.
    assert gap_of(against(lake, "sliding", source), "paise").known["dead_letter"] == 18


def test_the_ledger_tells_what_was_dropped_in_all_and_no_more(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.ledger(
        0,
        [
            {"output": "totals", "unit": "events", "dropped": 2},
            {"output": "totals", "unit": "assignments", "dropped": 2},
            {"output": "totals", "unit": "paise", "dropped": 9},
            {"output": "sessions", "unit": "paise", "dropped": 100},
        ],
    )
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,19,3")
    found = against(lake, "totals", source)
    assert gap_of(found, "paise").known["dropped"] == 9
    assert gap_of(found, "payments").known["dropped"] == 2
    assert found.explained
    within = against(lake, "totals", source, since=at(0))
    assert gap_of(within, "paise").known["dropped"] is None
    assert not within.explained
    assert "how much was dropped is not known for paise, payments; --against log shows it" in within.notes


def test_only_sums_and_counts_have_totals(lake: Lake, tmp_path: Path) -> None:
    lake.panes("kinds", 0, [pane(0, 0, merchant="amul", shop=1, paise=1, first="amul")])
    found = against(lake, "kinds", csv(tmp_path, "window_start,merchant,shop,first\n@0,amul,1,bata"))
    assert found.counts["different"] == 1
    assert gap_of(found, "first").gap is None
    assert not found.explained
    assert "only sums and counts can be explained, and none was compared" in found.notes


@pytest.mark.parametrize(
    ("raw", "amount"),
    [
        ('{"paise": 3}', 3),
        ('{"paise": "3"} and more', 3),
        ('{"paise": "x"}', None),
        ('{"paise": "1,5"}', None),
        ('{"paise": true}', None),
        ('{"paise": null}', None),
        ('{"paise": [1]}', None),
        ("{}", None),
        ("", None),
    ],
)
def test_a_measure_is_read_out_of_raw_text(lake: Lake, raw: str, amount: int | None) -> None:
    assert number_in_letter(fields_of_letter(raw), "paise", lake.pipeline) == amount
