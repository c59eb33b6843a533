"""Mutated files, looked into without Spark: an answer or a reason, never anything else."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from fuzz.mutants import Mutant, mutants
from latecomer.config.columns import infer_columns, source_warnings
from latecomer.config.damaged_files import DamagedFile
from latecomer.config.paths import SourcePath
from latecomer.errors import SourceError
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.source.file_source import FileSource
from latecomer.source.found_files import UnreadableFiles
from memory_kit import Grown
from source.source_kit import pipeline_in

SCHEMA = {"txn": "string", "at": "string", "paise": "bigint"}
TOGETHER = 100
GROWTH = 300
"""By how many MiB the process may grow, whatever it has read."""


def look_into(folder: Path, form: str, found: Iterable[Mutant], encoding: str = "utf-8") -> tuple[int, int]:
    """How many mutants a run would read, and how many it would set aside with a reason."""
    limits = {"max_line": "1KiB", "max_unpacked": "1MiB"}
    pipeline = pipeline_in(folder, files={"format": form, "encoding": encoding, **limits}, schema=SCHEMA)
    source, readable, aside, rest = FileSource(pipeline, SCHEMA).portable(), 0, 0, iter(found)
    while some := list(islice(rest, TOGETHER)):
        files = []
        for mutant in some:
            file = folder / "in" / mutant.name
            file.write_bytes(mutant.content)
            files.append(SourceFile(file.as_uri(), 0, len(mutant.content)))
            with suppress(SourceError):
                assert infer_columns([str(file)], form, encoding=encoding)
        good, bad = sorted_out(source, files)
        assert all(bad.values())
        for each in good if form in ("json", "csv") else []:
            require_decoded(source, each)
        source_warnings(SourcePath(pipeline.source_path), form)
        readable, aside = readable + len(good), aside + len(bad)
        for each in files:
            Path(str(each)).unlink()
    return readable, aside


def sorted_out(source: FileSource, files: list[SourceFile]) -> tuple[list[SourceFile], dict[str, str]]:
    """The files that can be read to the end, and why the others cannot."""
    parts = [part for file in files for part in source.decoder.splits(file, 1 << 20)]
    bad: dict[str, str] = {}
    try:
        for _ in source.read(parts):
            pass
    except UnreadableFiles as error:
        bad = dict(error.reasons)
    return [file for file in files if file.path not in bad], bad


def require_decoded(source: FileSource, file: SourceFile) -> None:
    """Each line is a row, or a reason, however the file is cut."""
    whole, cut = (decoded(source, file, size) for size in (1 << 20, 200))
    assert whole == cut
    assert all(corrupt is None or isinstance(corrupt, bytes) for _, corrupt in whole or [])


def decoded(source: FileSource, file: SourceFile, size: int) -> list[tuple[object, bytes | None]] | None:
    """What the lines of a file say, in their order; None where it cannot be read to the end."""
    with suppress(DamagedFile):
        splits = source.decoder.splits(file, size)
        parts = [part for split in splits for part in source.decoder.decode(split)]
        return [(row["txn"], row[CORRUPT]) for part in parts for row in part.to_pylist()]
    return None


CASES = [
    ("parquet", True, "utf-8"),
    ("parquet", False, "utf-8"),
    ("json", False, "utf-8"),
    ("json", False, "utf-16"),
    ("csv", False, "utf-8"),
    ("csv", False, "utf-16"),
]
each_case = pytest.mark.parametrize(("form", "footers", "encoding"), CASES)


@each_case
def test_some_mutants_are_answered_or_set_aside(
    tmp_path: Path, form: str, footers: bool, encoding: str
) -> None:
    count = 600 if footers else 120
    readable, aside = look_into(tmp_path, form, mutants(form, 7, count, footers, encoding), encoding)
    assert readable + aside == count
    assert min(readable, aside) > count // 50, "the mutants are all alike"


@pytest.mark.long
@each_case
def test_many_mutants_are_answered_or_set_aside(
    tmp_path: Path, form: str, footers: bool, encoding: str
) -> None:
    memory = Grown()
    count = 50_000 if footers else 10_000
    readable, aside = look_into(tmp_path, form, mutants(form, 11, count, footers, encoding), encoding)
    grown = memory.peak()
    print(f"{form} {encoding}: {readable} readable, {aside} set aside, {grown} MiB more")
    assert readable + aside == count
    assert grown < GROWTH
