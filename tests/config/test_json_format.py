"""`format: {json: {registry: …}}` in a pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.load import check_secrets, load_pipeline
from latecomer.config.models import Pipeline
from latecomer.config.registered import RegisteredJson
from latecomer.errors import PipelineError

FILE = """
name: payments
store: store
source:
  {source}
  schema: {{at: timestamp, paise: bigint}}
event: {{time: at}}
watermark: {{delay: 1m}}
outputs: {{minutes: {{window: {{tumbling: 1m}}, aggregates: {{n: count(*)}}}}}}
"""
KAFKA = "kafka: {servers: 'db:9092', topics: [payments]}"


def loaded(folder: Path, source: str) -> Pipeline:
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(source=source))
    return load_pipeline(file)


def test_the_options_of_json(tmp_path: Path) -> None:
    found = loaded(tmp_path, f"{KAFKA}\n  format: {{json: {{registry: 'http://r', id_header: sid}}}}").format
    assert found == RegisteredJson(registry="http://r", id_header="sid")
    assert found == RegisteredJson(registry="http://r", id_header="sid", validates=True)
    unchecked = loaded(tmp_path, f"{KAFKA}\n  format: {{json: {{validate: false}}}}").format
    assert unchecked == RegisteredJson(validates=False)
    assert loaded(tmp_path, f"{KAFKA}\n  format: {{json: {{}}}}").format == "json"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (f"{KAFKA}\n  format: {{json: {{id_header: sid}}}}", "has no registry that knows the schemas"),
        (f"{KAFKA}\n  format: {{json: {{validate: false, token: t}}}}", "has a token and no registry"),
        (
            f"{KAFKA}\n  format: {{json: {{registry: 'http://r', id_header: __value_schema_id}}}}",
            "where Confluent's serializers write a GUID, which is not supported",
        ),
        (
            f"{KAFKA}\n  format: {{json: {{registry: 'http://r', subject: payments-value}}}}",
            "has a schema beside the subject payments-value, and the columns follow from one of them; leave one out",
        ),
        (
            f"{KAFKA}\n  format: {{json: {{registry: 'http://r', version: 2}}}}",
            "has a version and no subject",
        ),
        (
            f"{KAFKA}\n  format: {{json: {{validate: false, subject: payments-value}}}}",
            "has a subject and no registry",
        ),
        (
            f"{KAFKA}\n  format: {{json: {{regstry: 'http://r'}}}}",
            "the options of json are id_header, messages, registry",
        ),
        (
            "files: {path: in, format: {json: {registry: 'http://r'}}}",
            "lines of files have no id of a schema",
        ),
    ],
    ids=str,
)
def test_what_is_refused_names_the_fix(tmp_path: Path, source: str, words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        loaded(tmp_path, source)
    assert words in str(caught.value).replace("\n    fix: ", "; ")


def test_a_token_that_is_not_there_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    options = "{json: {registry: 'http://r', token: '${env:NO_SUCH_TOKEN}'}}"
    pipeline = loaded(tmp_path, f"{KAFKA}\n  format: {options}")
    with pytest.raises(PipelineError, match=r"source\.format\.json\.token: the environment has no such"):
        check_secrets(pipeline, tmp_path / "pipeline.yaml")
