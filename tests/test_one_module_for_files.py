"""Only store/files.py with what it stands on, and for Delta store/delta/tables.py, touch the files of a store
(ADR 0026)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "latecomer"
THE_ONES = (
    "store/files.py",
    "store/local_files.py",
    "objects/",
    "store/delta/tables.py",
)
OTHERS = {
    "observe/advise/raw_files.py": "files or a table of the user's, before any pipeline exists",
    "after/letters/choosing.py": "corrected texts are a file of the user's",
    "after/reconcile/": "the other side is a file or database of the user's",
    "cli/": "files that the user names; doctor looks at the machine",
    "config/": "the pipeline file, and the files of a source",
    "observe/dashboard/page_server.py": "the page, which comes with the package",
    "source/decode/": "the files of a source",
    "errors/system.py": "asks which disk has refused, or is full",
    "log/log_task.py": "packs ticks in memory, on their way to the driver",
    "config/postgres_server.py": "duplicates a socket's number, to cut a line that is silent",
    "schemas/registry/": "the registry's own database, its tokens, and schemas of the user's",
    "sink/": "a sink's target, and a sink's own `open`",
    "source/finding.py": "the files of a source, and its folders",
    "source/found_files.py": "likewise",
    "source/messages.py": "likewise",
    "spark/packages.py": "jars, in the cache of the user",
    "spark/archive.py": "archives of classes, likewise",
    "spark/environment.py": "the Python that is installed, and an archive that the user names",
    "spark/master.py": "Spark's own settings",
    "spark/java.py": "the Java that is installed",
    "spark/session.py": "the logs and the warehouse of the JVM, on the machine where it runs",
    "testing/": "a folder for a test, and a sink's own `open`",
}
"""Who else may touch files, and which: none of them is the store's."""

MODULES = {
    "fcntl": None,
    "glob": None,
    "obstore": None,
    "os": None,
    "pyarrow.csv": None,
    "pyarrow.dataset": None,
    "pyarrow.feather": None,
    "pyarrow.fs": None,
    "pyarrow.ipc": None,
    "pyarrow.json": None,
    "pyarrow.orc": None,
    "pyarrow.parquet": None,
    "shutil": None,
    "tempfile": None,
    "pyarrow": {"OSFile", "memory_map", "input_stream", "output_stream"},
    "deltalake": {"DeltaTable", "write_deltalake", "convert_to_deltalake"},
    "io": {"open", "FileIO"},
}
"""Where functions come from that touch files: all of a module's, or these."""
HARMLESS = {"os.getpid", "os.kill", "os.umask", "os.path.join"}
METHODS = {
    *(
        "chmod",
        "exists",
        "glob",
        "hardlink_to",
        "is_dir",
        "is_file",
        "is_symlink",
        "iterdir",
        "lstat",
        "mkdir",
    ),
    *(
        "open",
        "read_bytes",
        "read_text",
        "rename",
        "rglob",
        "rmdir",
        "samefile",
        "stat",
        "symlink_to",
        "touch",
    ),
    *("unlink", "write_bytes", "write_text"),
}
"""What a path can do, and a pure path cannot."""


def touches(text: str) -> Iterator[tuple[int, str]]:
    """The line and the call, for each call that touches files."""
    tree = ast.parse(text)
    known = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _touches(node, known):
            yield node.lineno, ast.unparse(node.func)


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What a name in the module stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield (each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _touches(call: ast.Call, known: dict[str, str]) -> bool:
    first, *rest = ast.unparse(call.func).split(".")
    name = ".".join([known.get(first, first), *rest])
    if name == "open":
        return True
    if name in HARMLESS or name.startswith("latecomer.store.files"):
        return False
    for module, functions in MODULES.items():
        if name.startswith(f"{module}.") and (functions is None or name.split(".")[1] in functions):
            return not name.startswith("os.environ")
    if not isinstance(call.func, ast.Attribute):
        return False
    # A string's `replace` takes two arguments, a path's one.
    moved = call.func.attr == "replace" and len(call.args) == 1 and not call.keywords
    return moved or call.func.attr in METHODS


@pytest.mark.parametrize(
    "written",
    [
        "open('x')",
        "import os\nos.replace(a, b)",
        "import obstore\nobstore.get(store, a)",
        "from os import listdir\nlistdir(a)",
        "import shutil as s\ns.rmtree(a)",
        "import pyarrow.parquet as pq\npq.read_table(a)",
        "from pyarrow.parquet import write_table\nwrite_table(rows, a)",
        "import pyarrow.dataset as ds\nds.dataset(a)",
        "import pyarrow as pa\npa.memory_map(a)",
        "import pyarrow as pa\npa.ipc.open_file(a)",
        "from deltalake import DeltaTable\nDeltaTable.create(a, schema)",
        "from tempfile import TemporaryDirectory\nTemporaryDirectory()",
        "(root / 'pipeline.json').read_text()",
        "draft.replace(path)",
        "draft.rename(home)",
        "any(root.glob('*'))",
    ],
)
def test_touching_is_seen(written: str) -> None:
    assert list(touches(written))


@pytest.mark.parametrize(
    "written",
    [
        "import os\nos.getpid(), os.environ.get('X')",
        "import pyarrow as pa\npa.table({})",
        "'a'.replace('a', 'b')",
        "moment.replace(tzinfo=None)",
        "from latecomer.store import files\nfiles.exists(root)",
        "from latecomer.store.files import read_table\nread_table(file)",
        "folder / 'x', folder.name, folder.relative_to(root)",
    ],
)
def test_what_touches_nothing_is_left_alone(written: str) -> None:
    assert not list(touches(written))


@cache
def _found() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        for line, call in touches(file.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(f"{name}:{line} {call}")
    return found


def test_one_module_touches_the_files_of_a_store() -> None:
    allowed = (*THE_ONES, *OTHERS)
    others = [call for name, calls in _found().items() if not name.startswith(allowed) for call in calls]
    assert others == [], "ask for it in store/files.py"


def test_nobody_is_excused_who_touches_nothing() -> None:
    found = _found()
    assert [other for other in OTHERS if not any(name.startswith(other) for name in found)] == []
