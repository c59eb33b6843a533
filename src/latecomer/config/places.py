"""Checks of a pipeline's resolved paths: paths that cannot be used, and paths that must not overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from latecomer.config.models import Pipeline
from latecomer.config.paths import SourcePath
from latecomer.config.sinks import (
    DatabaseFileSink,
    FileSink,
    IcebergSink,
    KafkaSink,
    PostgresSink,
    Stream,
    owner_in_words,
)
from latecomer.config.views import in_each_source, place_in
from latecomer.errors import Problem
from latecomer.objects.locations import OBJECT_STORES, Url, is_url, scheme_of

_WITH_CONTAINER = ("abfs", "abfss")
"""In these URLs the container stands before the account."""
_APART = "give store, source and each sink a folder of its own"


def unusable_paths(pipeline: Pipeline) -> list[Problem]:
    """Paths that no file system can have, and patterns that are not valid. They are checked first, because the other
    checks need usable paths."""
    problems = [problem for written in _written(pipeline) if (problem := _unusable(*written))]
    return problems or in_each_source(pipeline, _unreadable_pattern)


def _unreadable_pattern(pipeline: Pipeline) -> Iterator[Problem]:
    mistake = _source(pipeline).mistake if pipeline.source.files else None
    if mistake is not None:
        fix = "write a folder, or a pattern such as in/*.json, in/2013-??/{a,b}*.json or in/**/*.json"
        yield Problem("source.files.path", mistake, pipeline.files.path, fix)


def check_places(pipeline: Pipeline) -> Iterator[Problem]:
    """Places that must not lie within each other."""
    yield from _store(pipeline)
    yield from _sinks(pipeline)


def _written(pipeline: Pipeline) -> Iterator[tuple[str, str, bool]]:
    """The paths: field, path, and whether it must be on this machine."""
    yield "store", pipeline.store, False
    if pipeline.storage.credentials is not None:
        yield "storage.credentials", pipeline.storage.credentials, False
    for name, view in pipeline.views.items():
        if view.source.files is not None:
            yield place_in(name, "source.files.path"), view.source.files.path, False
    for listed in pipeline.listed_sinks():
        if isinstance(listed.sink, FileSink):
            yield listed.field, listed.sink.path, isinstance(listed.sink, DatabaseFileSink)


def url_problem(field: str, path: str) -> Problem | None:
    """The problem with a path that is a URL: its scheme is not supported, or its form is wrong."""
    scheme = scheme_of(path)
    if scheme is None or scheme == "file":
        return None
    if scheme not in OBJECT_STORES:
        known = ", ".join(f"{each}://" for each in OBJECT_STORES)
        reason = "is not supported" + (
            ": it is a view of another store; name that one" if scheme == "dbfs" else ""
        )
        return Problem(field, f"{scheme} {reason}", path, f"use a path on this machine, or one of {known}")
    authority = path.split("://", 1)[-1].partition("/")[0]
    user, at, _ = authority.rpartition("@")
    if at and (":" in user or scheme not in _WITH_CONTAINER):
        fix = "leave them out; they come from the environment, or from the file in storage.credentials"
        return Problem(field, "credentials do not belong in a URL", path, fix)
    if scheme == "hdfs" and not authority:
        fix = "write hdfs://NAMENODE:PORT/folder, or hdfs://NAMESERVICE/folder with HADOOP_CONF_DIR set"
        return Problem(field, "the URL names no NameNode", path, fix)
    if "?" in path or "#" in path:
        return Problem(field, "a URL cannot hold ? or #", path, "name how it is reached in storage")
    return None


def _unusable(field: str, path: str, on_disk: bool) -> Problem | None:
    if (problem := url_problem(field, path)) is not None:
        return problem
    if on_disk and scheme_of(path) not in (None, "file"):
        fix = "write a path on this machine, or use a delta, parquet or jsonl sink"
        return Problem(field, "a database in a file cannot be at a URL", path, fix)
    wrong = why_no_path(path)
    return None if wrong is None else Problem(field, wrong[0], path, wrong[1])


def why_no_path(written: str) -> tuple[str, str] | None:
    """Why a text is no path on this machine, and the fix; None if it is one."""
    if "\0" in written:
        return "a path cannot hold a NUL character", "remove it"
    try:
        Path(written).expanduser()
    except RuntimeError:
        return "there is no such user", "name an existing user after ~, or write ./~… for a file of that name"
    return None


def _store(pipeline: Pipeline) -> Iterator[Problem]:
    store = pipeline.store_path
    if re.search(r"%[0-9A-Fa-f]{2}|[*?{}\[\]\\]", str(store)):
        reason = "a path with % and two digits, or one of *?{}[]\\, cannot be opened"
        yield Problem("store", reason, pipeline.store, "rename the folder")
    if _shares(pipeline, store):
        yield Problem("store", "shares a folder with the source", pipeline.store, _APART)


def _sinks(pipeline: Pipeline) -> Iterator[Problem]:
    """Sinks within the store or a source, places that two sinks would write to, and topics that would lose rows."""
    store = pipeline.store_path
    seen: dict[tuple[PurePath | str, str], str] = {}
    for listed in pipeline.listed_sinks():
        sink, field, what = listed.sink, listed.field, "sink"
        if isinstance(sink, FileSink):
            place: PurePath | str = (path := pipeline.place(sink.path))
            if path.is_relative_to(store) or store.is_relative_to(path):
                yield Problem(field, "shares a folder with the store", sink.path, _APART)
            if _shares(pipeline, path):
                yield Problem(field, "shares a folder with the source", sink.path, _APART)
        elif isinstance(sink, PostgresSink):
            place = sink.target
        elif isinstance(sink, IcebergSink):
            place = f"catalog {sink.catalog}"
        elif isinstance(sink, KafkaSink):
            place, field, what = sink.servers, f"{field}.kafka", "topic"
            if sink.compacted and listed.stream is not Stream.PANES:
                reason = "these rows are all kept, and a compacted topic keeps one value of each key"
                yield Problem(f"{field}.compacted", reason, True, "leave compacted out")
        else:
            continue
        part = sink.part(listed.name)
        others = {other: owner for (path, other), owner in seen.items() if path == place}
        clashing = [owner for other, owner in others.items() if "" in (part, other) or part == other]
        if clashing:
            reason = f"writes where {owner_in_words(clashing[0])} writes already"
            yield Problem(field, reason, sink.place, f"give each output a {what} of its own")
        seen[place, part] = listed.owner


def _source(pipeline: Pipeline) -> SourcePath:
    return SourcePath(pipeline.source_path)


def _shares(pipeline: Pipeline, place: PurePath) -> bool:
    """Whether a source's files are in a place that is written to, or files written there might match the source's
    pattern, which looks into every folder that it passes through."""
    return any(_source_shares(view, place) for view in pipeline.views.values())


def _source_shares(pipeline: Pipeline, place: PurePath) -> bool:
    if pipeline.source.files is None:
        return False
    source = _source(pipeline)
    base = Url(source.base) if source.is_url else Path(source.base).resolve()
    if is_url(base) != is_url(place):
        return False
    if base.is_relative_to(place):
        return True
    if not place.is_relative_to(base):
        return False
    if source.is_folder:
        return True
    written = "/".join([source.base.rstrip("/"), *place.relative_to(base).parts])
    parts = source.written.rstrip("/").split("/")
    passed = [SourcePath("/".join([*parts[:nth], "*"])) for nth in range(1, len(parts))]
    as_folder = SourcePath("/".join([*parts, "**"]))
    return source.matches(written) or any(each.matches(f"{written}/file") for each in [*passed, as_folder])
