"""Who has a store: in the metrics of its run, in `status`, and on the dashboard."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cli.cli_kit import NOON, PIPELINE, Lake
from latecomer.after.reading.reader import Reader
from latecomer.cli.monitoring import holder_in_words
from latecomer.config.operation import Lease
from latecomer.observe.dashboard.now import now
from latecomer.observe.figures import Figures
from latecomer.store.holding.lease import read_lease
from latecomer.store.holding.lock import LeaseFile, exclusive, lease_file
from latecomer.store.store import open_store

ME = f"process {os.getpid()}"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    made = Lake(file)
    made.store.pin()
    return made


def metrics(figures: Figures) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(figures)
    lines = generate_latest(registry).decode().splitlines()
    return {
        line.split("{")[0].removeprefix("latecomer_lease_"): float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("latecomer_lease_")
    }


def fall_silent(store: Path) -> None:
    """As if the holder had given no sign of life for an hour, by its clock."""
    place = LeaseFile(lease_file(store))
    seen = read_lease(place)
    assert seen is not None
    then = datetime.now(UTC) - timedelta(hours=1)
    place.put_if(replace(seen.record, renewed=then.isoformat()).content, seen.tag)


def test_a_run_with_a_lease_shows_its_token(lake: Lake) -> None:
    figures = Figures(lake.pipeline)
    assert metrics(figures) == {}
    with exclusive(lake.store.root, takeover=30.0):
        found = metrics(figures)
        assert (found["held"], found["token"]) == (1, 1)
        assert 0 <= found["renewal_age_seconds"] < 30
        assert abs(found["taken_timestamp_seconds"] - datetime.now(UTC).timestamp()) < 60
    assert metrics(figures)["held"] == 0


def test_a_run_that_stands_by_holds_nothing(lake: Lake) -> None:
    figures = Figures(lake.pipeline.model_copy(update={"lease": Lease(takeover="30s")}))
    assert metrics(figures) == {"held": 0}


def test_status_says_who_has_the_store(lake: Lake) -> None:
    store = open_store(lake.pipeline)
    assert holder_in_words(store) == "no run has the store"
    with exclusive(store.root):
        assert holder_in_words(store).startswith(f"{ME} has the store since 20")
        assert "token" not in holder_in_words(store)
    with exclusive(store.root, takeover=30.0):
        assert holder_in_words(store).startswith(f"{ME} on ")
        assert holder_in_words(store).endswith(", by the lease with token 1")
        fall_silent(lake.store.root)
        assert "; it has given no sign of life since 20" in holder_in_words(store)
    assert holder_in_words(store) == "no run has the store; its last lease had token 1"


def test_the_dashboard_shows_the_lease(lake: Lake) -> None:
    reader = Reader(lake.pipeline)
    assert now(reader, NOON)["lease"] is None
    with exclusive(lake.store.root, takeover=30.0):
        found = now(reader, NOON)
        assert found["running"]
        assert found["lease"]["holder"].startswith(f"{ME} on ")
        assert (found["lease"]["token"], found["lease"]["gives_signs"]) == (1, True)
        fall_silent(lake.store.root)
        found = now(reader, NOON)
        assert not found["running"]
        assert not found["lease"]["gives_signs"]
    assert now(reader, NOON)["lease"]["holder"] is None
