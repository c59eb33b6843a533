"""A store whose pipeline has changed: what it keeps, and when it may be deleted."""

from __future__ import annotations

import re
import shutil

import pytest

from cli.cli_kit import PIPELINE, Lake
from latecomer.errors import StoreMismatch
from latecomer.store.answers import SourceAnswer, SourceAnswers
from latecomer.store.source_columns import source_columns
from latecomer.store.source_files import Found, FoundLog
from latecomer.store.store import Store

CURE = "and run again: no batch was read yet"
CHANGES = {
    "columns": ("km: double", "km: float"),
    "output": ("paise: sum(paise)", "paise: max(paise)"),
    "ledger": ("ledger: [paise]", "ledger: []"),
}


def _refused(lake: Lake) -> str:
    pipeline = lake.pipeline
    with pytest.raises(StoreMismatch) as caught:
        Store(pipeline, source_columns(pipeline)).pins()
    return str(caught.value)


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_without_any_batch_may_be_deleted(unrun: Lake, change: str) -> None:
    unrun.store.pin()
    unrun.file.write_text(PIPELINE.replace(*CHANGES[change]), encoding="utf-8")
    assert f"delete the store at {unrun.pipeline.store_path} {CURE}" in _refused(unrun)
    shutil.rmtree(unrun.pipeline.store_path)
    Store(unrun.pipeline, source_columns(unrun.pipeline)).pin()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("begun", ["dead_letters", "found", "offsets"])
def test_a_store_whose_first_batch_was_begun_is_not_to_be_deleted(
    unrun: Lake, change: str, begun: str
) -> None:
    unrun.store.pin()
    if begun == "dead_letters":  # the first table that a batch is written to
        unrun.dead_letters(0, [{"raw": "{broken"}])
    elif begun == "found":
        found = FoundLog(unrun.pipeline.store_path)
        found.open(-1, logged=False)
        found.write([Found("/a.json", 1)], size=1)
    else:
        SourceAnswers(unrun.pipeline.store_path).write(0, SourceAnswer(None, {"0": 7}))
    unrun.file.write_text(PIPELINE.replace(*CHANGES[change]), encoding="utf-8")
    assert CURE not in _refused(unrun)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (
            "id: txn_id",
            "id: [txn_id, shop]",
            'another id (id "txn_id" in the store, id ["txn_id", "shop"] in the file)',
        ),
        ("id: [txn_id, shop]", "id: txn_id", "another id"),
        ("id: [txn_id, shop]", "id: [shop, txn_id]", "another id"),
        ("zone: UTC", "id: [txn_id, shop]", "another id"),
    ],
)
def test_a_store_keeps_its_ids(unrun: Lake, before: str, after: str, outcome: str) -> None:
    """What was a duplicate and what was none has been decided by them."""
    unrun.file.write_text(PIPELINE.replace("id: txn_id", before))
    unrun.store.pin()
    unrun.store.pin()
    unrun.file.write_text(PIPELINE.replace("id: txn_id", after))
    with pytest.raises(StoreMismatch, match=re.escape(outcome)):
        unrun.store.pin()


def test_a_list_of_one_column_is_that_column(lake: Lake) -> None:
    lake.file.write_text(PIPELINE.replace("id: txn_id", "id: [txn_id]"))
    lake.store.pin()
    assert lake.pipeline.event.id == "txn_id"
