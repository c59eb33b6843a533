"""Programs that are downloaded: only what was meant, and never silently none."""

from __future__ import annotations

from pathlib import Path

import pytest

import programs_kit
from programs_kit import CannotBeHad, Program, chromium, promtool


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing installed and nothing downloaded."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CI", "LATECOMER_TEST_PROMTOOL", "LATECOMER_TEST_CHROMIUM"):
        monkeypatch.delenv(name, raising=False)
    for find in ("_promtool", "_chromium"):
        monkeypatch.setattr(programs_kit, find, getattr(programs_kit, find).__wrapped__)
    return tmp_path


@pytest.mark.parametrize("ci", ["", "true"])
def test_without_promtool_a_test_is_skipped(bare: Path, monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    why = "promtool cannot be had here: apt-get or dpkg-deb is not on the PATH; LATECOMER_TEST_PROMTOOL names one"
    with pytest.raises(pytest.skip.Exception, match=why):
        promtool()
    assert not (bare / "cache/latecomer/test-programs/promtool").exists(), "nothing half downloaded is left"


def test_without_chromium_a_test_is_skipped_and_in_ci_it_fails(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs_kit.platform, "machine", lambda: "s390x")
    with pytest.raises(pytest.skip.Exception, match="Chromium cannot be had here: npm has it for Linux on"):
        chromium()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="LATECOMER_TEST_CHROMIUM names one"):
        chromium()


def test_one_that_is_named_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATECOMER_TEST_CHROMIUM", str(bare / "mine"))
    assert chromium() == Program(bare / "mine")


def test_another_download_than_was_meant_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "other.tgz").write_bytes(b"something else")
    monkeypatch.setattr(programs_kit, "CHROMIUM", (bare / "other.tgz").as_uri())
    monkeypatch.setattr(programs_kit.platform, "system", lambda: "Linux")
    monkeypatch.setattr(programs_kit.platform, "machine", lambda: "x86_64")
    with pytest.raises(CannotBeHad, match="is not what it was: its SHA-512 is"):
        programs_kit._from_npm(bare)
