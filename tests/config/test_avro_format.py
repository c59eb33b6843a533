"""`format: avro` in a pipeline file, and the heads of object files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest

from latecomer.config.avro_files import file_schema
from latecomer.config.damaged_files import DamagedFile
from latecomer.config.load import check_secrets, load_pipeline
from latecomer.config.models import Pipeline
from latecomer.config.registered import Avro
from latecomer.errors import PipelineError

FILE = """
name: payments
store: store
source:
  {source}
event: {{time: at}}
watermark: {{delay: 1m}}
outputs: {{minutes: {{window: {{tumbling: 1m}}, aggregates: {{n: count(*)}}}}}}
"""
KAFKA = "kafka: {servers: 'db:9092', topics: [payments]}"
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


def loaded(folder: Path, source: str) -> Pipeline:
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(source=source))
    return load_pipeline(file)


def refused(folder: Path, source: str) -> str:
    with pytest.raises(PipelineError) as caught:
        loaded(folder, source)
    return str(caught.value).replace("\n    fix: ", "; ")


def test_the_options_of_avro(tmp_path: Path) -> None:
    pipeline = loaded(
        tmp_path,
        f"{KAFKA}\n  format: {{avro: {{registry: 'http://r', subject: payments-value, version: 3}}}}",
    )
    assert pipeline.format == Avro(registry="http://r", subject="payments-value", version=3)
    assert loaded(tmp_path, "files: {path: in, format: avro}").format == Avro()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("avro", "name their schemas by ids; write format: {avro: {registry:"),
        ("{avro: {registry: 'http://r'}}", "does not say which schema the columns follow from; add subject"),
        ("{avro: {subject: s}}", "has a subject and no registry"),
        ("{avro: {registry: 'http://r', schema_file: a.avsc, subject: s}}", "names two schemas"),
        ("{avro: {registry: 'http://r', schema_file: a.avsc, version: 2}}", "has a version and no subject"),
        ("{avro: {registry: 'http://r', subject: s, version: newest}}", "version"),
        ("{avro: {registry: 'http://r', subjct: s}}", "unknown key"),
        ("avroo", "write one of json, csv, parquet, avro, protobuf, or a decoder"),
    ],
    ids=str,
)
def test_what_is_refused_names_the_fix(tmp_path: Path, options: str, words: str) -> None:
    assert words in refused(tmp_path, f"{KAFKA}\n  format: {options}")


def test_files_of_avro_have_no_other_encoding(tmp_path: Path) -> None:
    said = refused(tmp_path, "files: {path: in, format: {avro: {schema_file: a.avsc}}, encoding: latin-1}")
    assert "pipeline.yaml:5: source.files: encoding is for csv and json; text in avro files is utf-8" in said


def test_columns_are_not_declared_beside_it(tmp_path: Path) -> None:
    said = refused(tmp_path, "files: {path: in, format: avro}\n  schema: {a: bigint}")
    assert "has a schema beside avro" in said


def test_a_token_that_is_not_there_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    options = "{avro: {registry: 'http://r', subject: s, token: '${env:NO_SUCH_TOKEN}'}}"
    pipeline = loaded(tmp_path, f"{KAFKA}\n  format: {options}")
    with pytest.raises(
        PipelineError, match=r"source\.format\.avro\.token: the environment has no such variable"
    ):
        check_secrets(pipeline, tmp_path / "pipeline.yaml")


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_the_head_of_an_object_file(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "a.avro"
    with open(file, "wb") as opened:
        fastavro.writer(opened, SCHEMA, [{"a": 1}], codec=codec, metadata={"more": "x" * 300})
    assert '"name": "R"' in file_schema(file)


def whole() -> bytes:
    opened = io.BytesIO()
    fastavro.writer(opened, SCHEMA, [{"a": 1}])
    return opened.getvalue()


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"Obj",
        b"PAR1" + whole(),
        whole()[:20],
        b"Obj\x01" + b"\xff" * 40,
        b"Obj\x01\x02\xfe\xff\xff\xff\x0f",
    ],
    ids=["empty", "short", "other", "cut", "number", "length"],
)
def test_a_damaged_head_is_damage(tmp_path: Path, damaged: bytes) -> None:
    file = tmp_path / "a.avro"
    file.write_bytes(damaged)
    with pytest.raises(DamagedFile):
        file_schema(file)


def test_an_unknown_codec_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.avro"
    file.write_bytes(whole().replace(b"\x08null", b"\x08nuhl"))
    with pytest.raises(DamagedFile, match="codec 'nuhl' is not known"):
        file_schema(file)


def test_it_is_in_the_json_schema() -> None:
    from latecomer.config.jsonschema import pipeline_schema

    text: Any = str(pipeline_schema())
    assert "schema_file" in text
    assert "unknown_id" in text
