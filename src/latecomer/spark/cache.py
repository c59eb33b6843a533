"""Where latecomer keeps, from one run to the next, what it can get or make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The folder of one kind of things in the cache of the user (`XDG_CACHE_HOME`). It may not be there yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "latecomer" / kind
