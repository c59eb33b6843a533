"""The page in a browser: it shows the numbers, and what is hostile in the data stays text."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import pytest

from after.nowcast.nowcast_kit import Story, tell
from dashboard.dashboard_kit import HOSTILE, new_lake, told_store
from latecomer.dashboard.serving import Dashboard

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed to look at the page with")


def seen(served: Dashboard, place: str, folder: Path) -> str:
    """The document as it stands once the page has asked and drawn."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder / 'browser'}", "--virtual-time-budget=8000", "--dump-dom"]
    said = subprocess.run(
        [*command, served.url + place], capture_output=True, text=True, timeout=120, check=True
    )
    return said.stdout


def test_the_page_shows_the_numbers_and_runs_nothing_of_the_data(tmp_path: Path) -> None:
    lake = told_store(tmp_path / "told", HOSTILE)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        now = seen(served, "", tmp_path)
        assert "<title>upi · now · latecomer</title>" in now
        assert ">stopped<" in now
        assert "3 batches complete" in now

        windows = seen(served, "#windows?output=minute_totals", tmp_path)
        assert ">27<" in windows
        assert f">{2**60}<" in windows, "exact, though it is no number of a browser's"
        for stage in ("open", "corrected", "rebuilt"):
            assert f">{stage}</span>" in windows
        assert "&lt;script&gt;document.title='owned'&lt;/script&gt;" in windows
        assert "<title>upi · windows · latecomer</title>" in windows
        assert "No nowcast: " in windows
        assert "and 30 are needed" in windows

        ledger = seen(served, "#ledger?output=minute_totals&fate=side_output", tmp_path)
        assert ">balances<" in ledger
        assert "file-1.json" in ledger

        asked = {
            "output": "minute_totals",
            "window": "2026-04-25T12:00:00Z",
            "key": json.dumps({"merchant": HOSTILE}),
        }
        explained = seen(served, "#explain?" + urlencode(asked), tmp_path)
        assert "paise 27, payments 3" in explained
        assert 'src="blob:' in explained
        assert "Took in 2 events" in explained
        for page in (now, windows, ledger, explained):
            assert "<img src" not in page
            assert page.count("<script") == 1, "the page's own"


def test_what_windows_will_probably_be_follows_when_it_is_known(tmp_path: Path) -> None:
    lake = tell(tmp_path / "busy", Story(minutes=60), 59.5, files=2)
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as served:
        windows = seen(served, "#windows?output=minute_totals", tmp_path)
    assert ">complete</th>" in windows
    assert windows.count(">probably ") >= 4
    assert "How far the estimates can be trusted" in windows
    assert "held-back numbers" in windows


def test_a_pipeline_that_never_ran_says_so(tmp_path: Path) -> None:
    with Dashboard([new_lake(tmp_path / "new").pipeline], "127.0.0.1", 0) as served:
        assert "Nothing to show yet: there is no store at" in seen(served, "", tmp_path)
        assert 'role="alert">window' in seen(served, "#windows?window=never", tmp_path)
