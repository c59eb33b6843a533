"""The examples in the documents are run as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from latecomer.testing.playing import run_transcript
from latecomer.testing.transcripts import parse_transcript

RELAXED = {"suppress_health_check": list(HealthCheck)}
DOCS = Path(__file__).parents[2] / "docs"


def examples(document: str, language: str) -> list[str]:
    text = (DOCS / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def unhurried() -> Iterator[None]:
    """Properties that may take their time: the machine may be busy."""
    settings.register_profile("documents", database=None, deadline=None, max_examples=30, **RELAXED)
    settings.load_profile("documents")
    yield
    settings.load_profile("usual")


@pytest.mark.usefixtures("unhurried")
def test_the_examples_of_the_testing_kit_run(spark: SparkSession) -> None:
    names: dict[str, Any] = {"spark": spark, "__name__": "examples"}
    for example in examples("testing.md", "python"):
        exec(compile(example, "<docs/testing.md>", "exec"), names)  # a file of that name would be looked into
    properties = [value for name, value in names.items() if name.startswith("test_")]
    assert len(properties) == 2
    for each in properties:
        each()


@pytest.mark.parametrize("written", examples("transcripts.md", "yaml"))
def test_the_transcripts_in_the_document_hold(written: str) -> None:
    assert run_transcript(parse_transcript(written, DOCS / "transcripts.md")) == []
