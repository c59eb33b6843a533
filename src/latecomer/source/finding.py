"""Finds the new files of a source, writes them down, and hands them out batch by batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from latecomer.config.paths import SourcePath
from latecomer.objects.locations import Url, options_of
from latecomer.source.checkpoint import CHECKPOINT, remove_checkpoint, taken_over
from latecomer.source.decode.source_file import SourceFile
from latecomer.source.listing import Listing
from latecomer.source.url_listing import UrlListing
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.found import Found, FoundLog

LOG = logging.getLogger(__name__)


@dataclass
class Finder:
    """Finds the files of a path for the source whose folder in the store is `home`."""

    home: Location
    path: SourcePath
    most: int
    """Files of a batch, at most."""

    @cached_property
    def log(self) -> FoundLog:
        return FoundLog(self.home)

    @cached_property
    def listing(self) -> Listing | UrlListing:
        return UrlListing(self.path) if self.path.is_url else Listing(self.path)

    def resume(self, accepted: int, logged: bool, parts: int) -> None:
        """Read which files were found before, also from stores of earlier versions; refuse what does not belong to this
        store."""
        self.path.require_folder()
        if files.exists(self.home / CHECKPOINT):
            LOG.info("taking over which files were read from Spark's checkpoint")
            checkpoint = taken_over(self.home, accepted, parts, logged)
            self.log.take_over(checkpoint.read, accepted)
            self.log.write(checkpoint.left, checkpoint.size)
            remove_checkpoint(self.home)
        self.log.open(accepted, logged)

    def look(self, accepted: int) -> None:
        """Write down which files are new; `SourceOutage` if they cannot be listed."""
        new_files = self.listing.new_files(self.log.known)
        if new_files.files:
            self.log.forget(accepted)
            self.log.write(new_files.files, self.most, new_files.loops)

    def files(self, number: int) -> Sequence[SourceFile] | None:
        """The files of a batch, including those that are gone by now; None if the batch was not found yet."""
        batch = self.log.batch(number)
        return None if batch is None else [self._file(file) for file in batch]

    def _file(self, found: Found) -> SourceFile:
        if not isinstance(self.listing, UrlListing):
            return SourceFile(f"file://{found.path}", found.landed, _size(found.path))
        reached = options_of(Url(self.path.base))
        return SourceFile(found.path, found.landed, self.listing.size(found.path), reached)


def _size(path: str) -> int:
    """A file's size; 0 where it is gone."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
