"""Tests that need a part of the machine are skipped with the reason, and fail where everything has to be there."""

from __future__ import annotations

import pytest

from postgres_kit import MISSING, required_binaries


def test_without_postgres_a_test_is_skipped_and_in_ci_it_fails(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATECOMER_TEST_POSTGRES", str(tmp_path_factory.mktemp("empty")))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Postgres here") as skipped:
        required_binaries()
    assert "\n" not in str(skipped.value) == MISSING
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Postgres here"):
        required_binaries()
