"""Paths of a pipeline that cannot be used, or that would bite one another: found after resolving them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from latecomer.config.models import Pipeline
from latecomer.errors import Problem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PATTERN = re.compile(r"[*?\[{]")


def check_paths(pipeline: Pipeline) -> list[Problem]:
    """Paths that no file system can have; if there are none, places that must not be one in the other."""
    unusable = [problem for field, path in _written(pipeline) if (problem := _unusable(field, path))]
    return unusable or [*_store_and_source(pipeline), *_sinks(pipeline)]


def _written(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    yield "store", pipeline.store
    yield "source.files.path", pipeline.source.files.path
    for name, output in pipeline.outputs.items():
        yield from ((f"outputs.{name}.sinks.{nth}", sink.path) for nth, sink in enumerate(output.sinks))


def _unusable(field: str, path: str) -> Problem | None:
    url = _URL.match(path)
    if url:
        return Problem(
            field, f"{url[1]} is not supported: only local files are", path, "write a path on this machine"
        )
    if "\0" in path:
        return Problem(field, "a path cannot hold a NUL character", path, "remove it")
    try:
        Path(path).expanduser()
    except RuntimeError:
        return Problem(
            field,
            "there is no such user",
            path,
            "name an existing user after ~, or write ./~… for a file of that name",
        )
    return None


def _store_and_source(pipeline: Pipeline) -> Iterator[Problem]:
    store, source = pipeline.store_path, _source_folder(pipeline)
    if re.search(r"%[0-9A-Fa-f]{2}", str(store)):
        yield Problem(
            "store", "a path with % and two digits cannot be opened", pipeline.store, "rename the folder"
        )
    if source.is_relative_to(store) or _could_be_read(pipeline, store):
        yield Problem("store", "shares a folder with the source", pipeline.store, _APART)


def _sinks(pipeline: Pipeline) -> Iterator[Problem]:
    store, source = pipeline.store_path, _source_folder(pipeline)
    seen: dict[tuple[Path, str], str] = {}
    for name, output in pipeline.outputs.items():
        for nth, sink in enumerate(output.sinks):
            field, place = f"outputs.{name}.sinks.{nth}", pipeline.resolve(sink.path)
            if place.is_relative_to(store) or store.is_relative_to(place):
                yield Problem(field, "shares a folder with the store", sink.path, _APART)
            if source.is_relative_to(place) or _could_be_read(pipeline, place):
                yield Problem(field, "shares a folder with the source", sink.path, _APART)
            part = sink.part(name)
            others = {other: output for (path, other), output in seen.items() if path == place}
            if others and (part == "" or "" in others or part in others):
                yield Problem(
                    field,
                    f"writes where output {next(iter(others.values()))} writes already",
                    sink.path,
                    "give each output a sink of its own",
                )
            seen[place, part] = name


_APART = "give store, source and each sink a folder of its own"


def _source_folder(pipeline: Pipeline) -> Path:
    """The folder below which the source's files are: the part of its path that is no pattern."""
    path = Path(pipeline.source_path)
    while _is_pattern(path):
        path = path.parent
    return path.resolve()


def _is_pattern(path: Path) -> bool:
    return _PATTERN.search(str(path)) is not None and not path.exists()


def _could_be_read(pipeline: Pipeline, place: Path) -> bool:
    """Whether the source might take what is written there for its own files."""
    written, folder = Path(pipeline.source_path), _source_folder(pipeline)
    if not place.is_relative_to(folder):
        return False
    return not _is_pattern(written) or "**" in written.parts or place.match(str(written))
