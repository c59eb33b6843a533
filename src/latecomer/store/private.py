"""`private: true`: only the user may read what a pipeline writes.

From the first use of such a pipeline, the process and the JVM that it starts make files and folders that nobody else
may read. The permissions of an existing store and of existing sinks are changed.
"""

from __future__ import annotations

import os

from latecomer.config.models import Pipeline
from latecomer.errors import StoreError
from latecomer.store.files import keep_to_user

UMASK = 0o077


def keep_private(pipeline: Pipeline) -> None:
    """For a private pipeline: let nobody else read existing files, and those that this process writes from here on."""
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
    """For a private pipeline: let nobody else read what this process writes from here on."""
    if pipeline.private:
        os.umask(os.umask(UMASK) | UMASK)
