"""No file of the package leads back to itself by imports: those within functions and for type checkers are included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def modules(source: Path) -> dict[str, Path]:
    found = {}
    for file in source.rglob("*.py"):
        parts = file.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """What is imported somewhere below: names with their module, and modules."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and child.module:
            yield from ((f"{child.module}.{each.name}", child.module) for each in child.names)
        elif isinstance(child, ast.Import):
            yield from ((each.name,) for each in child.names)
        elif isinstance(child, ast.Call) and "import_module" in ast.unparse(child.func):
            yield from ((each.value,) for each in child.args if isinstance(each, ast.Constant))
        yield from imported(child)


def arrows(source: Path) -> dict[str, set[str]]:
    known = modules(source)
    return {
        name: {
            next((each for each in wanted if each in known), name)
            for wanted in imported(ast.parse(file.read_text(encoding="utf-8")))
        }
        - {name, "latecomer"}  # which says by names of its own where each public name is
        for name, file in known.items()
        if name != "latecomer"
    }


def test_no_file_leads_back_to_itself() -> None:
    found = arrows(SOURCE)
    assert len(found) > 300
    TopologicalSorter(found).prepare()


def test_a_circle_is_found_also_where_an_import_is_deferred(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import two\n")
    (tmp_path / "two.py").write_text("def later():\n    from three import name\n")
    (tmp_path / "three.py").write_text("from importlib import import_module\nimport_module('one')\n")
    with pytest.raises(CycleError):
        TopologicalSorter(arrows(tmp_path)).prepare()
