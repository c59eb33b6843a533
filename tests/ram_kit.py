"""A folder in memory for what the tests write: they bring thousands of small files to the disk, and wait for it.

It is taken where there is room and neither `--basetemp` nor TMPDIR says otherwise. It goes when the tests have
passed, and what tests that failed have left in it when the next ones start.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""More than the tests have ever needed, by far."""
PREFIX = "latecomer-tests-"


def folder_in_memory() -> Path | None:
    """A folder for this process, if there is room."""
    if "TMPDIR" in os.environ or not os.access(SHARED_MEMORY, os.W_OK):
        return None
    _sweep()
    if shutil.disk_usage(SHARED_MEMORY).free < ROOM or psutil.virtual_memory().available < 2 * ROOM:
        return None
    return SHARED_MEMORY / f"{PREFIX}{os.getpid()}"


def _sweep() -> None:
    """Remove what earlier tests have left."""
    for folder in SHARED_MEMORY.glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(folder.name.removeprefix(PREFIX))):
            shutil.rmtree(folder, ignore_errors=True)
