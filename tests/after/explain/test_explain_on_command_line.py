"""What `latecomer explain` prints: text, JSON, CSV and the picture."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from after.explain.explain_kit import MINUTE, command
from after.story.story_kit import PIPELINE, Story, new_story, paid, printed, second, shown
from cli.cli_kit import at
from latecomer.after.explain.explain import explain
from latecomer.after.reading.reader import Reader
from latecomer.cli.options import WrongUsage
from latecomer.model.verdicts import END_OF_TIME


def test_the_text_tells_the_whole_life(played: Story) -> None:
    text = command(played)
    for line in (
        "totals · 2026-04-25T12:00:00Z to 2026-04-25T12:01:00Z · merchant=amul",
        "stands at paise 340, payments 3",
        "0 ON_TIME insert  paise 300, payments 2",
        "  fired at 2026-04-25T12:01:30Z, published by batch 1 at 2026-04-25T14:00:00Z, arrival clock "
        "2026-04-25T12:01:35Z, under watermark 2026-04-25T12:01:00Z",
        "  took in 2 events (paise 300)",
        "0 LATE retract  paise 300, payments 2",
        "1 LATE insert  paise 340, payments 3  (paise +40, payments +1)",
        "  took in 1 event (paise 40, 1 behind the watermark, by 35s at most)",
        "left out: side output",
        "left out: duplicate",
        "3 of the 3 files of the event log were read",
    ):
        assert line in text.splitlines()


def test_the_document_has_the_keys_that_are_documented(played: Story) -> None:
    whole = json.loads(command(played, "-f", "json"))
    page = (Path(__file__).parents[3] / "docs" / "as-of-and-explain.md").read_text(encoding="utf-8")
    assert set(whole) == set(
        re.findall(r"^\| `(\w+)` \|", page.split("### The document")[1].split("###")[0], re.M)
    )
    pane = whole["panes"][2]
    assert (pane["values"], pane["difference"]) == (
        {"paise": 340, "payments": 3},
        {"paise": 40, "payments": 1},
    )
    assert (pane["published_at"], pane["batch_ended_at"]) == ("2026-04-25T14:00:01Z", "2026-04-25T12:08:20Z")
    (event,) = pane["took_in"]["events"]
    assert (event["behind"], event["past_end"], event["partition"], event["file"]) == (35, 5, "t2", "1.json")
    assert whole["left_out"]["side_output"]["sums"] == {"paise": 7}
    assert whole["log"] == {"files": 3, "files_read": 3}


def test_many_events_are_summed_up(played: Story) -> None:
    some = json.loads(command(played, "-f", "json", "--events", "1"))["panes"][0]["took_in"]
    assert (some["count"], some["sums"], len(some["events"])) == (2, {"paise": 300}, 1)
    assert "  and 1 more; --events all lists them" in command(played, "--events", "1").splitlines()
    every = json.loads(command(played, "-f", "json", "--events", "all"))["panes"][0]["took_in"]
    assert len(every["events"]) == 2


def test_csv_has_a_line_an_event(played: Story) -> None:
    header, *lines = command(played, "-f", "csv").splitlines()
    assert header.startswith("pane,fate,event_time,arrival_time,partition,batch,file,position,event_id")
    fates = [line.split(",")[:2] for line in lines]
    assert fates == [["0", "on_time"]] * 2 + [["1", "late_accepted"], ["", "side_output"], ["", "duplicate"]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--events", "some"], r"--events 'some' is not a number of events\n    fix: write a number"),
        (["--events", "-1"], r"--events '-1' is not a number of events"),
        (["--svg", "/nowhere/at/all.svg"], r"--svg '/nowhere/at/all.svg' cannot be written: No such file"),
    ],
)
def test_wrong_options_are_told(played: Story, options: list[str], reason: str) -> None:
    with pytest.raises(WrongUsage, match=reason):
        command(played, *options)


def test_a_moment_that_is_none(played: Story) -> None:
    with pytest.raises(WrongUsage, match="--window 'noon' is not a moment"):
        printed("explain", played.file, "totals", "--window", "noon")


def test_the_picture_has_a_dot_a_pane_and_a_tick_for_each_late_event(played: Story, tmp_path: Path) -> None:
    path = tmp_path / "life.svg"
    command(played, "--svg", path)
    drawn = ET.fromstring(path.read_text(encoding="utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    dots = [each for each in drawn.iter(f"{name}circle") if each.find(f"{name}title") is not None]
    assert [dot.get("fill") for dot in dots] == ["#2563eb", "#d97706"] * 2
    words = ["".join(each.itertext()) for each in drawn.iter(f"{name}text")]
    assert {"late, accepted (1)", "side output (1)", "on time (2)", "paise", "payments", "340"} <= set(words)
    # In each panel two values, and the step from one to the other although the first was taken back.
    steps = [each for each in drawn.iter(f"{name}line") if each.get("stroke-width") == "1.5"]
    assert len([each for each in steps if each.get("stroke") == "#6b7280"]) == 2 * 3
    bands = [each for each in drawn.iter(f"{name}rect") if each.get("fill") == "#dbeafe"]
    assert len(bands) == 2


def test_what_events_bring_cannot_break_the_picture(story: Story, tmp_path: Path) -> None:
    wicked = "<a&\x1b[31m\x00'\">"
    story.logged(0, 20, None, [paid(10, 100, merchant=wicked)])
    story.panes("totals", 0, [shown(MINUTE, 0, 100, 1, merchant=wicked)])
    path = tmp_path / "life.svg"
    text = printed("explain", story.file, "totals", "--window", "2026-04-25T12:00Z", "--svg", path)
    ET.fromstring(path.read_text(encoding="utf-8"))
    assert "\x1b" not in text


def test_a_window_of_all_time_can_be_drawn(tmp_path: Path) -> None:
    whole = PIPELINE.replace("window: {tumbling: 1m}", "window: {global: true}", 1)
    story = new_story(tmp_path, whole)
    story.logged(0, 20, None, [paid(10, 100)])
    story.watermarks(1, [{"tick": 9, "at": second(20), "watermark": END_OF_TIME, "kind": "drain"}])
    begin = -62_135_596_800_000_000
    drained = {"window_start": begin, "window_end": END_OF_TIME, "watermark": END_OF_TIME}
    story.panes("totals", 1, [{**shown(MINUTE, 0, 100, 1), **drained}])
    path = tmp_path / "life.svg"
    text = command(story, "--svg", path)
    title = "totals · 0001-01-01T00:00:00Z to end of time · merchant=amul"
    assert text.startswith(f"{title}\n")
    assert "why: the input had ended" in text
    found = explain(Reader(story.pipeline), "totals", at(0), {"merchant": "amul"})
    assert str(found).startswith(f"{title}\n")
    ET.fromstring(path.read_text(encoding="utf-8"))


def test_explaining_starts_no_spark(played: Story) -> None:
    code = (
        "import sys; from latecomer.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as ended: assert ended.code == 0\n"
        "assert 'pyspark' not in sys.modules, 'pyspark'"
    )
    asked = [
        "explain",
        str(played.file),
        "successes",
        "--window",
        "2026-04-25T12:00Z",
        "--key",
        "merchant=amul",
    ]
    subprocess.run([sys.executable, "-c", code, *asked], check=True, capture_output=True, timeout=60)
