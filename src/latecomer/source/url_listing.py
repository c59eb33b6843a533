"""Lists the objects of a source's path at a URL: all below its base, and not too often, since each listing costs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from latecomer.config.paths import SourcePath
from latecomer.errors import SourceOutage, StoreError
from latecomer.objects.files import below, size
from latecomer.objects.locations import Url
from latecomer.source.listing import SHARE, NewFiles, unknown_paths
from latecomer.store.found import Found, PathSet, in_reading_order

SELDOM = 2.0
"""Seconds between two listings, at least."""


@dataclass
class UrlListing:
    """Lists the objects of a path again and again."""

    path: SourcePath
    _after: float = 0.0
    _sizes: dict[str, int] = field(default_factory=dict)

    def new_files(self, known: PathSet) -> NewFiles:
        """The objects that are not known; `SourceOutage` if they cannot be listed."""
        began = time.monotonic()
        if began < self._after:
            return NewFiles([], [])
        base = Url(self.path.base)
        try:
            objects = [(f"{base}/{name}", about) for name, about in below(base)]
        except (StoreError, OSError) as error:
            raise SourceOutage(f"source folder {base} cannot be listed: {error}") from error
        matching = {path: about for path, about in objects if about["size"] and self.path.matches(path)}
        new = {path: matching[path] for path in unknown_paths(list(matching), known)}
        self._sizes |= {path: about["size"] for path, about in new.items()}
        landed = (
            Found(path, round(about["last_modified"].timestamp() * 1000) * 1000)
            for path, about in new.items()
        )
        ended = time.monotonic()
        self._after = ended + max(SELDOM, SHARE * (ended - began))
        return NewFiles(in_reading_order(landed), [])

    def size(self, path: str) -> int:
        """The size of an object when it was found, or now if another run found it; 0 if it is gone."""
        try:
            return self._sizes.pop(path) if path in self._sizes else size(Url(path))
        except FileNotFoundError:
            return 0
