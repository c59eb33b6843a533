"""The page in a browser: it shows the numbers, follows a run, and what is hostile in the data stays text."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from after.explain.test_diagram import least_difference
from cli import cli_kit
from cli.cli_kit import MINUTE, NOON, Lake, pane
from dashboard.dashboard_kit import HOSTILE, close, new_lake, published_store
from latecomer.config.load import load_pipeline
from latecomer.observe.dashboard.page_server import STYLE, TOKEN, Dashboard
from observe.nowcast.nowcast_kit import Story, tell
from programs_kit import chromium
from spark_kit import quick_start

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SECRET = "a-token-that-is-long-enough"
PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
DAY = 24 * 60 * MINUTE
PATIENCE = 60_000
"""Milliseconds."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the module: while it is there, the process has a loop of events that others would trip over."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    environment: dict[str, str | float | bool] = {**os.environ, **program.variables}
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program.path, args=options, env=environment)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page, which must not complain of anything."""
    with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        context.set_default_timeout(PATIENCE)
        opened, complaints = context.new_page(), []
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        yield opened
        assert complaints == []


def seen(page: Page, served: Dashboard, place: str, text: str) -> str:
    """The document once a view has been drawn, which is when a text is in it."""
    page.goto(served.url + place)
    page.locator("main").get_by_text(text).first.wait_for()
    return page.content()


def picture(page: Page, name: str) -> None:
    """For people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def fits(page: Page) -> bool:
    """Whether nothing but tables has to be moved sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_the_page_shows_the_numbers_and_runs_nothing_of_the_data(tmp_path: Path, page: Page) -> None:
    lake = published_store(tmp_path / "told", HOSTILE)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        now = seen(page, served, "", "3 batches complete")
        assert page.title() == "upi · now · latecomer"
        assert ">stopped<" in now

        windows = seen(page, served, "#windows?output=minute_totals", "and 30 are needed")
        assert ">27<" in windows
        assert f">{2**60:,}<" in windows, "exact, though it is no number of a browser's"
        for stage in ("open", "corrected", "rebuilt"):
            assert f">{stage}</span>" in windows
        assert "&lt;script&gt;document.title='owned'&lt;/script&gt;" in windows
        assert page.title() == "upi · windows · latecomer"
        assert "No nowcast: " in windows

        ledger = seen(page, served, "#ledger?output=minute_totals&fate=side_output", "file-1.json")
        assert ">balances<" in ledger

        asked = {
            "output": "minute_totals",
            "window": "2026-04-25T12:00:00Z",
            "key": json.dumps({"merchant": HOSTILE}),
        }
        explained = seen(page, served, "#explain?" + urlencode(asked), "Took in 2 events")
        assert "paise 27, payments 3" in explained
        assert 'src="blob:' in explained
        for each in (now, windows, ledger, explained):
            assert "<img src" not in each
            assert each.count("<script") == 1, "the page's own"


def test_history_is_said_to_be_history(tmp_path: Path, page: Page) -> None:
    """Its watermark is minutes behind the newest arrival, and the page is not live."""
    lake = published_store(tmp_path / "told")
    close(lake, 3, NOON + 400 * DAY, on_time=1)
    lake.watermarks(3, [{"tick": 9, "at": NOON + 9 * MINUTE, "watermark": NOON + 8 * MINUTE}])
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        now = seen(page, served, "", "This is history")
        picture(page, "now-history")
    assert "2026-04-25" in page.locator(".chart .level").first.inner_text(), "axes end at the newest arrival"
    assert page.locator("#live").inner_text().startswith("Up to date")
    assert "d 1" not in page.locator("#lag").inner_text()
    assert now.count(">Watermark ") == 1, "one card of lag, and not one an output"


def test_no_words_of_a_plot_cover_others(busy: Lake, page: Page) -> None:
    with Dashboard([busy.pipeline], "127.0.0.1", 0) as served:
        for place, words in (
            ("#lateness", "This alone sets the delay"),
            ("#arrivals?output=minute_totals", "Event time against"),
        ):
            seen(page, served, place, words)
            boxes = page.evaluate(
                "[...document.querySelectorAll('main svg')].map(svg => [...svg.querySelectorAll('text')].map("
                "each => { const b = each.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }))"
            )
            assert any(boxes)
            for plot in boxes:
                for one, other in combinations(plot, 2):
                    beside = one[2] <= other[0] + 1 or other[2] <= one[0] + 1
                    assert beside or one[3] <= other[1] + 4 or other[3] <= one[1] + 4, (place, one, other)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fates_can_be_told_apart_by_colour_blind_eyes(scheme: str) -> None:
    light, dark = STYLE.split("@media", 2)[:2]
    names = ("on-time", "late", "aside", "dropped", "again", "filtered", "dead")
    of_scheme = light if scheme == "light" else dark
    colours = [re.findall(f"--{name}:(#[0-9a-f]{{6}})", of_scheme)[0] for name in names]
    assert least_difference(colours) > 20


def test_a_pane_that_is_being_published_is_the_last_of_its_life(tmp_path: Path, page: Page) -> None:
    """Its batch is not complete, so nobody knows yet when it was published."""
    lake = published_store(tmp_path / "told")
    lake.panes("minute_totals", 3, [pane(0, 2, timing="LATE", paise=99, merchant="amul", payments=4)])
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "#windows?output=minute_totals&window=2026-04-25T12:00:00Z", "over time")
        places = page.locator("svg.life circle").evaluate_all(
            "dots => dots.map(each => +each.getAttribute('cx'))"
        )
    assert places == sorted(places)
    assert len(places) == 3


def test_panes_that_were_published_together_stand_where_they_were_fired(tmp_path: Path, page: Page) -> None:
    """A year that is read in one go is published in one moment: its lives go by the arrival clock."""
    lake = new_lake(tmp_path / "history")
    lake.store.pin()
    panes = [
        {**pane(0, 0, merchant="amul", paise=5, payments=1), "fired_at": NOON + 2 * MINUTE},
        {**pane(0, 1, timing="LATE", merchant="amul", paise=7, payments=2), "fired_at": NOON + 3 * MINUTE},
        {**pane(0, 2, timing="LATE", merchant="amul", paise=9, payments=3), "fired_at": NOON + 12 * MINUTE},
    ]
    lake.panes("minute_totals", 0, panes)
    close(lake, 0, NOON + DAY, on_time=1)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "#windows?output=minute_totals", "over time")
        first, second, third = page.locator("svg.life circle").evaluate_all(
            "dots => dots.map(each => +each.getAttribute('cx'))"
        )
    assert (second - first) * 9 == pytest.approx(third - second)


def test_why_a_number_is_not_estimated_does_not_widen_the_table(tmp_path: Path, page: Page) -> None:
    """It had pushed the lives of windows out of a page of 1200 pixels."""
    reason = "far beyond all 300 past numbers at this age"
    lake = published_store(tmp_path / "told")
    key = {"merchant": "amul"}
    row = {"start": "2026-04-25T12:02:00Z", "end": "2026-04-25T12:03:00Z", "key": key, "estimates": {}}
    found = {
        "rows": [{**row, "complete": 0.99, "reason": reason}],
        "refused": None,
        "warnings": [],
        "notes": [],
    }
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        page.route("**/api/0/nowcast*", lambda route: route.fulfill(json=found))
        seen(page, served, "#windows?output=minute_totals", reason)
        assert page.locator(".reason").first.bounding_box()["width"] < 200  # type: ignore[index]


def test_what_is_counted_has_no_digits_after_the_point(tmp_path: Path, page: Page) -> None:
    """Beside a measure in decimals, too."""
    lake = published_store(
        tmp_path / "told", text=cli_kit.PIPELINE.replace("ledger: [paise]", "ledger: [paise, fee]")
    )
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "#ledger?output=minute_totals", "balances")
        cells = page.get_by_role("region", name="Totals").locator("td.n").all_inner_texts()
        assert "7" in cells
        assert not [cell for cell in cells if "." in cell]
        seen(page, served, "", "Signals")
        assert "0 %" not in page.locator(".upright span:first-child").all_inner_texts(), (
            "0 stands below already"
        )


def test_totals_lead_to_the_events_below_them(tmp_path: Path, page: Page) -> None:
    with Dashboard([published_store(tmp_path / "told").pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "#ledger?output=minute_totals", "balances")
        page.get_by_role("region", name="Totals").get_by_role("link").nth(1).click()
        page.get_by_role("heading", name="late, accepted: minute_totals, the newest").wait_for()
        page.get_by_text("2026-04-25 12:00:25Z").first.wait_for()
        heads = [each.strip() for each in page.locator("main h2").all_inner_texts()]
    assert heads[:2] == ["Totals", "late, accepted: minute_totals, the newest"]


def test_it_follows_while_batches_are_published(tmp_path: Path, page: Page) -> None:
    lake = published_store(tmp_path / "told")
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "", "3 batches complete")
        close(lake, 3, NOON + 5 * MINUTE, on_time=40)
        page.get_by_text("4 batches complete").wait_for()


PIPELINE = """\
name: live
store: store
source: {files: {path: arrivals, format: json}, columns: {at: timestamp, shop: string, paise: bigint}}
event: {time: at}
watermark: {strategy: bounded, delay: 1s}
outputs:
  minutes: {window: {tumbling: 1m}, by: [shop], aggregates: {paise: sum(paise)}, late: update, allowed_lateness: 1h}
"""


@pytest.mark.long
def test_it_follows_a_pipeline_that_runs(tmp_path: Path, page: Page) -> None:
    """A process of its own runs; files come, and what is late corrects a number that the page shows."""
    file, arrivals = tmp_path / "live.yaml", tmp_path / "arrivals"
    file.write_text(PIPELINE, encoding="utf-8")
    arrivals.mkdir()

    def arrive(name: str, *rows: tuple[str, int]) -> None:
        lines = [
            json.dumps({"at": f"2026-04-25T12:{at}Z", "shop": "a", "paise": paise}) for at, paise in rows
        ]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        (tmp_path / name).rename(arrivals / name)

    arrive("1.json", ("00:10", 7), ("01:30", 1))
    run = [sys.executable, "-m", "latecomer", "run", str(file)]
    with subprocess.Popen(run, cwd=tmp_path, env={**os.environ, **quick_start()}) as running:
        try:
            with Dashboard([load_pipeline(file)], "127.0.0.1", 0) as served:
                page.goto(served.url + "#windows?output=minutes")
                page.get_by_role("link", name="why is paise 7").wait_for(timeout=3 * PATIENCE)
                arrive("2.json", ("00:20", 5), ("01:40", 1))
                page.get_by_role("link", name="why is paise 12").wait_for()
                page.get_by_role("link", name="Now").click()
                page.get_by_text("running").first.wait_for()
                picture(page, "live")
                running.send_signal(signal.SIGINT)
                assert running.wait(60) == 0
                page.get_by_text("stopped").first.wait_for()
        finally:
            running.kill()


def test_a_number_leads_to_its_explanation(tmp_path: Path, page: Page) -> None:
    lake = published_store(tmp_path / "told")
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "", "3 batches complete")
        page.get_by_role("link", name="Windows").click()
        page.get_by_role("link", name="why is paise 27").click()
        page.get_by_text("Took in 2 events").wait_for()
        assert page.title() == "upi · explain · latecomer"
        picture(page, "explain")
        page.go_back()
        page.get_by_role("link", name="why is paise 27").wait_for()


def test_it_can_be_used_by_keyboard(tmp_path: Path, page: Page) -> None:
    with Dashboard([published_store(tmp_path / "told").pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "", "3 batches complete")
        reached = []
        for _ in range(5):
            page.keyboard.press("Tab")
            reached.append(str(page.evaluate("document.activeElement.textContent")))
        assert reached == ["Skip to the content", "Now", "Arrivals", "Windows", "Lateness"]
        page.keyboard.press("Enter")
        page.get_by_text("This alone sets the delay").wait_for()


def test_a_token_is_asked_for_and_a_wrong_one_refused(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = published_store(tmp_path / "told")
    monkeypatch.setenv(TOKEN, SECRET)
    with Dashboard([lake.pipeline], "0.0.0.0", 0) as served:
        page.goto(served.url.replace("0.0.0.0", "127.0.0.1"))
        asked = page.get_by_label(re.compile("token", re.IGNORECASE))
        asked.fill("wrong")
        asked.press("Enter")
        page.get_by_text("That is not the token").wait_for()
        assert "upi" not in page.inner_text("body"), "nothing is told before"
        asked.fill(SECRET)
        asked.press("Enter")
        page.get_by_text("3 batches complete").wait_for()


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return tell(tmp_path_factory.mktemp("busy") / "store", Story(minutes=60), 59.5, files=2)


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), ("dark", 390)], ids=["desk", "phone at night"]
)
def test_every_view_fits_the_screen(busy: Lake, browser: Browser, scheme: str, width: int) -> None:
    views = {
        "now": "batches complete",
        "arrivals?output=minute_totals": "Event time against arrival time",
        "windows?output=minute_totals": "probably",
        "lateness": "This alone sets the delay",
        "ledger": "balances",
    }
    with (
        Dashboard([busy.pipeline], "127.0.0.1", 0) as served,
        browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
        ) as context,
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        for view, text in views.items():
            seen(page, served, f"#{view}", text)
            assert fits(page), view
            picture(page, f"{view.partition('?')[0]}-{scheme}-{width}")
        shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", shade)[:3])) > 3 * 128
        assert light == (scheme == "light")


def test_what_windows_will_probably_be_follows_when_it_is_known(busy: Lake, page: Page) -> None:
    with Dashboard([busy.pipeline], "127.0.0.1", 0) as served:
        windows = seen(page, served, "#windows?output=minute_totals", "How far the estimates can be trusted")
    assert ">complete</th>" in windows
    assert windows.count(">probably ") >= 4
    assert "held-back numbers" in windows


def test_a_pipeline_that_never_ran_says_so(tmp_path: Path, page: Page) -> None:
    with Dashboard([new_lake(tmp_path / "new").pipeline], "127.0.0.1", 0) as served:
        seen(page, served, "", "Nothing to show yet: there is no store at")
        assert 'role="alert">window' in seen(page, served, "#windows?window=never", "window")
