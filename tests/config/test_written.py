"""A pipeline file as text: what is no YAML, too large, too deep, or no file at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.mistakes_kit import GOOD, problems
from latecomer.config.load import load_pipeline, parse_pipeline
from latecomer.errors import PipelineError


def test_a_key_that_stands_twice_is_one_mistake_with_its_line(tmp_path: Path) -> None:
    (only,) = problems(GOOD.replace("ledger: [paise]", "name: other"), tmp_path)
    assert ":8: name: is written twice" in only
    assert "not valid YAML" not in only


def test_json_is_accepted_as_yaml(tmp_path: Path) -> None:
    import json

    import yaml

    as_json = json.dumps(yaml.safe_load(GOOD), indent=1)
    assert parse_pipeline(as_json, tmp_path / "p.json") == parse_pipeline(GOOD, tmp_path / "p.yaml")


def test_a_file_that_refers_to_itself_is_refused(tmp_path: Path) -> None:
    assert "refers to itself" in problems("a: &x [*x]\n", tmp_path)[0]


@pytest.mark.parametrize("deep", ["[" * 1_500 + "]" * 1_500, "{a: " * 1_500 + "}" * 1_500])
def test_a_file_nested_without_end_is_refused(tmp_path: Path, deep: str) -> None:
    assert "is nested too deeply" in problems(f"a: {deep}\n", tmp_path)[0]


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{nth}: &a{nth} [{', '.join([f'*a{nth - 1}'] * 10)}]" for nth in range(1, 12)]
    assert "has too many entries" in problems("\n".join(lines), tmp_path)[0]


def test_a_device_is_no_pipeline_file() -> None:
    with pytest.raises(PipelineError, match="is too large for a pipeline file"):
        load_pipeline("/dev/zero")


@pytest.mark.parametrize(("instead", "opened"), [("{tumbling: 1m", "bracket"), ('{tumbling: "1m}', "quote")])
def test_what_is_not_closed_is_reported_with_the_line_that_opens_it(
    tmp_path: Path, instead: str, opened: str
) -> None:
    (outcome,) = problems(GOOD.replace("{tumbling: 1m}", instead), tmp_path)
    assert f"on this line, and whether the {opened} of line 11 is closed" in outcome


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty\n    fix: start with `name:`"),
        (b"# nothing yet\n", "is empty\n    fix: start with `name:`"),
        (
            b"name: \xff\n",
            "byte 7 is not text in UTF-8\n    fix: save it as text in UTF-8, or correct the path",
        ),
        (None, "is a folder\n    fix: name a pipeline file"),
    ],
)
def test_a_file_that_is_no_pipeline_says_what_it_is(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "p"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(PipelineError) as refused:
        load_pipeline(file)
    assert message in str(refused.value)


def test_a_pipeline_file_without_the_right_to_read_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "p.yaml")

    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(
        PipelineError, match=r"cannot be read: Permission denied\n    fix: .*the right to read it"
    ):
        load_pipeline(tmp_path / "p.yaml")
