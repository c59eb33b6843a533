"""The reference has everything that the code has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tools import reference

import latecomer
from latecomer import errors, testing
from latecomer.cli import app
from latecomer.config.jsonschema import pipeline_schema
from latecomer.config.sinks import SINKS

PAGES = reference.pages()


def headings(page: str) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", PAGES[f"docs/reference/{page}"], flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.*?)(?: \{#.*\})?$", text, re.MULTILINE)


def verbs(group: Any, before: str = "") -> Iterator[str]:
    for name, verb in group.commands.items():
        if hasattr(verb, "commands"):
            yield from verbs(verb, f"{before}{name} ")
        else:
            yield before + name


def test_every_verb_is_there() -> None:
    found = set(verbs(typer.main.get_command(app)))
    assert {"run", "rebuild plan", "registry serve", "registry token new"} <= found
    assert found <= set(headings("command-line.md"))


@pytest.mark.parametrize(
    "option", ["--as-of T", "--format, -f table|json|csv", "--svg PATH", "--set FIELD=VALUE"]
)
def test_an_option_is_written_as_it_is_used(option: str) -> None:
    assert f"| `{option}` |" in PAGES["docs/reference/command-line.md"]


def test_every_key_of_the_pipeline_file_is_there() -> None:
    page = PAGES["docs/reference/pipeline-file.md"]
    schema = pipeline_schema()
    assert set(schema["$defs"]) <= set(headings("pipeline-file.md"))
    for shape in (schema, *schema["$defs"].values()):
        for key in shape.get("properties", {}):
            assert f"| `{key}` |" in page
    assert SINKS.keys() <= set(headings("pipeline-file.md"))


def test_every_public_name_is_there() -> None:
    names = {*latecomer.__all__, *testing.__all__}
    written = {*headings("python.md"), *headings("errors.md")}
    assert {each for each in names if not each.startswith("__")} <= written


def test_defaults_are_written_as_one_writes_them() -> None:
    bounded = PAGES["docs/reference/python.md"].partition("### Bounded")[2].partition("###")[0]
    assert "| `max_future` | `'5m'` |" in bounded
    assert "| `delay` | required |" in bounded


def test_the_tree_of_errors_has_errors_alone() -> None:
    drawn = PAGES["docs/reference/errors.md"].partition("```\n")[2].partition("```")[0]
    for line in drawn.splitlines():
        name = line.lstrip("│├└─ ")
        error = getattr(errors, name, None) or getattr(testing, name)
        assert issubclass(error, latecomer.LatecomerError)


def test_no_object_is_written_by_its_address() -> None:
    for text in PAGES.values():
        assert not re.search(r"0x[0-9a-f]{6,}|<class |<function |PydanticUndefined", text)
