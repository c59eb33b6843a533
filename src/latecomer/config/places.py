"""Paths of a pipeline that cannot be used, or that would bite one another: found after resolving them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from latecomer.config.models import Pipeline
from latecomer.config.paths import SourcePath
from latecomer.config.sinks import FileSink, IcebergSink, KafkaSink, PostgresSink, Stream, owner_in_words
from latecomer.config.views import in_each_source, place_in
from latecomer.errors import Problem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URL begins; with one slash too, as in dbfs:/lake, and as a path leaves it of two."""
_APART = "give store, source and each sink a folder of its own"


def unusable_paths(pipeline: Pipeline) -> list[Problem]:
    """Paths that no file system can have, or that cannot be read as a pattern. Nothing else of the pipeline can be
    checked before."""
    problems = [problem for field, path in _written(pipeline) if (problem := _unusable(field, path))]
    return problems or in_each_source(pipeline, _unreadable_pattern)


def _unreadable_pattern(pipeline: Pipeline) -> Iterator[Problem]:
    mistake = _source(pipeline).mistake if pipeline.source.files else None
    if mistake is not None:
        fix = "write a folder, or a pattern such as in/*.json, in/2013-??/{a,b}*.json or in/**/*.json"
        yield Problem("source.files.path", mistake, pipeline.files.path, fix)


def check_places(pipeline: Pipeline) -> Iterator[Problem]:
    """Places that must not be one in the other."""
    yield from _store(pipeline)
    yield from _sinks(pipeline)
    yield from _topics(pipeline)


def _written(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    yield "store", pipeline.store
    for name, view in pipeline.views.items():
        if view.source.files is not None:
            yield place_in(name, "source.files.path"), view.source.files.path
    for listed in pipeline.listed_sinks():
        if isinstance(listed.sink, FileSink):
            yield listed.field, listed.sink.path


def url_problem(field: str, path: str) -> Problem | None:
    """What is wrong with a path that is a URL."""
    url = _URL.match(path)
    if url is None:
        return None
    if url[1].lower() == "file":
        return Problem(
            field, "a URL is not supported: only a path is", path, "write the path without file://"
        )
    return Problem(
        field, f"{url[1]} is not supported: only local files are", path, "write a path on this machine"
    )


def _unusable(field: str, path: str) -> Problem | None:
    if (problem := url_problem(field, path)) is not None:
        return problem
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


def _store(pipeline: Pipeline) -> Iterator[Problem]:
    store = pipeline.store_path
    if re.search(r"%[0-9A-Fa-f]{2}|[*?{}\[\]\\]", str(store)):
        reason = "a path with % and two digits, or one of *?{}[]\\, cannot be opened"
        yield Problem("store", reason, pipeline.store, "rename the folder")
    if _shares(pipeline, store):
        yield Problem("store", "shares a folder with the source", pipeline.store, _APART)


def _sinks(pipeline: Pipeline) -> Iterator[Problem]:
    store = pipeline.store_path
    seen: dict[tuple[Path | str, str], str] = {}
    for listed in pipeline.listed_sinks():
        sink, field = listed.sink, listed.field
        if isinstance(sink, FileSink):
            place: Path | str = (path := pipeline.resolve(sink.path))
            if path.is_relative_to(store) or store.is_relative_to(path):
                yield Problem(field, "shares a folder with the store", sink.path, _APART)
            if _shares(pipeline, path):
                yield Problem(field, "shares a folder with the source", sink.path, _APART)
        elif isinstance(sink, PostgresSink):
            place = sink.target
        elif isinstance(sink, IcebergSink):
            place = f"catalog {sink.catalog}"
        else:
            continue
        part = sink.part(listed.name)
        others = {other: owner for (path, other), owner in seen.items() if path == place}
        if others and (part == "" or "" in others or part in others):
            yield Problem(
                field,
                f"writes where {owner_in_words(next(iter(others.values())))} writes already",
                sink.place,
                "give each output a sink of its own",
            )
        seen[place, part] = listed.owner


def _topics(pipeline: Pipeline) -> Iterator[Problem]:
    """Topics that would lose rows, or that two sinks would write to."""
    seen: dict[tuple[str, str], str] = {}
    for listed in pipeline.listed_sinks():
        sink, field = listed.sink, f"{listed.field}.kafka"
        if not isinstance(sink, KafkaSink):
            continue
        if sink.compacted and listed.stream is not Stream.PANES:
            reason = "these rows are all kept, and a compacted topic keeps one value of each key"
            yield Problem(f"{field}.compacted", reason, True, "leave compacted out")
        place = sink.servers, sink.part(listed.name)
        if place in seen:
            reason = f"writes where {owner_in_words(seen[place])} writes already"
            yield Problem(field, reason, sink.place, "give each output a topic of its own")
        seen[place] = listed.owner


def _source(pipeline: Pipeline) -> SourcePath:
    return SourcePath(pipeline.source_path)


def _shares(pipeline: Pipeline, place: Path) -> bool:
    """Whether a source's files are in a place that is written to, or what is written there might be taken
    for one of them: a pattern looks into every folder that it passes through."""
    return any(_source_shares(view, place) for view in pipeline.views.values())


def _source_shares(pipeline: Pipeline, place: Path) -> bool:
    if pipeline.source.files is None:
        return False
    source = _source(pipeline)
    base = Path(source.base).resolve()
    if base.is_relative_to(place):
        return True
    if not place.is_relative_to(base):
        return False
    if source.is_folder:
        return True
    here = "/".join([source.base.rstrip("/"), *place.relative_to(base).parts])
    parts = source.written.rstrip("/").split("/")
    passed = [SourcePath("/".join([*parts[:nth], "*"])) for nth in range(1, len(parts))]
    as_folder = SourcePath("/".join([*parts, "**"]))
    return source.matches(here) or any(each.matches(f"{here}/file") for each in [*passed, as_folder])
