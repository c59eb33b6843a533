"""Secrets that somebody wrote in the wrong place do not reach errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.after.reconcile.against import Against
from latecomer.config.load import parse_pipeline
from latecomer.errors import PipelineError, Problem
from latecomer.errors.redacting import conceal, concealed_in, redacted

PIPELINE = """
name: secrets
store: {store}
source: {{files: {{path: in}}}}
event: {{time: at}}
watermark: {{delay: 1s}}
outputs:
  one:
    window: {{tumbling: 1m}}
    aggregates: {{rows: count(*)}}
    sinks: [{sink}]
"""


@pytest.mark.parametrize(
    "written",
    [
        {"store": "s3://KEY:hunter2@bucket/lake"},
        {"store": "s3://bucket/lake?secret=hunter2"},
        {"sink": "{oracle: 'oracle://ana:hunter2@db/books'}"},
        {"sink": "{postgres: {target: 'postgresql://ana:hunter2@db/books', tabel: x}}"},
        {"sink": "{postgres: {target: {password: hunter2}}}"},
        {"sink": "{sqlite: {path: a.db, password: hunter2}}"},
        {"sink": "{delta: 'abfss://a:hunter2@b/c'}"},
        {"sink": "{sqlite: {path: a.db, table: 'password=hunter2'}}"},
        {"store": "lake\npassword: hunter2"},
        {"store": "lake\ncredentials: {token: hunter2}"},
    ],
)
def test_no_mistake_in_a_pipeline_file_shows_a_secret(tmp_path: Path, written: dict[str, str]) -> None:
    text = PIPELINE.format(**{"store": "lake", "sink": "{delta: one}", **written})
    with pytest.raises(PipelineError) as refused:
        parse_pipeline(text, tmp_path / "pipeline.yaml")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        "host=db user=ana password=hunter2",
        "mysql://ana:hunter2@db/books",
        "PWD=hunter2",
    ],
)
def test_a_source_that_is_none_is_told_without_its_password(source: str) -> None:
    with pytest.raises(PipelineError) as refused:
        Against(source).rows()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ana@db/books", "postgresql://ana@db/books"),
        ("postgres://ana:s3cret@db:5432/books", "postgres://ana:***@db:5432/books"),
        ("postgresql://ana:s3@cret@db/books", "postgresql://ana:***@db/books"),
        ("postgresql://ana:s3/cret@db/books", "postgresql://ana:***@db/books"),
        ("postgresql://db/books?user=ana&password=s3cret", "postgresql://db/books?user=ana&password=***"),
        (
            "postgresql://db/books?pasword=s3cret&sslmode=require",
            "postgresql://db/books?pasword=***&sslmode=require",
        ),
        ("POSTGRESQL://ana:s3cret@db", "POSTGRESQL://ana:***@db"),
        ("postgresql:///books", "postgresql:///books"),
        ("books.csv", "books.csv"),
        ("mysql://ana:s3cret@db/books", "mysql://ana:***@db/books"),
        ("host=db user=ana password=s3cret", "host=db user=ana password=***"),
        ("host=db PASSWORD = 's3 cret' port=1", "host=db PASSWORD = *** port=1"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_other_values_are_shown_as_they_are() -> None:
    assert "(value: 'status = 1')" in str(Problem("where", "is wrong", "status = 1"))
    assert "(value: {'a': 1})" in str(Problem("where", "is wrong", {"a": 1}))


def test_a_secret_may_be_read_while_another_is_looked_for() -> None:
    class Text(str):
        def __contains__(self, secret: object) -> bool:
            conceal("read by another thread")
            return super().__contains__(secret)

    conceal("known-to-no-other-test")
    assert concealed_in([Text("password known-to-no-other-test")]) == ["known-to-no-other-test"]
