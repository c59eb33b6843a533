"""References to secrets: read when they are needed, shown never."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.mistakes_kit import KAFKA
from latecomer.config.kafka import client_options
from latecomer.config.load import check_secrets, parse_pipeline
from latecomer.config.secrets import reference_problems, resolved
from latecomer.errors import PipelineError, SinkOutage
from latecomer.errors.redacting import without_secrets

WORD = "tr\\ust-no-1"


def test_a_reference_is_what_it_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_USER", "anna-of-the-books")
    (tmp_path / "word").write_text("s3 cret\n", encoding="utf-8")
    written = "host=db user=${env:LEDGER_USER} password='${file:word}' cost=$5 {x}"
    assert resolved(written, tmp_path) == "host=db user=anna-of-the-books password='s3 cret' cost=$5 {x}"


def test_what_it_stood_for_is_in_no_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", WORD)
    resolved("${env:WORD}", tmp_path)
    assert without_secrets(f"login as '{WORD}' failed") == "login as '***' failed"
    assert without_secrets(f"login with {WORD!r} failed") == "login with '***' failed"
    assert "ust-no" not in SinkOutage(f"{WORD} was refused", f"{WORD} was refused").reason


@pytest.mark.parametrize(
    ("written", "message", "value"),
    [
        (
            "${env:NO_SUCH_VARIABLE_HERE}",
            "the environment has no such variable",
            "${env:NO_SUCH_VARIABLE_HERE}",
        ),
        ("a${file:missing}b", "the file cannot be read (No such file or directory)", "${file:missing}"),
        ("${file:bytes}", "the file cannot be read (it is no text)", "${file:bytes}"),
        (
            "${file:~nobody-1/word}",
            "the file cannot be read (there is no such user)",
            "${file:~nobody-1/word}",
        ),
        (
            "${file:/dev/zero}",
            "the file cannot be read (it has more than 4,194,304 bytes)",
            "${file:/dev/zero}",
        ),
        ("${file:empty}", "stands for nothing", "${file:empty}"),
        ("${HOME}", "a reference says neither env nor file", "${HOME}"),
        ("${vault:x}", "a reference says neither env nor file", "${vault:x}"),
    ],
)
def test_a_reference_to_nothing_is_a_mistake(tmp_path: Path, written: str, message: str, value: str) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfd")
    (tmp_path / "empty").write_bytes(b"\n")
    (problem,) = reference_problems([("source.kafka.options", written)], tmp_path)
    assert (problem.message, problem.value) == (message, value)
    assert problem.fix


def test_a_text_without_references_is_no_mistake(tmp_path: Path) -> None:
    assert not list(reference_problems([("target", "postgresql://db/books")], tmp_path))


def test_every_reference_to_nothing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(KAFKA, encoding="utf-8")
    with pytest.raises(PipelineError) as refused:
        check_secrets(parse_pipeline(KAFKA, file), file)
    outcome = {(problem.field, problem.line, problem.value) for problem in refused.value.problems}
    assert outcome == {
        ("source.kafka.servers", 5, "${env:NO_SERVERS}"),
        ("source.kafka.options.sasl.password", 5, "${env:NO_WORD}"),
        ("outputs.totals.late_to[0].servers", 13, "${env:NO_SINK}"),
        ("dead_letters_to[0].target", 14, "${env:NO_TARGET}"),
    }


def test_a_file_of_nobodys_in_a_clients_options_is_left_for_the_client_to_name(tmp_path: Path) -> None:
    options = client_options(
        {"ssl.ca.location": "~nobody-here/ca.pem", "client.id": "~nobody-here"}, tmp_path
    )
    assert options == {"ssl.ca.location": f"{tmp_path}/~nobody-here/ca.pem", "client.id": "~nobody-here"}
