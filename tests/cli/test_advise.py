"""`latecomer advise`: a log and raw files in words, JSON, CSV and HTML, and the advice written into the file."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.cli_kit import Cli, Lake, rows_of
from latecomer import load_pipeline
from latecomer.cli.advice_words import _lines
from observe.advise.advise_kit import SECOND, Row, rows, written

EVIL = "boo\x1b]0;title\x07\x9b6n\u202e[red]!"
FILE = """# The shop, as it runs.
name: shop
store: ./lake
source:
  files: {path: "in/*.json", order_by: arrival_time}
  schema: {event_time: timestamp, arrival_time: timestamp, shard: string, region: string, amount: bigint}
event: {time: event_time, partition: shard, producer: region}   # by shard
watermark:
  delay: 5s      # too short, perhaps
  every: 1s
outputs:
  totals:
    window: {tumbling: 1m}
    by: [region]
    where: amount > 0
    aggregates: {amount: sum(amount), n: count(*), mean: avg(amount)}
    allowed_lateness: 2m   # agreed
    late: update
  # nobody looks at this one
  hours: {window: {tumbling: 1h}, aggregates: {n: count(*)}}
"""


WITH_IDS = FILE.replace("bigint}", "bigint, txn: string}").replace(
    "{time: event_time,", "{time: event_time, id: txn,"
)


@pytest.fixture
def shop(tmp_path: Path) -> Lake:
    """A pipeline that has logged an hour of arrivals, in three batches."""
    return logged_shop(tmp_path, FILE)


def logged_shop(folder: Path, text: str, *later: tuple[list[str], list[Row]]) -> Lake:
    """A shop with three batches, and with later ones of these ids and rows."""
    file = folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    lake = Lake(file)
    store = lake.store
    store.pin()
    given = rows()
    ids = [f"txn{nth}" for nth in range(len(given))]
    parts = [(ids[start : start + 1_000], given[start : start + 1_000]) for start in (0, 1_000, 2_000)]
    for batch, (names, part) in enumerate([*parts, *later]):
        logged = [
            {
                "event_id": name,
                "event_time": row.event_time,
                "arrival_time": row.arrival_time,
                "source_partition": row.shard,
                "producer": row.region,
                "batch": batch,
                "tick": row.arrival_time // SECOND,
                "region": row.region,
                "amount": row.amount,
            }
            for name, row in zip(names, part, strict=True)
        ]
        store.events.append(batch, rows_of(store.events.schema, logged))
        ticks = [
            {
                "tick": row.arrival_time // SECOND,
                "at": row.arrival_time // SECOND * SECOND,
                "watermark": None,
                "partitions": [{"partition": row.shard, "events": 1, "max_event_time": row.event_time}],
            }
            for row in part
        ]
        lake.watermarks(batch, ticks)
        lake.ledger(batch, [{"output": "totals"}])
    return lake


def asked(cli: Cli, *arguments: object) -> dict[str, Any]:
    said = cli("-q", "advise", *arguments, "--format", "json")
    assert said.status == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_the_log_and_the_files_it_was_read_from_say_the_same(shop: Lake, cli: Cli, tmp_path: Path) -> None:
    log = asked(cli, shop.file, "--by", "region", "--delay", "0s,10s", "--lateness", "0s,3m", "-o", "totals")
    raw = asked(
        cli,
        written(tmp_path, "parquet"),
        *("--event-time", "event_time", "--arrival", "arrival_time", "--partition", "shard"),
        *("--by", "region", "--delay", "0s,10s", "--lateness", "0s,3m"),
    )
    assert log["events"] == 3_000
    for what in ("age", "behind", "partitions", "groups", "late_groups", "late_beyond"):
        assert log[what] == raw[what], what
    exact = ("delay", "allowed_lateness", "on_time", "late_accepted", "published_after", "windows")
    mine, theirs = (
        {
            (row["delay"], row["allowed_lateness"]): [row[name] for name in exact]
            for row in found["outputs"][0]["settings"]
        }
        for found in (log, raw)
    )
    assert len({*mine} & {*theirs}) >= 4
    assert all(mine[each] == theirs[each] for each in {*mine} & {*theirs})


def test_an_event_that_came_again_after_its_id_was_forgotten_counts_once(cli: Cli, tmp_path: Path) -> None:
    """A file that is sent again long after looks like events that are hours late. Ids that are used again count."""
    first = rows()[:100]
    hours_later = [replace(row, arrival_time=row.arrival_time + 10_000 * SECOND) for row in first]
    names = [f"txn{nth}" for nth in range(90)] + [f"other{nth}" for nth in range(90, 100)]
    (tmp_path / "again").mkdir()
    lake = logged_shop(tmp_path / "again", WITH_IDS, (names, hours_later))
    found = asked(cli, lake.file)
    assert found["events"] == 3_010
    note = (
        "90 events came again after their ids were forgotten: each id is counted once here. Ids are remembered for "
        "the longest window and its allowed_lateness; a longer allowed_lateness remembers them longer"
    )
    assert note in found["notes"]
    said = cli("-q", "advise", lake.file, "--by", "region", "--html", tmp_path / "page.html")
    assert said.status == 0, said.err
    assert "the log of pipeline shop: 3,010 events" in said.out
    assert f"note: {note}" in said.out
    assert "90 events came again" in (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "once").mkdir()
    alone = asked(cli, logged_shop(tmp_path / "once", WITH_IDS, (names[90:], hours_later[90:])).file)
    for what in ("age", "behind", "partitions", "outputs", "advice"):
        assert found[what] == alone[what], what
    assert alone["notes"] == [each for each in found["notes"] if each != note]


def test_it_is_told_in_words_with_a_plot(shop: Lake, cli: Cli) -> None:
    said = cli("-q", "advise", shop.file, "--by", "region")
    assert said.status == 0, said.err
    for outcome in (
        "the log of pipeline shop: 3,000 events",
        "how old events are when they come (arrival − event time)",
        "how far they come behind the newest of their partition (this alone sets the delay)",
        "elbow at",
        "by partition (2)",
        "by region (2)",
        "what settings would mean: totals (tumbling 1m)",
        "← advised",
        "← now",
        "█",
        "region = far",
        "totals: mean = avg(amount)",
        "watermark.delay: ",
        "(now 5s)",
        "watermark.idle_after: ",
        "outputs.totals.allowed_lateness: ",
        "warning: p99.9 rests on 3,000 events and needs 10,000: take it as a guess",
        "warning: the history is 49m 59s long",
        "percentiles are never too small",
    ):
        assert outcome in said.out, outcome
    assert "outputs.hours.allowed_lateness" not in said.out, (
        "where late events are set aside it changes nothing"
    )


def test_csv_has_a_line_for_each_setting(shop: Lake, cli: Cli) -> None:
    said = cli("-q", "advise", shop.file, "--delay", "0s,1m", "--format", "csv", "-o", "hours")
    head, *lines = said.out.splitlines()
    assert head.startswith("output,delay,allowed_lateness,events,on_time,late_accepted,side_output,dropped")
    assert {"hours,0,0,3000", "hours,60000000,0,3000"} <= {",".join(line.split(",")[:4]) for line in lines}


def test_wishes_are_met(shop: Lake, cli: Cli) -> None:
    def delay(*options: str) -> int:
        found = asked(cli, shop.file, *options)
        return next(each["value"] for each in found["advice"] if each["field"] == "watermark.delay")

    assert delay() == delay("--target-completeness", "0.99")
    assert delay("--target-completeness", "0.9") < delay() < delay("--target-completeness", "0.998")
    found = asked(cli, shop.file, "--max-latency", "7s", "--target-completeness", "0.5")
    (advised,) = [each for each in found["advice"] if each["field"] == "watermark.delay"]
    assert "meet what was asked for: 50 % on time and a first number within 7s" in advised["reason"]
    for output in found["outputs"]:
        (row,) = [
            each
            for each in output["settings"]
            if {"delay": each["delay"], "lateness": each["allowed_lateness"]} == output["advised"]
        ]
        assert row["delay"] == advised["value"]
        assert row["on_time_share"] >= 0.5
        assert row["published_after"] is None or row["published_after"] <= 7 * SECOND


def test_the_page_needs_nothing_else(shop: Lake, cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    said = cli("-q", "advise", shop.file, "--by", "region", "--html", page)
    assert (said.status, said.err) == (0, f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    for fetched in ("http:", "https:", "src=", "url(", "<script", "@import"):
        assert fetched not in text
    plots = [
        ET.fromstring(part[: part.index("</svg>") + 6])
        for part in text.split("<svg")[1:]
        for part in ["<svg" + part]
    ]
    assert [plot.get("aria-label") for plot in plots] == [
        "How old events are when they come",
        "How far they come behind the newest of their partition",
        "Completeness by delay: totals",
        "Completeness by delay: hours",
    ]
    assert "prefers-color-scheme: dark" in text


def test_the_plots_are_one_picture(shop: Lake, cli: Cli, tmp_path: Path) -> None:
    picture = tmp_path / "advice.svg"
    said = cli("-q", "advise", shop.file, "--svg", picture)
    assert (said.status, said.err) == (0, f"wrote {picture}\n")
    drawn = ET.parse(picture).getroot()
    plots = [each for each in drawn if each.tag.endswith("}svg")]
    assert [each.get("aria-label") for each in plots] == [
        "How old events are when they come",
        "How far they come behind the newest of their partition",
        "Completeness by delay: totals",
        "Completeness by delay: hours",
    ]
    last = plots[-1]
    assert float(last.get("y", "0")) + float(last.get("height", "0")) <= float(drawn.get("height", "0"))
    text = picture.read_text(encoding="utf-8")
    for never in ("var(", "url(", "<script", "@import", "href"):
        assert never not in text


def test_a_picture_that_cannot_be_drawn_is_told(shop: Lake, cli: Cli, tmp_path: Path) -> None:
    said = cli("-q", "advise", shop.file, "--svg", tmp_path / "a.png")
    assert (said.status, "is a pixel format" in said.err, "a.svg" in said.err) == (2, True, True)
    for option in ("--svg", "--html"):
        said = cli("-q", "advise", shop.file, option, tmp_path / "nowhere" / "a.svg")
        assert (said.status, f"error: {option} " in said.err, "cannot be written" in said.err) == (
            2,
            True,
            True,
        )


def test_what_is_advised_is_written_and_comments_stay(shop: Lake, cli: Cli) -> None:
    said = cli("-q", "advise", shop.file, "--write")
    assert said.status == 0, said.err
    text = shop.file.read_text()
    for kept in (
        "# The shop, as it runs.",
        "# by shard",
        "# too short, perhaps",
        "# agreed",
        "# nobody looks",
    ):
        assert kept in text
    found = asked(cli, shop.file)
    assert all(each["value"] == each["current"] for each in found["advice"]), "it says all of it now"
    assert load_pipeline(shop.file).watermark.idle_after is not None
    changed = [line for line in text.splitlines() if line not in FILE.splitlines()]
    assert [line.split(":")[0].strip() for line in changed] == ["delay", "idle_after", "allowed_lateness"]
    assert cli("-q", "advise", shop.file, "--write").err == f"{shop.file} has every advised setting already\n"
    assert shop.file.read_text() == text


def test_lateness_is_no_shorter_than_idleness_where_that_would_lose_events(shop: Lake, cli: Cli) -> None:
    shop.file.write_text(FILE.replace("    late: update\n", "    late: update\n    too_late: drop\n"))
    found = asked(cli, shop.file, "--target-completeness", "0.5")
    advised = {each["field"]: each["value"] for each in found["advice"]}
    assert advised["outputs.totals.allowed_lateness"] >= advised["watermark.idle_after"]
    (totals,) = [each for each in found["outputs"] if each["output"] == "totals"]
    assert totals["advised"]["lateness"] == advised["outputs.totals.allowed_lateness"]
    assert cli("-q", "advise", shop.file, "--write", "--target-completeness", "0.5").status == 0


def test_another_strategy_is_left_alone(shop: Lake, cli: Cli) -> None:
    text = FILE.replace("  delay: 5s      # too short, perhaps\n", "  strategy: adaptive\n")
    shop.file.write_text(text)
    said = cli("-q", "advise", shop.file, "--write", "-o", "hours")
    assert said.err.splitlines()[0] == "note: watermark is left as it is: its strategy is not bounded"
    assert shop.file.read_text() == text
    assert "what-ifs assume strategy: bounded" in said.out


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        (
            ["FILE", "--by", "regin"],
            "the source has no such column (value: 'regin')\n    fix: did you mean region?",
        ),
        (["FILE", "-o", "total"], "did you mean totals?"),
        (["FILE", "--partition", "shard"], "--partition: is for raw files: a pipeline file has it"),
        (["FILE", "--delay", "soon"], "--delay: is not a duration (value: 'soon')"),
        (["FILE", "--lateness", "-5s"], "--lateness: is too short"),
        (["FILE", "--sample", "0"], "--sample: is not a share"),
        (["FOLDER/in.parquet"], "--event-time: is needed for raw files"),
        (["FOLDER/in.parquet", "--event-time", "t"], "there is no such file or folder, or it is empty"),
        (
            ["FOLDER/in.parquet", "--event-time", "t", "--write"],
            "--write 'FOLDER/in.parquet' is for a pipeline file",
        ),
        (["FOLDER/none.yaml"], "there is no such file"),
    ],
)
def test_mistakes_are_told_in_a_sentence(shop: Lake, cli: Cli, arguments: list[str], outcome: str) -> None:
    folder = str(shop.file.parent)
    said = cli(
        "-q",
        "advise",
        *(each.replace("FILE", str(shop.file)).replace("FOLDER", folder) for each in arguments),
    )
    assert said.status == 2
    assert outcome.replace("FOLDER", folder) in said.err
    assert "Traceback" not in said.err


def test_a_pipeline_that_never_ran_and_one_without_events(unrun: Lake, cli: Cli) -> None:
    assert "run the pipeline first" in cli("-q", "advise", unrun.file).err
    unrun.store.pin()
    assert "run the pipeline first" in cli("-q", "advise", unrun.file).err
    unrun.ledger(0, [{"output": "minute_totals"}])
    unrun.watermarks(0, [{"tick": 0, "at": 0, "watermark": 0}])
    said = cli("-q", "advise", unrun.file)
    assert (said.status, "has no events to advise from" in said.err) == (1, True)


def test_hostile_text_is_harmless(cli: Cli, tmp_path: Path) -> None:
    given = [row.__class__(row.event_time, row.arrival_time, EVIL, f"<b>{EVIL}", 1) for row in rows(50)]
    page = tmp_path / "a.html"
    said = cli(
        *(
            "-q",
            "advise",
            written(tmp_path, "json", given),
            "--event-time",
            "event_time",
            "--arrival",
            "arrival_time",
        ),
        *("--by", "region", "--producer", "shard", "--html", page, "--svg", tmp_path / "a.svg"),
    )
    ET.parse(tmp_path / "a.svg")
    assert said.status == 0, said.err
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*said.out}
    assert "<b>" not in page.read_text().replace(": <b>", "")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*page.read_text()}


def test_on_a_narrow_terminal_heads_of_tables_have_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["delay", "published after", "corrections/min", ""], ["10s", "42s 1ms", "26.5", "← now"]]
    whole = ["  delay  published after  corrections/min", "  10s            42s 1ms             26.5  ← now"]
    assert list(_lines(rows)) == whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    assert list(_lines(rows)) == whole
    monkeypatch.setenv("COLUMNS", "45")
    assert list(_lines(rows)) == [
        "         published  corrections",
        "  delay      after         /min",
        "  10s      42s 1ms         26.5  ← now",
    ]
