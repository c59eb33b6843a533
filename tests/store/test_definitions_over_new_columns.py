"""A file that declares columns and uses them at once: what is pinned is judged by what is pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.load import load_pipeline
from latecomer.errors import StoreMismatch
from latecomer.store.definitions import definition_of
from latecomer.store.pins import read_pins, write_pins
from latecomer.store.store import Store, open_store

PIPELINE = """\
name: rides
store: store
source:
  files: {path: in, order_by: arrived}
  schema: {at: timestamp, arrived: timestamp, fare_cents: bigint%s}
event: {time: at}
watermark: {delay: 10s}
outputs:
  totals: {window: {tumbling: 1m}, %s}
%s
"""
BEFORE = ("", "aggregates: {fare: sum(fare_cents)}", "")
AFTER = (
    ", base: bigint",
    "columns: {paid: 'coalesce(base, fare_cents)'}, aggregates: {fare: sum(paid)}",
    "  bases: {window: {tumbling: 1m}, columns: {twice: base * 2}, aggregates: {base: sum(twice)}}",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    found = tmp_path / "pipeline.yaml"
    found.write_text(PIPELINE % BEFORE, encoding="utf-8")
    pipeline = load_pipeline(found)
    Store(pipeline, pipeline.source.columns or {}).pin()
    found.write_text(PIPELINE % AFTER, encoding="utf-8")
    return found


def test_a_store_is_opened_with_a_file_that_uses_columns_it_has_just_declared(file: Path) -> None:
    store = open_store(load_pipeline(file))
    assert store.pinned_definition("totals") != definition_of(store.pipeline.outputs["totals"])
    assert store.pinned_definition("bases") is None


@pytest.mark.parametrize("place", ["outputs", "policies"])
def test_what_is_pinned_is_still_looked_at(file: Path, place: str) -> None:
    pipeline = load_pipeline(file)
    pinned = read_pins(pipeline.store_path)
    assert pinned is not None
    planted = {**pinned["outputs"]["totals"], "where": "reflect('java.lang.Runtime', 'getRuntime') is null"}
    if place == "outputs":
        pinned["outputs"]["totals"] = planted
    else:
        pinned["policies"]["totals"][0]["definition"] = planted
    write_pins(pipeline.store_path, pinned)
    with pytest.raises(StoreMismatch, match="has a definition of output totals that cannot be used"):
        open_store(pipeline)
