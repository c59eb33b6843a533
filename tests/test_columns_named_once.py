"""Each private column is named in one place, shared ones in a `private_columns.py`: read off the source."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from latecomer.after.rebuild import private_columns as of_rebuilds
from latecomer.config.names import PRIVATE
from latecomer.log import private_columns as of_the_log
from latecomer.source import private_columns as of_sources
from latecomer.source.decode import private_columns as of_records
from latecomer.store import private_columns as stored
from latecomer.windowing import private_columns as of_windows

SOURCE = Path(__file__).parents[1] / "src" / "latecomer"
OTHERS = {
    "schemas/avro/reading.py": "a field of an Avro schema, which becomes no column of a table",
}
"""Who else may name what others import, and why."""

_OPEN = "…"
"""Stands for what is known only at run time."""
_NAME = re.compile(rf"(?<!\w){PRIVATE}[\w{_OPEN}]*")


def named(text: str) -> Iterator[tuple[int, str]]:
    """The private names that a module writes out: each with the line at which the statement around it begins, which is
    a definition or a function. `_lc_key_…` is a name that something follows."""
    for statement in ast.parse(text).body:
        for written in _texts(statement):
            for name in _NAME.findall(written):
                if name != PRIVATE:
                    yield statement.lineno, name


def _texts(node: ast.AST) -> Iterator[str]:
    """Every text in the code, docstrings left out."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    whole = _text(node)
    if whole is not None:
        yield whole
    for child in ast.iter_child_nodes(node):
        yield from _texts(child) if whole is None else _inside(child)


def _inside(part: ast.AST) -> Iterator[str]:
    """The texts in what is computed within a text: its own words have been seen."""
    if isinstance(part, ast.FormattedValue):
        yield from _texts(part.value)
    elif _text(part) is None:
        yield from _texts(part)
    else:
        for child in ast.iter_child_nodes(part):
            yield from _inside(child)


def _text(node: ast.AST) -> str | None:
    """A text as it is written, however it is put together; None where a node is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "" for part in parts)
        case ast.FormattedValue(value=ast.Name(id="PRIVATE")) | ast.Name(id="PRIVATE"):
            return PRIVATE
        case ast.FormattedValue():
            return _OPEN
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _text(left) or _text(right):
            return (_text(left) or _OPEN) + (_text(right) or _OPEN)
    return None


def shared(text: str) -> Iterator[tuple[int, str]]:
    """The constants of a module that others may import, and that are the name of a private column or begin one."""
    for statement in ast.parse(text).body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                pairs = [pair for target in targets for pair in _pairs(target, value)]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = _pairs(target, value)
            case _:
                continue
        for target, value in pairs:
            written = _text(value)
            is_name = written not in (None, PRIVATE) and _NAME.fullmatch(str(written))
            if isinstance(target, ast.Name) and not target.id.startswith("_") and is_name:
                yield statement.lineno, target.id


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ('LANE = f"{PRIVATE}lane"', ["_lc_lane"]),
        ('LANE = "_lc_lane"', ["_lc_lane"]),
        ('A, B = f"{PRIVATE}a", f"{PRIVATE}b"', ["_lc_a", "_lc_b"]),
        ('KEY = PRIVATE + "key_"', ["_lc_key_"]),
        ('f(f"{PRIVATE}key_{name}")', ["_lc_key_…"]),
        ('f(f"{PRIVATE}{name}_{part}")', ["_lc_…_…"]),
        ("f(PRIVATE + name)", ["_lc_…"]),
        ('f"max({PRIVATE}a) as {quoted(PRIVATE + b)}"', ["_lc_a", "_lc_…"]),
        ('f(f"{PRIVATE}a" + f"{g(PRIVATE + b)}")', ["_lc_a…", "_lc_…"]),
        ('"select 1 as _lc_a, 2 as _lc_b"', []),  # a docstring
        ('x = "select 1 as _lc_a, 2 as _lc_b"', ["_lc_a", "_lc_b"]),
        ("name.startswith(PRIVATE)", []),
        ('name.startswith("_lc_")', []),
    ],
)
def test_names_are_seen(written: str, names: list[str]) -> None:
    assert [name for _, name in named(written)] == names


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ('LANE = f"{PRIVATE}lane"', ["LANE"]),
        ('LANE: str = "_lc_lane"', ["LANE"]),
        ('A, _B, C = f"{PRIVATE}a", f"{PRIVATE}b", PRIVATE + "c_"', ["A", "C"]),
        ('_LANE = f"{PRIVATE}lane"', []),
        ('PRIVATE = "_lc_"', []),
        ('QUERY = "select 1 as _lc_a"', []),
        ("ORIGIN = PolledSource.ORIGIN", []),
        ('def f():\n    LANE = f"{PRIVATE}lane"', []),
    ],
)
def test_shared_names_are_seen(written: str, names: list[str]) -> None:
    assert [name for _, name in shared(written)] == names


@cache
def _modules() -> dict[str, str]:
    """The modules that have private columns."""
    read = {
        file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")
    }
    return {module: text for module, text in sorted(read.items()) if PRIVATE in text or "PRIVATE" in text}


def _lists_columns(module: str) -> bool:
    """Whether a module is one that names the columns of a stage. In `config/` are the columns of users."""
    return module.endswith("/private_columns.py")


def test_a_private_column_is_named_in_one_place() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for module, text in _modules().items():
        for line, name in named(text):
            places[name.partition(_OPEN)[0]].add(f"{module}:{line}")
    twice = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert twice == {}, "import it from where it is, or give it a name of its own"


def test_what_modules_share_is_in_a_module_of_columns() -> None:
    found = [
        f"{module}:{line} {name}"
        for module, text in _modules().items()
        if not _lists_columns(module) and module not in OTHERS
        for line, name in shared(text)
    ]
    assert found == [], "move it to the private_columns.py of its stage, or begin its name with _"
    assert [module for module in OTHERS if not list(shared(_modules()[module]))] == []


def test_a_private_name_begins_with_a_word_of_its_own() -> None:
    """Made of a user's name alone, it could be any other. The states of aggregates are so named, in one function."""
    found = [
        f"{module}:{line} {name}"
        for module, text in _modules().items()
        if not _lists_columns(module)
        for line, name in named(text)
        if name.startswith(PRIVATE + _OPEN)
    ]
    assert found == []


def test_each_column_says_what_it_holds() -> None:
    unsaid = []
    for module in filter(_lists_columns, _modules()):
        body = ast.parse(_modules()[module]).body
        for statement, after in zip(body, [*body[1:], None], strict=True):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(statement, ast.Assign | ast.AnnAssign) and not said:
                unsaid.append(f"{module}:{statement.lineno}")
    assert unsaid == []


def test_each_stage_lists_its_columns() -> None:
    stages = {"source/decode", "source", "log", "windowing"}  # firing shares those of the store
    listing = {module.removesuffix("/private_columns.py") for module in _modules() if _lists_columns(module)}
    assert listing >= stages


def test_the_texts_that_are_in_stores_stay() -> None:
    """Panes and open states, folders of files, plans of rebuilds and replays that an earlier version wrote."""
    assert " ".join([stored.LANE, *of_the_log.LogLane, *of_windows.PaneLane]) == (
        "_lc_lane events behind duplicates dead_letters open fired late waiting told rest"
    )
    counts = [stored.EVENTS, stored.NEW_BEHIND, stored.NEW_ASSIGNMENTS, stored.NEW_PARTLY]
    counts += [stored.HELD, stored.SINCE, stored.UNSETTLED, stored.WAITING_EVENTS]
    assert " ".join(counts) == (
        "_lc_events _lc_new_behind _lc_new_assignments _lc_new_partly "
        "_lc_held _lc_since _lc_unsettled _lc_waiting"
    )
    paise = stored.measure_column("paise")
    sums = [paise, stored.new_column(paise), stored.late_column(paise), stored.state_column(paise, "beyond")]
    assert " ".join([*sums, stored.state_column("mean", "sum")]) == (
        "_lc_measure_paise _lc_new_measure_paise _lc_new_late_measure_paise _lc_measure_paise_beyond _lc_mean_sum"
    )
    changes = [of_windows.START, of_windows.END, of_rebuilds.CHANGE, of_rebuilds.BEFORE, of_rebuilds.AFTER]
    assert " ".join([*changes, of_rebuilds.PRIOR, of_rebuilds.SEQUENCE]) == (
        "_lc_start _lc_end _lc_change _lc_before _lc_after _lc_prior _lc_next"
    )
    letters = [of_sources.NUMBER, of_sources.ORIGIN, of_sources.POSITION, of_sources.PARTITION]
    letters += [of_sources.FIRST_ARRIVAL, of_sources.FORM, of_sources.FOLDERS, of_records.RECORD]
    assert " ".join(letters) == (
        "_lc_number _lc_origin _lc_position _lc_partition _lc_first_arrival _lc_form _lc_folders _lc_record"
    )
