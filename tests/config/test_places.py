"""Paths that cannot be used, or that would bite one another, are refused before anything is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.load import parse_pipeline
from latecomer.errors import PipelineError
from latecomer.objects.locations import Url, options_of

PIPELINE = """\
name: paths
store: {store}
source: {{files: {{path: {source}}}}}
event: {{time: at}}
watermark: {{delay: 1s}}
outputs:
  one:
    window: {{tumbling: 1m}}
    aggregates: {{rows: count(*)}}
    sinks: [{first}]
  two:
    window: {{tumbling: 1m}}
    aggregates: {{rows: count(*)}}
    sinks: [{second}]
"""
FINE = {"store": "./lake", "source": "in", "first": "{delta: one}", "second": "{delta: two}"}


def refusal(folder: Path, **written: str) -> str:
    with pytest.raises(PipelineError) as refused:
        parse_pipeline(PIPELINE.format(**{**FINE, **written}), folder / "pipeline.yaml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("written", "field", "outcome"),
    [
        ({"store": "s3://key:word@bucket/lake"}, "store", "credentials do not belong in a URL"),
        ({"store": "abfss://c:word@account.dfs.core.windows.net/lake"}, "store", "credentials do not belong"),
        ({"store": "s3://bucket/lake?region=x"}, "store", "a URL cannot hold ? or #"),
        ({"store": "ftp://host/lake"}, "store", "ftp is not supported"),
        ({"store": "hdfs:///lake"}, "store", "the URL names no NameNode"),
        ({"store": "dbfs:/lake"}, "store", "dbfs is not supported"),
        (
            {"first": "{sqlite: 's3://bucket/one.db'}"},
            "outputs.one.sinks[0]",
            "a database in a file cannot be at a URL",
        ),
        (
            {"store": "s3://bucket/in/lake", "source": "'s3://bucket/in'"},
            "store",
            "shares a folder with the source",
        ),
        (
            {"store": "s3://bucket/lake", "first": "{delta: 's3://bucket/lake/one'}"},
            "outputs.one.sinks[0]",
            "shares a folder with the store",
        ),
        ({"source": "'viewfs://name/in'"}, "source.files.path", "viewfs is not supported"),
        ({"store": '"la\\0ke"'}, "store", "NUL"),
        ({"first": '{delta: "~nobody-of-that-name/one"}'}, "outputs.one.sinks[0]", "there is no such user"),
        ({"store": "in"}, "store", "shares a folder with the source"),
        ({"store": "in/lake"}, "store", "shares a folder with the source"),
        ({"source": "lake/in"}, "store", "shares a folder with the source"),
        ({"source": "'lake/../lake/in/*.json'"}, "store", "shares a folder with the source"),
        ({"first": "{jsonl: in/alerts}"}, "outputs.one.sinks[0]", "shares a folder with the source"),
        ({"first": "{jsonl: .}"}, "outputs.one.sinks[0]", "shares a folder with the store"),
        ({"first": "{delta: lake/one}"}, "outputs.one.sinks[0]", "shares a folder with the store"),
        (
            {"source": "'in/**/*.json'", "first": "{delta: in/deep/one}"},
            "outputs.one.sinks[0]",
            "shares a folder with the source",
        ),
        (
            {"source": "'in/*.json'", "first": "{sqlite: in/one.json}"},
            "outputs.one.sinks[0]",
            "shares a folder with the source",
        ),
        ({"second": "{delta: ./x/../one}"}, "outputs.two.sinks[0]", "output one writes already"),
        (
            {"first": "{iceberg: shop.one}", "second": "{iceberg: {table: shop.one}}"},
            "outputs.two.sinks[0]",
            "output one writes already",
        ),
        (
            {"first": "{duckdb: one.db}", "second": "{duckdb: {path: one.db, table: ONE}}"},
            "outputs.two.sinks[0]",
            "output one writes already",
        ),
        ({"second": "{parquet: one}"}, "outputs.two.sinks[0]", "output one writes already"),
        (
            {"first": "{sqlite: {path: a.db, table: T}}", "second": "{sqlite: {path: ./a.db, table: t}}"},
            "outputs.two.sinks[0]",
            "output one writes already",
        ),
        (
            {
                "first": "{postgres: {target: host=db, table: t}}",
                "second": "{postgres: {target: host=db, table: t, schema: public}}",
            },
            "outputs.two.sinks[0]",
            "output one writes already",
        ),
    ],
)
def test_paths_that_bite_are_refused(
    tmp_path: Path, written: dict[str, str], field: str, outcome: str
) -> None:
    said = refusal(tmp_path, **written)
    assert f"{field}: " in said
    assert outcome in said
    assert "fix: " in said


def test_a_link_is_followed_first(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    assert "shares a folder with the source" in refusal(tmp_path, store="alias")


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"first": "{sqlite: a.db}", "second": "{sqlite: a.db}"},
        {"first": "{postgres: host=db}", "second": "{postgres: host=db}"},
        {
            "first": "{postgres: {target: host=db, table: t}}",
            "second": "{postgres: {target: host=db, table: t, schema: two}}",
        },
        {"source": "'*.json'", "first": "{sqlite: one.db}"},
        {"source": "'in/*.json'", "first": "{delta: in/one}"},
    ],
)
def test_places_of_their_own_are_fine(tmp_path: Path, written: dict[str, str]) -> None:
    text = PIPELINE.format(**{**FINE, **written})
    assert parse_pipeline(text, tmp_path / "pipeline.yaml").name == "paths"


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("s3://bucket/lake", "s3://bucket/lake"),
        ("gs://bucket/lake/", "gs://bucket/lake"),
        ("abfss://c@account.dfs.core.windows.net/lake", "abfss://c@account.dfs.core.windows.net/lake"),
        ("file:///srv/lake", "/srv/lake"),
        ("file:/srv/lake", "/srv/lake"),
    ],
)
def test_a_store_may_be_a_url(tmp_path: Path, written: str, place: str) -> None:
    pipeline = parse_pipeline(PIPELINE.format(**{**FINE, "store": written}), tmp_path / "pipeline.yaml")
    assert str(pipeline.store_path) == place
    assert str(pipeline.store_path / "events") == f"{place}/events"


def test_a_file_of_credentials_of_nobody_is_refused(tmp_path: Path) -> None:
    text = PIPELINE.format(**{**FINE, "store": "s3://bucket/lake"})
    text += "storage: {credentials: ~nobody-of-that-name/keys}\n"
    with pytest.raises(PipelineError, match=r"storage\.credentials: there is no such user"):
        parse_pipeline(text, tmp_path / "pipeline.yaml")


def test_how_urls_are_reached_is_known_by_place(tmp_path: Path) -> None:
    text = PIPELINE.format(**{**FINE, "store": "s3://bucket/lake", "source": "'s3://bucket/in/*.json'"})
    text += "storage: {endpoint: 'https://minio:9000', credentials: keys}\n"
    pipeline = parse_pipeline(text, tmp_path / "pipeline.yaml")
    assert pipeline.source_path == "s3://bucket/in/*.json"
    place = pipeline.store_path / "events"
    assert isinstance(place, Url)
    assert (
        options_of(place).endpoint
        == options_of(Url("s3://bucket/in/a.json")).endpoint
        == "https://minio:9000"
    )
    assert options_of(place).credentials == str(tmp_path.resolve() / "keys")
    assert options_of(Url("s3://bucket/other")).endpoint is None
    with pytest.raises(PipelineError, match=r"storage\.secret: unknown key"):
        parse_pipeline(text.replace("credentials: keys", "secret: hunter2"), tmp_path / "pipeline.yaml")
