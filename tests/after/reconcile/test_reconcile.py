"""Results held against another account of them. No Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from after.reconcile.reconcile_kit import against, csv, gap_of, listed, row
from cli.cli_kit import Lake, at, pane
from latecomer.after.reconcile.gaps import Tolerance
from latecomer.errors import NoStore, PipelineError
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT

# What a row is


def test_windows_and_keys_are_equal_missing_extra_or_different(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(0, None, 5), row(1, "amul", 7), row(2, "bata", 3)])
    source = csv(
        tmp_path,
        """window_start,merchant,paise,payments
        @0,amul,10,1
        @0,,5,1
        @1,amul,9,2
        @3,amul,4,1""",
    )
    found = against(lake, "totals", source)
    assert found.counts == {"equal": 2, "different": 1, "missing": 1, "extra": 1}
    assert not found.equal
    assert not found.explained
    assert listed(found, "window_start", "merchant", "change", "paise", "paise_source") == [
        (at(3), "amul", "missing", None, 4),
        (at(2), "bata", "extra", 3, None),
        (at(1), "amul", "different", 7, 9),
    ]
    paise = gap_of(found, "paise")
    assert (paise.results, paise.source, paise.gap, paise.unexplained) == (25, 28, 3, 3)
    assert paise.percent == Decimal("10.7143")
    assert gap_of(found, "payments").gap == 1


def test_the_number_that_stands_is_compared_not_one_that_was_replaced(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.panes("totals", 1, [{**row(0, "amul", 12, 2), "sequence": 1, "timing": "LATE"}])
    assert against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,12")).equal
    assert not against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10")).equal


def test_an_empty_window_that_is_told_has_no_row_in_any_source(lake: Lake, tmp_path: Path) -> None:
    lake.panes("empty", 0, [row(0, "amul", 10), row(1, "amul", 0, 0)])
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 0, 0)])
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,10,1")
    assert against(lake, "empty", source).counts["equal"] == 2
    assert against(lake, "totals", source).counts["extra"] == 1


def test_the_end_of_a_window_counts_where_the_source_says_it(lake: Lake, tmp_path: Path) -> None:
    lake.panes("sessions", 0, [row(0, "amul", 10)])
    assert against(lake, "sessions", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10")).equal
    other = csv(tmp_path, "window_start,window_end,merchant,paise\n@0,@2,amul,10")
    assert against(lake, "sessions", other).counts == {"equal": 0, "different": 0, "missing": 1, "extra": 1}


def test_a_global_window_needs_no_start(lake: Lake, tmp_path: Path) -> None:
    ends = {"window_start": FIRST_MOMENT, "window_end": END_OF_TIME}
    lake.panes("whole", 0, [{**pane(0, 0, paise=10, payments=2), **ends}])
    assert against(lake, "whole", csv(tmp_path, "paise,payments\n10,2")).equal
    assert not against(lake, "whole", csv(tmp_path, "paise,payments\n11,2")).equal


def test_a_range_leaves_out_other_windows_on_both_sides(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 1), row(1, "amul", 2), row(2, "amul", 3)])
    source = csv(tmp_path, "window_start,merchant,paise\n@1,amul,2\n@3,amul,4")
    found = against(lake, "totals", source, since=at(1), until=at(3))
    assert found.counts == {"equal": 1, "different": 0, "missing": 0, "extra": 1}
    assert against(lake, "totals", source, since=at(1), until=at(2)).equal


# Tolerance


@pytest.mark.parametrize(
    ("written", "ours", "theirs", "equal"),
    [
        ("0.01", "1.00", "1.01", True),
        ("0.01", "1.00", "1.0100001", False),
        ("1%", "99", "100", True),
        ("1%", "98.99", "100", False),
        ("29%", "71", "100", True),
        ("0", "1", "1", True),
    ],
)
def test_a_tolerance_is_exact_at_its_edge(written: str, ours: str, theirs: str, equal: bool) -> None:
    assert Tolerance.parse(written).allows(Decimal(ours), Decimal(theirs)) is equal


def test_floating_point_numbers_are_equal_to_nine_digits() -> None:
    assert Tolerance().allows(0.1 + 0.2, 0.3)
    assert not Tolerance().allows(0.3001, 0.3)
    assert Tolerance().allows(float("nan"), float("nan"))
    assert not Tolerance().allows(None, 0.0)


@pytest.mark.parametrize("written", ["", "x", "-1", "nan", "%", "1%%"])
def test_what_is_no_tolerance_is_refused(written: str) -> None:
    with pytest.raises(PipelineError, match="is not a tolerance"):
        Tolerance.parse(written)


def test_a_tolerance_makes_near_rows_equal(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 100), row(1, "amul", 100)])
    source = csv(tmp_path, "window_start,merchant,paise\n@0,amul,101\n@1,amul,103")
    found = against(lake, "totals", source, tolerance=Tolerance.parse("2"))
    assert found.counts == {"equal": 1, "different": 1, "missing": 0, "extra": 0}
    assert against(lake, "totals", source, tolerance=Tolerance.parse("3%")).equal


def test_there_must_be_such_an_output_and_a_store(tmp_path: Path, lake: Lake) -> None:
    source = csv(tmp_path, "window_start,merchant,paise\n@0,amul,1")
    with pytest.raises(PipelineError, match="did you mean totals"):
        against(lake, "totls", source)
    lonely = Lake(tmp_path / "lonely" / "pipeline.yaml")
    lonely.file.parent.mkdir()
    lonely.file.write_text(lake.file.read_text())
    with pytest.raises(NoStore):
        against(lonely, "totals", source)


def test_totals_have_the_digits_of_what_was_compared_whatever_the_amounts_are(
    lake: Lake, tmp_path: Path
) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    for theirs in ("10", "12", "12.00"):
        found = against(lake, "totals", csv(tmp_path, f"window_start,merchant,paise\n@0,amul,{theirs}"))
        scales = {field.name: field.type.scale for field in found.totals.schema if field.name != "aggregate"}
        assert scales.pop("percent") == 4
        assert set(scales.values()) == {0}
    fraction = against(lake, "totals", csv(tmp_path, "window_start,merchant,paise\n@0,amul,10.25"))
    assert fraction.totals["results"].type.scale == fraction.totals["gap"].type.scale == 2
    assert {str(each) for each in fraction.totals["gap"].to_pylist()} == {"0.25"}
