"""What an object store does wrong is tried again, and named in one sentence where it does not pass."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import latecomer.objects.access as access
from latecomer.errors import StoreError, StoreOutage
from latecomer.store import files
from latecomer.store.delta.table import Table
from s3_faults import Faults, faulty
from s3_kit import Bucket

ROWS = pa.table({"a": range(100)})


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2}
    monkeypatch.setattr(access, "RETRIES", {**access.RETRIES, "backoff": backoff})


def some_of_each() -> Faults:
    return Faults(throttled=0.15, cut_before=0.1, cut_within=0.05, cut_after=0.05)


def test_what_passes_is_tried_again(bucket: Bucket, little_patience: None) -> None:
    faults = some_of_each()
    with faulty(bucket.endpoint, faults) as endpoint:
        root = Bucket(endpoint, bucket.name).url / "lake"
        for nth in range(30):
            files.replace_bytes(root / str(nth), b"%d" % nth)
            assert files.read_bytes(root / str(nth)) == b"%d" % nth
            assert files.put_if(root / f"new{nth}", b"%d" % nth, None) is not None
            assert files.put_if(root / f"new{nth}", b"other", None) is None
        assert len(files.names(root)) == 60
    assert min(faults.seen[name] for name in ("throttled", "cut_before", "cut_within", "cut_after")) > 0


@pytest.mark.parametrize("seed", [3, *(pytest.param(each, marks=pytest.mark.long) for each in (4, 6, 8))])
def test_a_table_is_made_and_fenced_all_the_same(bucket: Bucket, little_patience: None, seed: int) -> None:
    """Of these seeds, some break an answer off while the table is made, and some lose the answer of its making."""
    faults = some_of_each()
    faults.random.seed(seed)
    with faulty(bucket.endpoint, faults) as endpoint:
        root = Bucket(endpoint, bucket.name).url / "lake"
        table = Table(root / "table", ROWS.schema)
        table.append(0, ROWS)
        for token in (1, 2, 3):
            table.fence("engine", token)
        assert (table.rows(), table.last_batch("engine")) == (100, 3)


@pytest.mark.long
def test_a_table_is_committed_to_all_the_same(bucket: Bucket, little_patience: None) -> None:
    faults = some_of_each()
    with faulty(bucket.endpoint, faults) as endpoint:
        root = Bucket(endpoint, bucket.name).url / "lake"
        table = Table(root / "table", ROWS.schema)
        for batch in range(10):
            table.append(batch, ROWS)
        assert table.rows() == 1000


def test_a_put_whose_answer_was_lost_is_known_to_be_ours(bucket: Bucket, little_patience: None) -> None:
    faults = Faults(cut_after=0.3)
    with faulty(bucket.endpoint, faults) as endpoint:
        root = Bucket(endpoint, bucket.name).url / "lake"
        for nth in range(20):
            tag = files.put_if(root / str(nth), b"mine %d" % nth, None)
            assert tag is not None
            assert files.put_if(root / str(nth), b"mine again %d" % nth, tag) is not None
    assert faults.seen["cut_after"] > 5


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults(throttled=1.0), r"s3://.*/lake/x cannot be used: it is throttling \(tried \d+ times\); "),
        (
            Faults(cut_before=1.0),
            r"s3://.*/lake/x cannot be used: it does not answer \(tried \d+ times\); check the ",
        ),
    ],
    ids=["throttled", "cut"],
)
def test_what_does_not_pass_is_named(
    bucket: Bucket, little_patience: None, faults: Faults, words: str
) -> None:
    with faulty(bucket.endpoint, faults) as endpoint:
        root = Bucket(endpoint, bucket.name).url / "lake"
        with pytest.raises(StoreOutage, match=words):
            files.read_bytes(root / "x")
        with pytest.raises(StoreError, match=r"s3://.*/lake/t cannot be used: it "):
            Table(root / "t", ROWS.schema).append(0, ROWS)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("EXPIRED", "the credentials have expired; renew them"),
        ("UNKNOWN", "the credentials are not accepted; check them, and the region and endpoint"),
    ],
)
def test_credentials_that_are_refused_are_named(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, key: str, words: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    root = Bucket(bucket.endpoint, bucket.name).url / "elsewhere"
    access_error = f"s3://{bucket.name}/elsewhere/x cannot be used: {words}"
    with pytest.raises(StoreError) as raised:
        files.replace_bytes(root / "x", b"")
    assert str(raised.value) == access_error
    with pytest.raises(StoreError, match=words) as raised:
        Table(root / "t", ROWS.schema).append(0, ROWS)
    assert "testing-secret" not in str(raised.value)


def test_a_file_of_credentials_is_used_and_its_mistakes_are_named(bucket: Bucket, tmp_path: Path) -> None:
    from latecomer.objects.locations import Storage, Url, reached_by

    options = Storage(
        endpoint=bucket.endpoint, allow_http=True, credentials=str(tmp_path / "keys"), profile="mine"
    )
    root = reached_by(Url(f"s3://{bucket.name}/by-file"), options)
    with pytest.raises(
        OSError, match=r"keys cannot be read; mend the file, or name another in storage\.credentials"
    ):
        files.read_bytes(root / "x")
    (tmp_path / "keys").write_text("[other]\naws_access_key_id = a\naws_secret_access_key = b\n")
    with pytest.raises(OSError, match="has no profile mine with"):
        files.read_bytes(root / "x")
    (tmp_path / "keys").write_text("[mine]\naws_access_key_id = a\naws_secret_access_key = b\n")
    files.replace_bytes(root / "x", b"1")
    assert files.read_bytes(root / "x") == b"1"
