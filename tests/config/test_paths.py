"""Which files a path names, in which order, and what their folders say; without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latecomer.config.paths import SourcePath, folder_columns, list_files
from latecomer.errors import SourceError

FILES = (
    "a.json",
    "b.csv",
    ".hidden.json",
    "_SUCCESS",
    "half.json._COPYING_",
    "day=2013-01-02/c.json",
    "day=2013-01-01/hour=7/d.json",
    "day=2013-01-01/plain/e.json",
    "plain/f.json",
    "plain/deep/g.json",
    "_tmp/h.json",
    ".git/i.json",
    "_day=1/j.json",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        file = tmp_path / "in[1]" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (1_000_000, 1_000_000))
    return tmp_path / "in[1]"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ["_day=1/j", "a", "b.csv", "day=2013-01-01/hour=7/d", "day=2013-01-02/c"]),
        ("/*.json", ["a"]),
        ("/[ab].*", ["a", "b.csv"]),
        ("/{a,b}.{json,csv}", ["a", "b.csv"]),
        ("/*/*.json", ["_day=1/j", "day=2013-01-02/c", "plain/f"]),
        ("/day=2013-01-0?/*.json", ["day=2013-01-02/c"]),
        ("/[!a-o]*/*.json", ["_day=1/j", "plain/f"]),
        ("/plain/**/*.json", ["plain/deep/g", "plain/f"]),
        ("/**/hour=*/*", ["day=2013-01-01/hour=7/d"]),
        (
            "/**/*.json",
            [
                *("_day=1/j", "a", "day=2013-01-01/hour=7/d", "day=2013-01-01/plain/e", "day=2013-01-02/c"),
                *("plain/deep/g", "plain/f"),
            ],
        ),
        ("/**/a.json", ["a"]),
        ("/nothing/*", []),
    ],
)
def test_a_path_names_files(folder: Path, pattern: str, found: list[str]) -> None:
    written = str(folder) if not pattern else str(folder).replace("[", "\\[").replace("]", "\\]") + pattern
    named = [str(Path(file).relative_to(folder)) for file in list_files(written)]
    assert named == [name if "." in name else f"{name}.json" for name in found]


def test_every_depth_is_named_by_two_stars_at_the_end(folder: Path) -> None:
    plain = folder.rename(folder.parent / "in")
    assert len(list_files(f"{plain}/**")) == 8


def test_files_are_in_order_of_their_milliseconds_and_then_of_their_paths(folder: Path) -> None:
    os.utime(folder / "b.csv", ns=(0, 1_000_000_000_999_999))
    os.utime(folder / "a.json", ns=(0, 1_000_000_001_000_000))
    names = [Path(file).name for file in list_files(str(folder))]
    assert names == ["j.json", "b.csv", "d.json", "c.json", "a.json"]


def test_what_folders_say(folder: Path) -> None:
    source = SourcePath(str(folder))
    file = f"{folder}/day=2013-01-01/x=__HIVE_DEFAULT_PARTITION__/a%3Db=c%2Fd%25/=/e/f=g.json"
    assert source.folder_values(file) == {"day": "2013-01-01", "x": None, "a=b": "c/d%"}
    assert source.folder_values(f"{folder}/f=g.json") == {}
    said = [
        f"{folder}/day=2013-01-01/n=7/code=07/mixed=1/none=__HIVE_DEFAULT_PARTITION__/a",
        f"{folder}/day=2013-02-28/n=-12/code=10/mixed=x/none=__HIVE_DEFAULT_PARTITION__/a",
        f"{folder}/day=__HIVE_DEFAULT_PARTITION__/n=0/a",
    ]
    kinds = {"day": "date", "n": "bigint", "code": "string", "mixed": "string", "none": "string"}
    assert folder_columns(str(folder), said) == kinds
    assert folder_columns(str(folder), [f"{folder}/day=2013-02-30/a"]) == {"day": "string"}


@pytest.mark.parametrize(
    ("path", "mistake"),
    [
        ("/in/[ab", "has a bracket that is not closed"),
        ("/in/{a,b", "has a bracket that is not closed"),
        ("/in/a**/x", "has ** beside something else"),
        ("/in/[z-a]*", "is not a pattern"),
        ("/in/**/{a,b}[0-9]?.json", None),
        ("/in/[]]", None),
        (r"/in/a\[*.json", None),
        (r"/in/a\{*.json", None),
        ("/in/a*\\", "has a bracket that is not closed"),
        ("/in", None),
    ],
)
def test_a_pattern_that_cannot_be_read(path: str, mistake: str | None) -> None:
    found = SourcePath(path).mistake
    assert found is None if mistake is None else (found or "").startswith(mistake)


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("", None),
        ("/a.json", None),
        ("/later*.json", None),
        (
            "/lates.json",
            r"path .*/lates\.json does not exist; create the folder, or name files .* such as .*/in/\*\.json",
        ),
        ("/lates", r"path .*/lates does not exist; create the folder"),
        ("/lates/*.json", r"source folder .*/lates does not exist"),
        (r"/what\?", r"path .*/what\\\? does not exist"),
    ],
)
def test_a_path_that_leads_nowhere_is_no_file_that_may_come_later(
    folder: Path, path: str, missing: str | None
) -> None:
    named = SourcePath(f"{folder.rename(folder.parent / 'in')}{path}")
    if missing is None:
        named.require_folder()
    else:
        with pytest.raises(SourceError, match=missing):
            named.require_folder()


def _without_rights(monkeypatch: pytest.MonkeyPatch, denied: Path) -> None:
    """As a user for whom this path is closed; tests may run as one for whom no path is."""
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != denied)


def test_a_source_that_can_be_read_has_no_hindrance(folder: Path) -> None:
    assert [*SourcePath(str(folder)).hindrances()] == []


def test_a_folder_that_cannot_be_listed_is_a_hindrance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder.rename(folder.parent / "in")
    _without_rights(monkeypatch, folder)
    said = (
        f"source folder {folder} cannot be listed: permission is denied; give whoever runs latecomer the right to "
        "read there"
    )
    assert [*SourcePath(str(folder)).hindrances()] == [said]
    assert [*SourcePath(f"{folder}/*.json").hindrances()] == [said]


def test_a_file_that_cannot_be_read_is_a_hindrance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder.rename(folder.parent / "in")
    file = folder / "closed.json"
    file.write_text("{}\n", encoding="utf-8")
    _without_rights(monkeypatch, file)
    (said,) = SourcePath(str(folder)).hindrances()
    assert said.startswith(f"source file {file} cannot be read: permission is denied; give ")


def test_a_pattern_that_may_not_be_looked_at_is_refused_by_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder.rename(folder.parent / "in")
    path = SourcePath(f"{folder}/*.json")
    is_dir = Path.is_dir

    def denied(self: Path) -> bool:
        if self == Path(path.written):
            raise PermissionError(13, "Permission denied", str(self))
        return is_dir(self)

    monkeypatch.setattr(Path, "is_dir", denied)
    assert path.base == str(folder)
    with pytest.raises(
        SourceError, match=r"cannot be listed: permission is denied; give .* the right to read"
    ):
        path.require_reached()
    assert len([*path.hindrances()]) == 1
