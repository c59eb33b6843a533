"""What the pages say of the project is so, and every page can be found."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import reference
from tools.site import collect, linked_files, links, outside, project_pages

import latecomer
from latecomer.cli.verbs import VERBS
from latecomer.config.load import load_pipeline

ROOT = Path(__file__).parents[2]
ADRS = sorted(f"docs/adr/{each.name}" for each in (ROOT / "docs/adr").glob("0*.md"))
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("page", ["docs/guarantees.md", "SECURITY.md"])
def test_the_tests_that_show_a_promise_exist(page: str) -> None:
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(named) >= 15
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        there = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
        assert not test or test in there, f"{page} names {file}::{test}"


def test_every_promise_has_a_condition_and_a_test() -> None:
    promises = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(promises) >= 15
    for promise in promises:
        assert "Holds " in promise, promise
        assert NAMED.search(promise), promise


def test_every_verb_is_in_the_table_of_verbs() -> None:
    page = (ROOT / "docs/verbs.md").read_text(encoding="utf-8")
    assert {name for name in VERBS if not re.search(rf"^\| `{name}\b", page, re.MULTILINE)} == set()


def test_every_call_is_named_among_those_of_python() -> None:
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    calls = {name for name in latecomer.__all__ if inspect.isfunction(getattr(latecomer, name))}
    assert {name for name in calls if f"`{name}" not in page} == set()


def entries(navigation: list[Any]) -> Iterator[str]:
    for entry in navigation:
        [value] = entry.values()
        if isinstance(value, list):
            yield from entries(value)
        else:
            yield value


def test_every_page_is_in_the_navigation() -> None:
    named = list(entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {str(each.relative_to(ROOT)) for each in project_pages() if each.suffix == ".md"}
    lost = {page for page in pages if page not in named and f"{Path(page).parent}/" not in named}
    assert not lost, "name these pages in mkdocs.yml"


def test_every_link_to_a_file_leads_there() -> None:
    """In a checkout, where generated pages do not exist."""
    assert lost_links(page for page in project_pages() if page.suffix == ".md") == []
    assert ROOT / "LICENSE" in linked_files(ROOT / "README.md")


def test_every_link_to_a_file_leads_there_on_the_site(tmp_path: Path) -> None:
    """Before `make docs` makes the site of these pages; those of the reference are linked to."""
    collect(tmp_path)
    assert lost_links(tmp_path.rglob("*.md")) == []
    named = links((tmp_path / reference.FOLDER / "README.md").read_text(encoding="utf-8"))
    assert {Path(name).name for name in reference.pages()} <= {*named}


def lost_links(documents: Iterable[Path]) -> list[str]:
    """The links to files that do not exist, each with its page."""
    return [
        f"{page} links to {link}"
        for page in documents
        for link in links(page.read_text(encoding="utf-8"))
        if "://" not in link and not link.startswith("mailto:") and not (page.parent / link).exists()
    ]


PROJECT_FILE = re.compile(
    r"`((?![\w./-]*NAME\b)(?:[\w.-]+/)*[\w-]+\.(?:py|java|toml|js|css|html))(?:::\w+)?`"
)
INSIDE = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", *ADRS]
"""Documents about the project alone. Others have files of users in their examples, such as `sinks.py`."""


def test_documents_name_only_files_that_exist() -> None:
    """By their path from the project, from the package or from the tests, or by their name."""
    files = [f"/{each}" for each in project_files()]
    lost = {}
    for page in (str(each.relative_to(ROOT)) for each in project_pages() if each.suffix == ".md"):
        named = set(PROJECT_FILE.findall((ROOT / page).read_text(encoding="utf-8")))
        if page not in INSIDE:
            named = {
                each for each in named if each.startswith(("src/", "tests/", "tools/", "bench/", "examples/"))
            }
        if page != "CHANGELOG.md":  # which tells of what was
            lost[page] = {each for each in named if not any(file.endswith(f"/{each}") for file in files)}
    assert not {page: names for page, names in lost.items() if names}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_a_document_names_only_rooms_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    rooms = {each.rstrip("/") for each in re.findall(r"`((?:\w+/)+)`", text)}
    package = ROOT / "src" / "latecomer"
    known = {
        *stored_names(),
        *(room for room in rooms if (package / room).is_dir() or (ROOT / room).is_dir()),
    }
    assert rooms <= known
    if page == "ARCHITECTURE.md":
        folders = {each.name for each in package.iterdir() if (each / "__init__.py").is_file()}
        assert folders <= rooms, "ARCHITECTURE.md lacks these rooms"


def test_decisions_are_few_and_listed_by_theme() -> None:
    listed = re.findall(
        r"^- \[(\d{4}) .*?\]\((.*?)\)$", (ROOT / "docs/adr/README.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(f"docs/adr/{file}" for _, file in listed) == ADRS
    assert all(file.startswith(number) for number, file in listed)
    assert len(ADRS) <= 25, "fold the new decision into the record of its theme"


def test_a_decision_that_is_referred_to_exists() -> None:
    known = {Path(each).name[:4] for each in ADRS}
    lost = {}
    for file in project_files():
        if Path(file).suffix in {".py", ".md", ".toml", ".yaml", ".yml"}:
            named = re.findall(r"\bADRs?\s+(?:#\s*)?(0\d{3})", (ROOT / file).read_text(encoding="utf-8"))
            lost[file] = {*named} - known
    assert not {file: numbers for file, numbers in lost.items() if numbers}


def test_the_architecture_stays_short() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 12 * 1024


def project_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = listed.split() or [str(each.relative_to(ROOT)) for each in ROOT.rglob("*") if each.is_file()]
    return [each for each in found if (ROOT / each).exists()]


def stored_names() -> set[str]:
    """The folders of a store that docs/store.md explains."""
    return {
        each.rstrip("/")
        for each in re.findall(r"`(\w+/)", (ROOT / "docs/store.md").read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorial.md",
        "docs/how-to/kafka-to-postgres.md",
        "docs/migrating-from-withwatermark.md",
    ],
)
def test_pipeline_files_on_pages_are_valid(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SERVERS", "localhost:9092")
    monkeypatch.setenv("POSTGRES", "postgresql://localhost/books")
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^name: .*?(?=^```|^EOF)", text, re.MULTILINE | re.DOTALL)
    assert found
    for number, written in enumerate(found):
        file = tmp_path / f"{number}.yaml"
        file.write_text(written, encoding="utf-8")
        assert load_pipeline(file).outputs


def test_the_pipeline_of_the_readme_takes_dataframes_by_their_arrival_time(tmp_path: Path) -> None:
    """Without `order_by` a frame arrives in one tick, and the example would publish nothing after its first batch."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [written] = re.findall(r"^name: .*?(?=^```)", text, re.MULTILINE | re.DOTALL)
    [frames] = re.findall(r"`source: (\{dataframe: .*?)`", text)
    file = tmp_path / "upi.yaml"
    file.write_text(
        re.sub(r"^source:\n.*\n", f"source: {frames}\n", written, count=1, flags=re.MULTILINE), "utf-8"
    )
    assert load_pipeline(file).order_by == "arrival_time"


def test_what_a_page_would_fetch_from_elsewhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="https://example.org/read"></a><script src="assets/a.js"></script>'
        '<link rel="stylesheet" href="https://example.org/a.css"><img alt="b" src="//example.org/b.svg">'
    )
    assert outside(page) == ["https://example.org/a.css", "//example.org/b.svg"]
