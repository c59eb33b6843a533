"""`private: true`: what a pipeline writes is for its user alone.

From the first use of such a pipeline, the process makes files and folders that nobody else may read; so does
the JVM that it starts. A store and sinks that are there already are tightened.
"""

from __future__ import annotations

import os

from latecomer.config.models import Pipeline
from latecomer.errors import StoreError
from latecomer.store.files import keep_to_user

UMASK = 0o077


def keep_private(pipeline: Pipeline) -> None:
    """Where the pipeline is private, let nobody else read what is there and what is written from here on."""
    if not pipeline.private:
        return
    write_privately(pipeline)
    for place in (pipeline.store_path, *pipeline.sink_paths):
        try:
            keep_to_user(place)
        except OSError as error:
            raise StoreError(
                f"{error.filename} cannot be made private: {error.strerror}; have its owner do it (chmod go-rwx), or "
                "leave private: true out"
            ) from None


def write_privately(pipeline: Pipeline) -> None:
    """Where the pipeline is private, let nobody else read what this process writes from here on."""
    if pipeline.private:
        os.umask(os.umask(UMASK) | UMASK)
