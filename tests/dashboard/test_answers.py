"""What the page is told of a store: now, windows, lateness, ledger, explain."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake, pane
from dashboard.dashboard_kit import HOSTILE, close, get, new_lake, published_store
from latecomer.observe.dashboard.answers import Answers, fingerprint
from latecomer.observe.dashboard.page_server import Dashboard
from observe.nowcast.nowcast_kit import Story, tell

DAY = 24 * 60 * MINUTE
TWELVE = "2026-04-25T12:00:00Z"


def api(served: Dashboard, route: str, **asked: str) -> Any:
    got = get(f"{served.url}api/0/{route}", **asked)
    assert got.status == 200, got.text
    return got.json


def test_what_it_does_now(served: Dashboard) -> None:
    found = api(served, "now")
    assert (found["running"], found["batches"]) == (False, 3)
    assert found["published_at"] == (NOON + 4 * 60_000_000) // 1000
    assert found["watermark"]["state"] == "moving"
    assert [each["name"] for each in found["partitions"]["slowest"]] == ["p0"]
    assert found["received"]["bars"][-3:] == [3, 4, 0], "the minutes in which the batches were published"
    assert (found["history"], found["received"]["width"]) == (None, 60_000)
    events = next(
        row for row in found["fates"] if row["unit"] == "events" and row["output"] == "minute_totals"
    )
    assert (events["received"], events["on_time"], events["side_output"], events["dead_letter"]) == (
        7,
        4,
        1,
        1,
    )
    assert {each["alert"] for each in found["signals"]} >= {"lag", "side_output_spike", "corrections_drift"}
    assert len(found["days"]["lag"]) == 30


def test_a_single_batch_has_no_throughput(tmp_path: Path) -> None:
    """It is published at one moment: nobody knows how long it took."""
    lake = new_lake(tmp_path / "one")
    lake.store.pin()
    lake.watermarks(0, [{"tick": 0, "at": NOON, "watermark": NOON}])
    rates = []
    for batch, (second, events) in enumerate([(0, 6000), (1, 0), (10, 500), (20, 0)]):
        close(lake, batch, NOON + second * 1_000_000, on_time=events)
        with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
            rates.append(api(served, "now")["throughput"])
    assert rates == [None, None, 50.0, 25.0], (
        "a batch, the end of the input, 500 events in ten seconds, in twenty"
    )


def test_the_days_of_the_signals(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.observe.dashboard.answers.wall_clock", lambda: NOON + 10 * 60_000_000)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        days = api(served, "now")["days"]
    assert days["outputs"]["minute_totals"]["side_output"][-1] == pytest.approx(1 / 7)
    assert days["outputs"]["minute_totals"]["corrections"][-1] == pytest.approx(2 / 7), (
        "a late pane, and a rebuilt one"
    )
    assert days["outputs"]["minute_totals"]["side_output"][:-1] == [None] * 29
    assert days["lag"][-1] == pytest.approx((180 + 85 + 120) / 3)


def test_history_goes_by_the_arrival_clock(lake: Lake) -> None:
    """What arrived in April was read in June: the watermark is a minute behind what came, and not weeks."""
    close(lake, 3, NOON + 60 * DAY, on_time=1)
    row = {"tick": 9, "at": NOON + 9 * MINUTE, "watermark": NOON + 8 * MINUTE}
    events = [{"partition": "p0", "events": 5, "max_event_time": NOON + 9 * MINUTE}]
    lake.watermarks(3, [{**row, "partitions": events}])
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        found = api(served, "now")
    assert found["history"] == (NOON + 9 * MINUTE) // 1000
    assert (found["days"]["first"], found["days"]["last"]) == ("2026-03-27", "2026-04-25")
    assert found["days"]["lag"][-1] == pytest.approx((126 + 36 + 76 + 60) / 4)
    assert found["days"]["outputs"]["minute_totals"]["side_output"][-1] == pytest.approx(1 / 10)
    bars = found["received"]
    assert (sum(bars["bars"]), bars["width"]) == (10, 60_000)
    assert bars["since"] <= (NOON + 66 * 1_000_000) // 1000 < bars["until"]


def test_outputs_are_in_the_order_of_the_file(served: Dashboard, lake: Lake) -> None:
    names = list(lake.pipeline.outputs)
    assert names != sorted(names), "else nothing would be shown"
    for found in (api(served, "now")["fates"], api(served, "ledger")["totals"]):
        assert list(dict.fromkeys(row["output"] for row in found)) == names
    assert list(api(served, "now")["days"]["outputs"]) == names


NEW_YORK = PIPELINE.replace("window: {tumbling: 1m}", "window: {tumbling: 1m, zone: America/New_York}", 1)


@pytest.mark.parametrize(
    ("zone", "start"), [(None, "2026-04-25T08:00:00-04:00"), ("Asia/Kolkata", "2026-04-25T17:30:00+05:30")]
)
def test_windows_are_in_the_zone_of_their_output(tmp_path: Path, zone: str | None, start: str) -> None:
    lake = new_lake(tmp_path / "new_york", NEW_YORK)
    lake.store.pin()
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=1, payments=1)])
    lake.panes("everything", 0, [pane(0, 0)])
    with Dashboard([lake.pipeline], "127.0.0.1", 0, zone) as served:
        (found,) = api(served, "windows", output="minute_totals")["windows"]
        assert found["start"] == start
        (same,) = api(served, "windows", output="minute_totals", window=start[:19])["windows"]
        assert same == found, "a moment without an offset is one of that zone"
        assert api(served, "windows")["windows"] == [found], "the first output, where none is named"
        if zone is None:
            (other,) = api(served, "windows", output="everything")["windows"]
            assert other["start"] == TWELVE
        zones = [each["zone"] for each in get(f"{served.url}api/pipelines").json[0]["outputs"].values()]
        assert zones[:2] == ([zone, zone] if zone else ["America/New_York", "UTC"])


def test_event_time_against_arrival_time(served: Dashboard) -> None:
    found = api(served, "arrivals", output="minute_totals")
    assert (found["since"], found["until"], found["late"]) == (
        "2026-04-25T12:00:06Z",
        "2026-04-25T12:03:16Z",
        1,
    )
    assert (found["older"], found["newer"]) == (None, None)
    assert 'class="mark-late_accepted"' in found["svg"]
    before = api(served, "arrivals", output="minute_totals", until="2026-04-25T12:01:30Z")
    assert (before["late"], before["newer"]) == (0, "2026-04-25T12:03:16Z")


def test_the_sinks(served: Dashboard) -> None:
    (sink,) = api(served, "sinks")["sinks"]
    assert (sink["sink"], sink["state"], sink["behind"]) == ("sqlite", "behind", 3)


def test_the_life_of_each_window(served: Dashboard) -> None:
    found = api(served, "windows", output="minute_totals")
    lives = [(each["start"], each["stage"], each["values"]["paise"]) for each in found["windows"]]
    assert lives == [
        ("2026-04-25T12:02:00Z", "open", "1"),
        ("2026-04-25T12:01:00Z", "rebuilt", str(2**60)),
        (TWELVE, "corrected", "27"),
    ], "values are exact, though a browser has no room for them as numbers"
    panes = found["windows"][-1]["panes"]
    assert [(each["op"], each["timing"], each["values"]["paise"]) for each in panes] == [
        ("insert", "ON_TIME", "20"),
        ("retract", "LATE", "20"),
        ("insert", "LATE", "27"),
    ]
    assert panes[0]["at"] == (NOON + 120_000_000) // 1000, "when it was published, by the wall clock"


def test_a_decimal_has_all_digits_of_its_type(tmp_path: Path) -> None:
    """Else those of one column end at different places."""
    lake = new_lake(
        tmp_path / "fees", PIPELINE.replace("{paise: sum(paise), payments", "{paise: sum(fee), payments", 1)
    )
    lake.store.pin()
    lake.panes("minute_totals", 0, [pane(0, 0, paise=Decimal("12.50"), merchant="a", payments=1)])
    close(lake, 0, NOON, on_time=1)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        (found,) = api(served, "windows", output="minute_totals")["windows"]
    assert found["values"] == {"paise": "12.50", "payments": "1"}


def test_a_window_whose_first_number_came_late_is_not_corrected(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "late")
    lake.store.pin()
    one = {"merchant": "a", "payments": 1}
    lake.panes("minute_totals", 0, [pane(0, 0, timing="LATE", paise=1, **one)])
    lake.panes("minute_totals", 1, [pane(1, 0, timing="LATE", paise=1, **one)])
    again = [
        pane(1, 0, op="retract", timing="LATE", paise=1, **one),
        pane(1, 1, timing="LATE", paise=2, **one),
    ]
    lake.panes("minute_totals", 2, again)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        found = api(served, "windows", output="minute_totals")["windows"]
    assert [each["stage"] for each in found] == ["corrected", "published late"]


def test_windows_some_at_a_time(served: Dashboard) -> None:
    first = api(served, "windows", most="1")
    assert ([each["stage"] for each in first["windows"]], first["more"]) == (["open", "rebuilt"], True)
    assert first["older"] == 1, "an open window is not counted: it has no panes"
    second = api(served, "windows", most="1", skip="1")
    assert ([each["stage"] for each in second["windows"]], second["more"]) == (["corrected"], False)
    assert second["older"] is None
    assert api(served, "windows", key='{"merchant": "nobody"}')["windows"] == []
    held = api(served, "windows", window="2026-04-25T12:00:30Z", key='{"merchant": "amul"}')
    assert [each["start"] for each in held["windows"]] == [TWELVE]


def test_a_number_that_was_withdrawn_and_keys_of_null(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "few")
    lake.store.pin()
    both = [
        pane(0, 0, merchant=None, shop=1, payments=1),
        pane(0, 0, op="retract", merchant=None, shop=1, payments=1),
        pane(0, 0, merchant="a", shop=2, payments=1, timing="EARLY"),
    ]
    lake.panes("by_shop", 0, both)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        found = api(served, "windows", output="by_shop")["windows"]
        assert [(each["key"], each["stage"]) for each in found] == [
            ({"merchant": "a", "shop": "2"}, "open"),
            ({"merchant": None, "shop": "1"}, "withdrawn"),
        ]
        again = api(served, "windows", output="by_shop", key='{"merchant": null, "shop": "1"}')
        assert [each["stage"] for each in again["windows"]] == ["withdrawn"]


def test_the_ledger_by_day_and_batch(served: Dashboard) -> None:
    found = api(served, "ledger", output="minute_totals")
    assert found["differences"] == []
    assert [(day["day"], day["received"], day["batches"]) for day in found["days"]] == [("2026-04-25", 7, 3)]
    assert [(row["batch"], row["received"], row["side_output"]) for row in found["batches"]] == [
        (2, 0, 0),
        (1, 4, 1),
        (0, 3, 0),
    ]


def test_the_days_of_the_ledger_are_those_of_its_zone(tmp_path: Path) -> None:
    """Half past eight in the evening of New York is the next day in London."""
    lake = new_lake(tmp_path / "new_york", NEW_YORK)
    lake.store.pin()
    evening = NOON + 12 * 60 * MINUTE + 30 * MINUTE
    close(lake, 0, evening, dead_letter=1)
    close(lake, 1, evening + 4 * 60 * MINUTE, dead_letter=2)
    letters = [{"reason": "no_event_time", "raw": "{}", "position": place} for place in (1, 2)]
    lake.dead_letters(0, letters[:1])
    lake.dead_letters(1, letters[1:])
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        found = api(served, "ledger", output="minute_totals")
        assert [(day["day"], day["received"], day["batches"]) for day in found["days"]] == [
            ("2026-04-26", 2, 1),
            ("2026-04-25", 1, 1),
        ]
        assert [each["published_at"][:10] for each in found["batches"]] == ["2026-04-26", "2026-04-25"]
        for day in found["days"]:
            letters = api(served, "fate", output="minute_totals", fate="dead_letter", day=day["day"])[
                "events"
            ]
            assert len(letters) == day["batches"]


def test_a_ledger_that_does_not_balance_says_so(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "off")
    lake.store.pin()
    lake.ledger(0, [{"output": "minute_totals", "received": 3, "on_time": 2}])
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        off = api(served, "ledger")["differences"]
    assert [(each["output"], each["difference"]) for each in off] == [("minute_totals", "1")]


@pytest.mark.parametrize(
    ("asked", "positions"),
    [
        ({"fate": "on_time"}, [125, 5, 15, 65]),
        ({"fate": "on_time", "batch": "0"}, [5, 15, 65]),
        ({"fate": "late_accepted"}, [25]),
        ({"fate": "late_accepted", "batch": "0"}, []),
        ({"fate": "side_output"}, [30]),
        ({"fate": "side_output", "day": "2026-04-25"}, [30]),
        ({"fate": "side_output", "day": "2026-04-24"}, []),
        ({"fate": "dead_letter", "batch": "1"}, [9]),
        ({"fate": "duplicate"}, []),
        ({"fate": "on_time", "most": "2"}, [125, 5]),
    ],
)
def test_down_to_the_events_of_a_fate(served: Dashboard, asked: dict[str, str], positions: list[int]) -> None:
    found = api(served, "fate", output="minute_totals", **asked)
    assert [each["position"] for each in found["events"]] == positions
    assert found["more"] is ("most" in asked)


def test_why_a_number_is_what_it_is(served: Dashboard) -> None:
    found = api(served, "explain", output="minute_totals", window=TWELVE, key='{"merchant": "amul"}')
    assert found["stands"] == {"paise": 27, "payments": 3}
    assert [each["took_in"]["count"] for each in found["panes"] if each["op"] == "insert"] == [2, 1]
    assert found["picture"].startswith("<svg")


def test_how_late_events_come(served: Dashboard) -> None:
    found = api(served, "lateness")
    assert (found["events"], found["of_events"]) == (5, 5)
    advised = {each["field"]: each for each in found["advised"]}
    assert advised["watermark.delay"]["now"] == "30s"
    assert all(each["svg"].startswith("<svg") for each in [*found["delays"], *found["outputs"]])
    assert "now 30s" in found["delays"][1]["svg"], "where the settings stand"


def test_what_open_windows_will_probably_be(tmp_path: Path) -> None:
    lake = tell(tmp_path / "busy", Story(minutes=60), 59.5, files=2)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        found = api(served, "nowcast", output="minute_totals")
        windows = api(served, "windows", output="minute_totals")["windows"]
    assert (found["refused"], found["warnings"]) == (None, [])
    assert any("held-back numbers" in note for note in found["notes"])
    row = found["rows"][0]
    assert (row["start"], row["key"], row["reason"]) == ("2026-04-25T12:59:00Z", {"merchant": "amul"}, None)
    assert 0 < row["complete"] < 0.6
    estimate, low, high = map(int, row["estimates"]["payments"])
    assert low <= estimate <= high
    place = row["start"], row["end"], row["key"]
    assert place in [(each["start"], each["end"], each["key"]) for each in windows], (
        "the page finds its window"
    )


def test_a_history_that_is_too_short_says_so(served: Dashboard) -> None:
    found = api(served, "nowcast", output="minute_totals")
    assert "and 30 are needed" in found["refused"]
    assert found["rows"] == []


def test_a_pipeline_that_never_ran(tmp_path: Path) -> None:
    with Dashboard([new_lake(tmp_path / "new").pipeline], "127.0.0.1", 0) as served:
        for route in ("now", "sinks", "windows", "nowcast", "ledger", "lateness"):
            assert "there is no store at" in api(served, route)["empty"], route


def test_a_store_with_nothing_in_it(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "empty")
    lake.store.pin()
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        assert api(served, "now")["watermark"]["state"] == "none"
        assert api(served, "windows")["windows"] == []
        assert api(served, "nowcast")["refused"] == "no batch is complete yet; run the pipeline first"
        assert api(served, "ledger")["totals"] == []
        assert "has no complete batch yet" in api(served, "lateness")["empty"]
        for fate in ("on_time", "side_output", "duplicate", "dead_letter"):
            assert api(served, "fate", fate=fate, day="2026-04-25")["events"] == []


def test_a_damaged_table_is_an_error_in_words(lake: Lake, served: Dashboard) -> None:
    for file in (lake.file.parent / "lake" / "outputs" / "minute_totals" / "panes" / "data").rglob(
        "*.parquet"
    ):
        file.write_bytes(b"not a table")
    got = get(f"{served.url}api/0/windows", output="minute_totals")
    assert got.status == 409
    assert "cannot be used" in got.json["error"]
    assert "Traceback" not in got.text


def test_an_unchanged_store_is_not_read_again(lake: Lake) -> None:
    answers = Answers([lake.pipeline], clock=lambda: 0.0)
    first = answers.answer(0, "windows", "output=minute_totals")
    assert answers.answer(0, "windows", "output=minute_totals") is first
    assert answers.made == 1
    before = fingerprint(lake.pipeline)
    lake.panes("minute_totals", 3, [pane(5, 0, paise=1, merchant="b", payments=1)])
    close(lake, 3, NOON + 600_000_000)
    assert fingerprint(lake.pipeline) != before
    after = answers.answer(0, "windows", "output=minute_totals")
    assert (answers.made, after.tag != first.tag) == (2, True)


def test_what_depends_on_the_clock_ages(lake: Lake) -> None:
    time = [0.0]
    answers = Answers([lake.pipeline], clock=lambda: time[0])
    answers.answer(0, "now", "")
    time[0] = 59.0
    answers.answer(0, "now", "")
    assert answers.made == 1
    time[0] = 61.0
    answers.answer(0, "now", "")
    assert answers.made == 2


def test_the_store_stays_as_it_is(lake: Lake, served: Dashboard) -> None:
    root = lake.file.parent
    before = {file: file.stat().st_mtime_ns for file in root.rglob("*")}
    for route in ("now", "sinks", "windows", "ledger", "lateness"):
        api(served, route)
    api(served, "fate", fate="duplicate")
    api(served, "explain", window=TWELVE, key='{"merchant": "amul"}')
    assert {file: file.stat().st_mtime_ns for file in root.rglob("*")} == before


def test_hostile_keys_are_data(tmp_path: Path) -> None:
    with Dashboard([published_store(tmp_path / "evil", HOSTILE).pipeline], "127.0.0.1", 0) as served:
        (found,) = api(served, "windows", window=TWELVE)["windows"]
        assert found["key"] == {"merchant": HOSTILE}
        explained = api(served, "explain", window=TWELVE, key=json.dumps(found["key"]))
        assert explained["key"] == {"merchant": HOSTILE}
        assert "<script" not in explained["picture"]
        assert "<img" not in explained["picture"]
