"""What a commit costs at an object store: each request is paid for, and waited for."""

from __future__ import annotations

import pyarrow as pa

from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import CHECKPOINT_EVERY
from latecomer.store.holding.lock import exclusive
from s3_faults import Faults, faulty
from s3_kit import Bucket

SCHEMA = pa.schema([("batch", pa.int64())])
OF_A_COMMIT = 9
"""Its file and itself are put. delta-rs looks twice which version is the next one, and reads what was committed; before
the next commit that is read once more."""

OF_A_TABLE_THAT_WAS_FENCED = 5
"""What was committed since is looked for, and the newest commits are read for the last batch."""


def test_a_table_that_was_opened_to_be_fenced_is_not_read_again(bucket: Bucket) -> None:
    """Opening it reads every commit since the last checkpoint, twice."""
    store = bucket.url / "lake"
    with exclusive(store):
        table = Table(store / "events", SCHEMA)
        for batch in range(CHECKPOINT_EVERY - 2):
            table.append(batch, pa.table({"batch": [batch]}))
    with faulty(bucket.endpoint, passing := Faults()) as endpoint:
        store = Bucket(endpoint, bucket.name).url / "lake"
        with exclusive(store):
            before = len(passing.asked)
            assert Table(store / "events", SCHEMA).last_batch() == CHECKPOINT_EVERY - 3
            cost = sum("events" in each for each in passing.asked[before:])
            second = Table(store / "events", SCHEMA)
            second.append(CHECKPOINT_EVERY - 2, pa.table({"batch": [CHECKPOINT_EVERY - 2]}))
    assert cost <= OF_A_TABLE_THAT_WAS_FENCED


def test_a_commit_costs_few_requests_however_many_came_before(bucket: Bucket) -> None:
    costs = []
    with faulty(bucket.endpoint, passing := Faults()) as endpoint:
        store = Bucket(endpoint, bucket.name).url / "lake"
        with exclusive(store):
            table = Table(store / "events", SCHEMA)
            for batch in range(CHECKPOINT_EVERY - 2):
                before = len(passing.asked)
                table.append(batch, pa.table({"batch": [batch]}))
                costs.append(sum("events" in each for each in passing.asked[before:]))
    assert max(costs[1:]) <= OF_A_COMMIT
