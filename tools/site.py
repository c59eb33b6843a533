"""Builds the site of the documents: `python -m tools.site`.

The pages stand in a copy of the project, in the same places, so that a link works in the project and on the site.
Beside them stand the files they link to, and the reference, which is made from the code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from tools import reference

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "mkdocs.yml"
BUILD = ROOT / "build"
SOURCE = BUILD / "site-source"
PAGES = ("*.md", "deploy/README.md", "examples/*/README.md", "docs/**/*")
LINK = re.compile(r"\]\(\s*<?([^)<>\s#]+)[^)]*\)")
FETCHED = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)


def project_pages(root: Path = ROOT) -> list[Path]:
    """Every document of the project, and what docs/ holds besides."""
    return sorted({each for pattern in PAGES for each in root.glob(pattern) if each.is_file()})


def links(text: str) -> list[str]:
    """What a page links to, without anchors; code is left out.

    >>> links("[a](b.md#c), `[d](e.md)` and ![f](g.svg)")
    ['b.md', 'g.svg']
    """
    without_code = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return [unquote(each) for each in LINK.findall(without_code)]


def linked_files(page: Path, root: Path = ROOT) -> Iterator[Path]:
    """The files of the project, other than pages, that a page links to."""
    for link in links(page.read_text(encoding="utf-8")):
        target = (page.parent / link).resolve()
        if "://" not in link and target.is_file() and target.is_relative_to(root):
            yield target


def collect(source: Path = SOURCE, root: Path = ROOT) -> None:
    """Put the pages and all they link to into a folder, and the reference."""
    shutil.rmtree(source, ignore_errors=True)
    pages = project_pages(root)
    linked = {each for page in pages if page.suffix == ".md" for each in linked_files(page, root)}
    for file in sorted({*pages, *linked}):
        copy = source / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    made = reference.pages()
    for name, text in made.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    # In a checkout these pages do not exist, so the page that documents link to cannot name them by links.
    with (source / reference.FOLDER / "README.md").open("a", encoding="utf-8") as contents:
        contents.write("\nOn this site:\n\n")
        contents.writelines(f"- [{title(source / name)}]({Path(name).name})\n" for name in made)


def title(page: Path) -> str:
    """The first heading of a page; of a decision, with its number as the file has it."""
    heading = page.read_text(encoding="utf-8").partition("\n")[0]
    number = re.match(r"\d{4}", page.name)
    words = re.sub(r"^#\s*(?:ADR )?(?:\d+[.:]?\s+)?", "", heading).strip()
    return f"{number[0]} {words}" if number else words


def with_folders(entries: list[Any], source: Path = SOURCE) -> list[Any]:
    """The navigation, with the pages of each folder that it names in the folder's place."""
    found: list[Any] = []
    for entry in entries:
        [(name, value)] = entry.items()
        if isinstance(value, list):
            value = with_folders(value, source)
        elif value.endswith("/"):
            pages = sorted(
                (source / value).glob("*.md"), key=lambda page: (page.name != "README.md", page.name)
            )
            first, *rest = pages
            value = [f"{value}{first.name}", *({title(page): f"{value}{page.name}"} for page in rest)]
        found.append({name: value})
    return found


def build() -> int:
    """Collect the pages and let MkDocs make the site of them; a link to nowhere is an error."""
    collect()
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["nav"] = with_folders(config["nav"])
    config |= {"docs_dir": str(SOURCE), "site_dir": str(BUILD / "site")}
    made = BUILD / "mkdocs.yml"
    made.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(made)]
    if status := subprocess.run(command, check=False).returncode:
        return status
    fetched = [(page, each) for page in sorted((BUILD / "site").rglob("*.html")) for each in outside(page)]
    for page, address in fetched:
        print(f"{page.relative_to(BUILD)}: fetches {address}; put it beside the page", file=sys.stderr)
    return 1 if fetched else 0


def outside(page: Path) -> list[str]:
    """What a page of the site fetches from other hosts when it is opened; links are not fetched."""
    return FETCHED.findall(page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(build())
