"""Dead letters that were replayed, in tables made by hand: which stand, what has moved, and plans that are not ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from latecomer.config.models import Pipeline
from latecomer.errors import StoreError, StoreMismatch
from latecomer.source.fixes import Fix
from latecomer.store.layout import DEAD_LETTERS, LEDGER, REPAIRS
from latecomer.store.repairs import FOLDER, Repair, kept_repair, moved_letters, standing_letters
from latecomer.store.store import Store

COLUMNS = {"at": "string", "paise": "bigint"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    pipeline = Pipeline.model_validate(
        {
            "name": "by_hand",
            "store": "store",
            "base": tmp_path,
            "source": {"files": {"path": "in"}, "schema": COLUMNS},
            "event": {"time": "at"},
            "watermark": {"delay": "10s"},
            "outputs": {"totals": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
            "ledger": ["paise"],
        }
    )
    return Store(pipeline, COLUMNS)


def rows(schema: pa.Schema, given: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {each.name: pa.array([row.get(each.name) for row in given], each.type) for each in schema}
    )


def letter(position: int, reason: str = "unreadable") -> dict[str, Any]:
    return {"batch": 0, "reason": reason, "detail": "first", "raw": "{", "origin": "a", "position": position}


def attempt(
    batch: int, position: int, repaired: bool, reason: str | None = None, paise: int = 0
) -> dict[str, Any]:
    amounts = [{"unit": "paise", "amount": Decimal(paise)}] if repaired else []
    named = {"letter_batch": 0, "letter_reason": "unreadable", "origin": "a", "position": position}
    results = {"reason": reason, "detail": reason and f"said by {batch}", "amounts": amounts}
    return {"batch": batch, **named, "repaired": repaired, **results}


def complete(store: Store, batch: int) -> None:
    store.ledger.append(batch, LEDGER.empty_table())


def standing(store: Store) -> list[tuple[int, str, str]]:
    found = standing_letters(store).to_pylist()
    return [(row["position"], row["reason"], row["detail"]) for row in found]


def test_what_was_repaired_stands_no_more_and_what_was_not_has_its_newest_reason(store: Store) -> None:
    assert standing(store) == []
    store.dead_letters.append(0, rows(DEAD_LETTERS, [letter(1), letter(2), letter(3), letter(3, "too_long")]))
    complete(store, 0)
    assert [position for position, _, _ in standing(store)] == [1, 2, 3, 3]

    tried = [attempt(1, 1, False, "no_event_time"), attempt(1, 3, True, paise=7)]
    store.repairs.append(1, rows(REPAIRS, tried))
    assert len(standing(store)) == 4, "the batch is not complete"
    complete(store, 1)
    store.repairs.append(
        2, rows(REPAIRS, [attempt(2, 1, False, "too_far_ahead"), attempt(2, 2, True, paise=5)])
    )
    complete(store, 2)
    # The other letter in the place of the third was filed with another reason.
    assert standing(store) == [(1, "too_far_ahead", "said by 2"), (3, "too_long", "first")]
    assert moved_letters(store.repairs) == {
        (1, "events"): 1,
        (1, "paise"): 7,
        (2, "events"): 1,
        (2, "paise"): 5,
    }


def test_a_plan_is_read_as_it_was_written(store: Store) -> None:
    assert kept_repair(store.root) is None
    fix = Fix("dd/MM/yyyy", None, {"paise": "paise + 1"})
    kept = Repair(store.root / FOLDER, 4, 17, fix.written(), [{"kind": "json", "header": []}])
    kept.keep(pa.table({"x": [1]}), pa.table({"y": [2]}))
    found = kept_repair(store.root)
    assert found == kept
    assert found.outcome().to_pylist() == [{"y": 2}]
    assert Fix.restored(found.fix, store.pipeline, COLUMNS) == fix
    found.tidy()
    assert kept_repair(store.root) is None


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"{}", b'{"batch": "1", "arrival": 1, "fix": {}, "forms": []}', b"not UTF-8: \xff"],
)
def test_a_plan_that_cannot_be_read_is_refused(store: Store, content: bytes) -> None:
    Repair(store.root / FOLDER, 4, 17, {}, []).keep(pa.table({"x": [1]}), pa.table({"y": [2]}))
    (store.root / "repairing" / "plan.json").write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        kept_repair(store.root)


@pytest.mark.parametrize(
    "fix",
    [
        {"columns": {"paise": "reflect('java.lang.Runtime', 'getRuntime')"}},
        {"columns": {"paise": "(select 1)"}},
        {"columns": {"nope": "1"}},
        {"time_unit": "years"},
        {"other": 1},
        {"columns": 5},
    ],
    ids=json.dumps,
)
def test_a_fix_that_was_planted_in_a_store_never_reaches_spark(store: Store, fix: dict[str, Any]) -> None:
    with pytest.raises(StoreMismatch, match="restore the store"):
        Fix.restored(fix, store.pipeline, COLUMNS)
