"""Pipes, devices, links and folders among the files of a source: they are named, and never opened."""

from __future__ import annotations

import gzip
import os
import re
import socket
from pathlib import Path

import pytest

from latecomer.config.columns import infer_columns, source_warnings
from latecomer.config.paths import SourcePath, folder_loops, list_files, special_files
from latecomer.errors import SourceError


def test_what_is_no_file_is_named_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.json").write_text('{"a": 1}\n')
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    os.symlink("/dev/zero", tmp_path / "zero.json")
    os.symlink("nowhere", tmp_path / "dangling.json")
    os.symlink("itself.json", tmp_path / "itself.json")
    os.symlink("good.json", tmp_path / "link.json")
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.json")
        found = special_files(SourcePath(f"{tmp_path}/*.json"))
    assert {Path(name).name: kind for name, kind in found.items()} == {
        "pipe.json": "a pipe",
        "socket.json": "a socket",
        "zero.json": "a device",
        "folder.json": "a folder",
        "dangling.json": "a link to nothing",
        "itself.json": "a link that leads nowhere",
    }
    files = list_files(f"{tmp_path}/*.json")
    assert sorted(Path(name).name for name in files) == ["good.json", "link.json"]
    assert infer_columns(files, "json") == {"a": "bigint"}
    warned = source_warnings(SourcePath(f"{tmp_path}/*.json"), "json")
    assert f"'{tmp_path}/pipe.json' is not read: it is a pipe; remove it" in warned


def test_files_in_another_encoding_are_named_before_they_are_dead_letters(tmp_path: Path) -> None:
    text = "at,stadt\n2024-01-01T00:00:00Z,Köln\n"
    for name, encoding in (("mark", "utf-16"), ("little", "utf-16-le"), ("big", "utf-16-be")):
        file = tmp_path / f"{name}.csv"
        file.write_bytes(text.encode(encoding))
        outcome = {"mark": "utf-16", "little": "utf-16le", "big": "utf-16be"}[name]
        said = f"'{file}' is in {outcome}, by its first bytes: set source.files.encoding: {outcome}"
        assert source_warnings(SourcePath(str(file)), "csv") == [said]
        with pytest.raises(SourceError, match=re.escape(said)):
            infer_columns([str(file)], "csv")
        assert list(infer_columns([str(file)], "csv", encoding=outcome)) == ["at", "stadt"]
        assert source_warnings(SourcePath(str(file)), "csv", outcome) == []
    packed = tmp_path / "latin.csv.gz"
    packed.write_bytes(gzip.compress(text.encode("latin-1")))
    (said,) = source_warnings(SourcePath(str(packed)), "csv")
    assert said.startswith(
        f"'{packed}' is not in utf-8, first at byte 31: rows with such bytes are dead letters; if the files"
    )
    for marked in (text.encode("utf-8-sig"), text.encode(), b""):
        packed.write_bytes(gzip.compress(marked))
        assert source_warnings(SourcePath(str(packed)), "csv") == []


def test_a_csv_header_without_a_declared_column_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("\nstadt;Höhe\nKöln;5\n")

    def warned(delimiter: str, *declared: str) -> list[str]:
        return source_warnings(SourcePath(str(file)), "csv", "utf-8", delimiter, declared)

    mistake = "the header 'stadt;Höhe' names none of the columns Höhe"
    assert warned(",", "Höhe") == [f"'{file}' is not read: {mistake}; set source.files.delimiter: \";\""]
    assert warned(";", "Höhe", "absent") == warned(",") == []
    for blank in (b"", b"\n\n", b"\xef\xbb\xbf"):
        file.write_bytes(blank)
        assert warned(",", "Höhe") == []


def test_the_first_file_in_another_encoding_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    text = "at,stadt\n2024-01-01T00:00:00Z,Köln\n"

    def warned(*encodings: str) -> str:
        for nth, encoding in enumerate(encodings):
            (tmp_path / f"{nth:02d}.csv").write_bytes(text.encode(encoding))
        (sentence,) = source_warnings(SourcePath(str(tmp_path)), "csv")
        assert sentence.startswith(f"'{tmp_path}/01.csv' is ")
        return sentence

    assert "other" not in warned("utf-8", "utf-16").replace(str(tmp_path), "")
    assert warned("utf-8", "utf-16", "latin-1").endswith("; 1 other file is not in utf-8 either")
    assert warned("utf-8", "latin-1", "utf-16", "utf-8", "latin-1").endswith(
        "; 2 other files are not in utf-8 either"
    )
    # Not all of many files are looked at: the count says so.
    assert warned("utf-8", *["latin-1"] * 24).endswith(
        "; 18 other files of the first 20 are not in utf-8 either"
    )


def test_a_link_that_leads_back_is_not_followed(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text("{}\n")
    os.symlink(tmp_path / "y", tmp_path / "x" / "to_y")
    pattern = f"{tmp_path}/**/*.json"
    assert len(list_files(pattern)) == 3  # a link to another folder is
    os.symlink(tmp_path / "x", tmp_path / "y" / "to_x")
    found = [str(Path(name).relative_to(tmp_path)) for name in list_files(pattern)]
    assert sorted(found) == ["x/a.json", "x/to_y/a.json", "y/a.json", "y/to_x/a.json"]
    os.symlink(".", tmp_path / "here")
    assert len(list_files(pattern)) == 4
    assert folder_loops(pattern) == [str(tmp_path / "here")]
    os.symlink("..", tmp_path / "x" / "up")
    assert len(list_files(pattern)) == 4
    assert folder_loops(pattern) == [str(tmp_path / "here"), str(tmp_path / "x" / "up")]
