"""The user's cache: files that latecomer can download or make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The folder of one kind of files in the user's cache (`XDG_CACHE_HOME`). It may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "latecomer", kind)
