"""`format: protobuf` in a pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.test_avro_format import KAFKA, loaded, refused
from latecomer.config.registered import Protobuf

FILES = "files: {path: in, format: FORMAT}"


def test_the_options_of_protobuf(tmp_path: Path) -> None:
    options = "{protobuf: {registry: 'http://r', subject: payments-value, version: 3, message: Ride}}"
    pipeline = loaded(tmp_path, f"{KAFKA}\n  format: {options}")
    assert pipeline.format == Protobuf(
        registry="http://r", subject="payments-value", version=3, message="Ride"
    )
    sized = "{protobuf: {registry: 'http://r', subject: s, messages: sized}}"
    assert loaded(tmp_path, FILES.replace("FORMAT", sized)).source.has_records


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "protobuf",
            "protobuf records of Kafka name their schemas by ids; write format: {protobuf: {registry:",
        ),
        (
            "{protobuf: {registry: 'http://r'}}",
            "which schema the columns follow from; add subject: payments-value",
        ),
        ("{protobuf: {subject: s}}", "has a subject and no registry"),
        ("{protobuf: {registry: 'http://r', subject: s, messages: sized}}", "that is how files hold them"),
        ("{protobuf: {registry: 'http://r', subject: s, schema_file: a.proto}}", "unknown key"),
        ("{protobuf: {registry: 'http://r', subject: s, mesage: Ride}}", "unknown key"),
        ("{protobuf: {registry: 'http://r', subject: s, message: ''}}", "message"),
        ("protobuff", "write one of json, csv, parquet, avro, protobuf, or a decoder"),
    ],
    ids=str,
)
def test_what_is_refused_names_the_fix(tmp_path: Path, options: str, words: str) -> None:
    assert words in refused(tmp_path, f"{KAFKA}\n  format: {options}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("protobuf", "are read message by message; write messages: sized"),
        (
            "{protobuf: {registry: 'http://r', subject: s}}",
            "are read message by message; write messages: sized",
        ),
        (
            "{protobuf: {registry: 'http://r', subject: s, messages: joined}}",
            "a message of Protobuf does not say where it ends; write messages: sized",
        ),
        ("{protobuf: {messages: sized}}", "protobuf records of files name their schemas by ids"),
    ],
    ids=str,
)
def test_files_have_messages_with_their_lengths(tmp_path: Path, options: str, words: str) -> None:
    assert words in refused(tmp_path, FILES.replace("FORMAT", options))


def test_columns_are_not_declared_beside_it(tmp_path: Path) -> None:
    options = "{protobuf: {registry: 'http://r', subject: s}}"
    said = refused(tmp_path, f"{KAFKA}\n  format: {options}\n  schema: {{a: bigint}}")
    assert "has a schema beside protobuf" in said
