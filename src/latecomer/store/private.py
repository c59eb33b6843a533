"""`private: true`: what a pipeline writes is for its user alone.

From the first use of such a pipeline, the process makes files and folders that nobody else may read; so does
the JVM that it starts. A store and sinks that are there already are tightened.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from latecomer.config.models import Pipeline
from latecomer.errors import StoreError

UMASK = 0o077
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private(pipeline: Pipeline) -> None:
    """Where the pipeline is private, let nobody else read what is there and what is written from here on."""
    if not pipeline.private:
        return
    write_privately(pipeline)
    places = [pipeline.store_path, *pipeline.sink_paths]
    for place in places:
        for path in _within(place):
            _tighten(path)


def write_privately(pipeline: Pipeline) -> None:
    """Where the pipeline is private, let nobody else read what this process writes from here on."""
    if pipeline.private:
        os.umask(os.umask(UMASK) | UMASK)


def _within(place: Path) -> Iterator[Path]:
    """A file with those that SQLite keeps beside it, or a folder with all that is in it. Links are not followed."""
    yield place
    yield from place.parent.glob(f"{glob.escape(place.name)}-*") if place.is_file() else ()
    for folder, folders, files in os.walk(place):
        yield from (Path(folder, name) for name in (*folders, *files))


def _tighten(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        return  # a run that goes on beside may remove files
    except OSError as error:
        raise StoreError(
            f"{path} cannot be made private: {error.strerror}; have its owner do it (chmod go-rwx), or leave "
            "private: true out"
        ) from None
