"""What verbs print as of a moment, and the options that name it."""

from __future__ import annotations

import json

import pytest

from after.story.story_kit import Story, printed
from cli.cli_kit import pane
from latecomer.cli.options import WrongUsage
from latecomer.errors import PipelineError


def test_explain_tells_both_clocks(caught_up: Story) -> None:
    asked = ["explain", caught_up.file, "totals", "--window", "2026-04-25T12:00"]
    published = "published by batch 0 at 2026-05-26T12:00:00Z, arrival clock 2026-05-25T12:00:00Z, under"
    for clock in ("published", "arrival"):
        assert f"  fired at 2026-04-25T12:01:35Z, {published}" in printed(*asked, "--clock", clock)
    panes = json.loads(printed(*asked, "--clock", "arrival", "-f", "json"))["panes"]
    assert [each["known_at"] for each in panes][::2] == ["2026-04-25T12:01:35Z", "2026-04-25T12:03:20Z"]
    for each in json.loads(printed(*asked, "-f", "json"))["panes"]:
        assert each["known_at"] == each["published_at"] == "2026-05-26T12:00:00Z"
        assert each["batch_ended_at"] == "2026-05-25T12:00:00Z"


def test_results_as_of_and_valid_at_on_the_command_line(played: Story) -> None:
    asked = ["results", played.file, "totals", "-f", "json"]
    assert [row["paise"] for row in json.loads(printed(*asked, "--as-of", "2026-04-25T12:02:00Z"))] == [5]
    assert [row["paise"] for row in json.loads(printed(*asked, "--as-of", "2026-04-25T17:34:00+05:30"))] == [
        9,
        1,
    ]
    assert [row["paise"] for row in json.loads(printed(*asked, "--valid-at", "2026-04-25T12:01"))] == [1]
    both = printed(*asked, "--as-of", "2026-04-25T12:02", "--valid-at", "2026-04-25T12:00:30")
    assert [row["paise"] for row in json.loads(both)] == [5]


def test_results_by_key_and_window_and_clock_on_the_command_line(caught_up: Story) -> None:
    caught_up.panes("totals", 1, [pane(0, 0, merchant="b", paise=7)])
    caught_up.partials("totals", 1, [pane(2, None, merchant=each, paise=4) for each in ("a", "b")])
    asked = ["results", caught_up.file, "totals", "-f", "json"]

    def paise(*options: str) -> list[int]:
        return [row["paise"] for row in json.loads(printed(*asked, *options))]

    assert paise("--key", "merchant=a") == [9, 1]
    assert paise("--key", "merchant=a", "--window", "2026-04-25T12:00") == [9]
    assert paise("--key", "merchant=b", "--open") == [7, 4]
    assert paise("--key", "merchant=", "--open") == []
    assert paise("--as-of-arrival", "2026-04-25T12:02") == [5, 7]
    assert paise("--as-of", "2026-04-25T12:02") == []
    for option in (["--serving"], ["--prefer", "live"]):
        assert paise("--key", "merchant=a", "--window", "2026-04-25T12:00", *option) == [9]
    assert printed("results", caught_up.file, "totals", "--key", "merchant=c") == (
        "no window for merchant=c has a number, and none is open\n"
    )
    still_open = printed(
        "results", caught_up.file, "totals", "--key", "merchant=b", "--window", "2026-04-25T12:02"
    )
    assert still_open == (
        "no window that holds 2026-04-25T12:02 for merchant=b has a number; --open shows those still open\n"
    )
    with pytest.raises(PipelineError, match="the output has no such key column"):
        printed(*asked, "--key", "shop=a")


def test_the_old_option_for_the_clock_works_and_names_the_new_one(
    caught_up: Story, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ["results", caught_up.file, "totals", "-f", "json", "--as-of", "2026-04-25T12:02"]
    assert [row["paise"] for row in json.loads(printed(*asked, "--clock", "arrival"))] == [5]
    assert json.loads(printed(*asked, "--clock", "published")) == []
    assert [each.split(":")[0] for each in caplog.messages] == ["--clock is deprecated"] * 2
    assert "--as-of-arrival T" in caplog.messages[0]


def test_no_row_says_why(played: Story) -> None:
    asked = ["results", played.file, "totals"]
    assert printed(*asked, "--as-of", "2026-04-25T12:01Z") == "no window had a number by 2026-04-25T12:01Z\n"
    none = printed(*asked, "--valid-at", "2020-01-01")
    assert none == "no window that holds 2020-01-01 has a number, and none is open\n"
    both = printed(*asked, "--as-of", "2026-04-25T12:02Z", "--valid-at", "2026-04-25T12:01Z")
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
        printed("results", played.file, "totals", *options)
