"""Reading a Delta table of the store: its rows, its files, and its last batch."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from latecomer.errors import StoreError, TornCheckpoint, TornCommit
from latecomer.model.durations import format_duration
from latecomer.store import files as fs
from latecomer.store.delta.commits import (
    REACHED,
    commit_file,
    last_version,
    torn_checkpoints,
    torn_commits,
    transactions_of,
)
from latecomer.store.delta.data_files import DataFile, batches_of, is_merged
from latecomer.store.delta.tables import CHECKPOINT_EVERY, KEPT, LOG_KEPT, explained, files_of, open_delta
from latecomer.store.files import Location
from latecomer.store.holding.fences import fences_over
from latecomer.store.wider_types import wider_schema

LOG = logging.getLogger(__name__)
APPLICATION = "latecomer"
_KEEPING = threading.Lock()


class ReadableTable:
    """One Delta table of the store: the part that reads."""

    def __init__(
        self, root: Location, schema: pa.Schema, zeros: Sequence[str] = (), kept: int = KEPT
    ) -> None:
        self.root = root
        self.schema = schema
        self.zeros = zeros
        """Columns that are 0, not null, in rows of an earlier version."""
        self.kept = kept
        """How long it keeps files that were replaced, in microseconds. Its first commit records that."""
        self._has_properties = False
        self._delta: DeltaTable | None = None
        self._known: tuple[int, dict[str, int]] = -1, {}
        """A version, and the last batch of each application as of that version, from the commits read so far."""
        self._looked_back = 0
        """The oldest commit that was read for it."""
        self._ahead = 0
        """How many commits were made here since the last refresh."""
        self._turn = threading.RLock()
        """A commit builds on what was read: no other thread may refresh in between."""

    @property
    def exists(self) -> bool:
        return self._open() is not None

    def explained(self) -> AbstractContextManager[None]:
        """Errors of Delta, Arrow and the file system become one sentence."""
        return explained(self.root)

    @property
    def identity(self) -> str:
        """Delta's id of the table, which differs from that of an earlier table in the same place; empty before the
        first commit."""
        delta = self._open()
        return "" if delta is None else str(delta.metadata().id)

    @property
    def columns(self) -> list[str]:
        """The columns that exist: a table of an earlier version may have fewer than its schema."""
        delta = self._open()
        return self.schema.names if delta is None else [field.name for field in delta.schema().fields]

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns that exist, with their types."""
        delta = self._open()
        return self.schema if delta is None else pa.schema(delta.schema().to_arrow())

    @property
    def is_narrower(self) -> bool:
        """Whether an existing column has a narrower type than in the schema."""
        return bool(wider_schema(self.stored_schema, self.schema) != self.stored_schema)

    def last_batch(self, application: str = APPLICATION) -> int:
        """The last batch committed, -1 before the first."""
        delta = self._open()
        if delta is None:
            return -1
        with self.explained():
            version, known = self._known
            if version != delta.version() + self._ahead or application not in known:
                with self._turn:
                    self._current()
                    self._note_since(delta.version(), delta)
                    return self._last_of(delta, application)
            return known[application]

    def _note_since(self, before: int, delta: DeltaTable) -> None:
        """Update the last batches, from those of the version `before` and the commits since. One of these commits may
        be known already: it was made here."""
        (version, known), now = self._known, delta.version()
        if version == now:
            return
        try:
            if version not in (before, before + 1) or not before < now <= before + CHECKPOINT_EVERY:
                raise FileNotFoundError
            known = dict(known)
            for each in range(before + 1, now + 1):
                known.update(transactions_of(commit_file(self.root, each)))
            self._known = now, known
        except (FileNotFoundError, ValueError):
            self._known, self._looked_back = (now, {}), now + 1
            self._last_of(delta, APPLICATION)  # while its commits still exist: a table may stay open for long

    def _last_of(self, delta: DeltaTable, application: str) -> int:
        """The last batch of an application. One of the newest commits usually has it; else Delta searches all."""
        known = self._known[1]
        with suppress(FileNotFoundError, ValueError):
            while application not in known and self._looked_back > max(0, delta.version() - CHECKPOINT_EVERY):
                transactions = transactions_of(commit_file(self.root, self._looked_back - 1))
                self._looked_back -= 1
                for name, batch in transactions.items():
                    known.setdefault(name, batch)
        if application not in known:
            known[application] = -1 if self._looked_back == 0 else self._asked_of(delta, application)
        return known[application]

    def _asked_of(self, delta: DeltaTable, application: str) -> int:
        try:
            return _reached(delta, application)
        except DeltaError as error:
            if not fs.is_folder(self.root) or fs.exists(commit_file(self.root, delta.version())):
                raise
            raise StoreError(
                f"table {self.root} was opened more than {format_duration(LOG_KEPT)} ago, and its log of then is gone; "
                "ask again"
            ) from error

    def reached_by(self, name: str) -> int:
        """The last batch of another table, or a count, as recorded in this table's newest commit; -1 where there is no
        record."""
        return self.last_batch(REACHED + name)

    def holds(self, batch: int, application: str = APPLICATION) -> bool:
        """Whether this batch is committed: its step can be skipped."""
        return self.last_batch(application) >= batch

    def files(self) -> list[DataFile]:
        """The current files of the table."""
        delta = self._current()
        with self.explained():
            return [] if delta is None else files_of(delta)

    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files())

    def rows_of(self, batch: int) -> int:
        """The number of rows of a batch."""
        files = [file for file in self.files() if batch in batches_of(file)]
        merged = [file for file in files if is_merged(file)]
        alone = sum(file.rows for file in files if not is_merged(file))
        if not merged:
            return alone
        with self.explained():
            rows = self.dataset(merged)
            return alone + int(rows.count_rows(filter=pc.field("batch") == batch))

    def files_before(self, batch: int) -> list[DataFile]:
        """The files of the table before a batch was committed: they still exist."""
        delta = self._current()
        with self.explained():
            while delta is not None and _reached(delta) >= batch:
                delta = open_delta(self.root, delta.version() - 1)
            return [] if delta is None else files_of(delta)

    def location(self, file: DataFile) -> Location:
        """The location of one of its files."""
        return self.root / file.path

    def dataset(self, files: Iterable[DataFile], schema: pa.Schema | None = None) -> ds.Dataset:
        """Some of its files as a dataset, to read without Spark: with all columns, or those of a schema."""
        return fs.dataset(map(self.location, files), self.stored_schema if schema is None else schema)

    def parts(
        self, schema: pa.Schema, size: int, wanted: pc.Expression | None = None, name: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Its rows, part by part; few parts are in memory at a time. With a name, progress is logged."""
        files = self.files()
        total, done = sum(file.rows for file in files), 0
        if not total:
            return
        with self.explained():
            for part in self.dataset(files, schema).to_batches(
                columns=schema.names, filter=wanted, batch_size=size, batch_readahead=2, fragment_readahead=2
            ):
                if name:
                    LOG.info("reading %s, %s of %s", name, f"{done:,}", f"{total:,}")
                done += part.num_rows
                if part.num_rows:
                    yield part

    def paths(self, files: Iterable[DataFile]) -> list[str]:
        """The paths or URLs of files, for Spark and for other programs."""
        return [fs.url(self.location(file)) for file in files]

    def missing_file(self) -> DataFile | None:
        """A current file that does not exist or has another size; None if all is well."""
        for file in self.files():
            try:
                size = fs.size(self.location(file))
            except FileNotFoundError:
                return file
            if size != file.size:
                return file
        return None

    def unnamed_since(self, moment: float) -> list[Location]:
        """The files in its folder that are not part of it, and were written and removed from it before a moment (in
        seconds since the epoch). delta-rs finds them by the hour, rounded up. It knows the time of a removal for as
        long as `kept`."""
        delta = self._open()
        if delta is None:
            return []
        self.refresh()
        hours = max(0, math.ceil((time.time() - moment - 60) / 3600))
        with self.explained():
            unused = delta.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        existing = set(fs.files_below(self.root / "data")) if unused else set()  # some are deleted already
        return sorted(existing.intersection(self.root / name for name in unused))

    def refresh(self) -> None:
        """Read what others have committed since."""
        if self._delta is not None:
            with self.explained(), self._turn:
                before = self._delta.version()
                fs.retry_reads(self.root, self._delta.update_incremental)
                self._ahead = 0
                self._note_since(before, self._delta)

    def refresh_whole(self) -> None:
        """Likewise; an error where the newest commit is torn."""
        self.refresh()
        if self._delta is not None:
            with self.explained():
                self._require_whole()

    def _current(self) -> DeltaTable | None:
        """The table with all commits made here: at a URL they are only read when needed."""
        delta = self._open()
        if self._ahead:
            self.refresh()
        return delta

    def _open(self) -> DeltaTable | None:
        if self._delta is None:
            with self.explained():
                try:
                    opened: DeltaTable | None = self._opened_for_fence() or open_delta(self.root)
                except TableNotFoundError:
                    opened = None
                except DeltaError:
                    self._require_whole(thorough=True)
                    raise
                if not fs.is_url(self.root):  # there every put is whole
                    self._require_whole()
            self._keep(opened)
            if opened is not None:
                self.last_batch()
                self._require_made_before()
        return self._delta

    def _opened_for_fence(self) -> DeltaTable | None:
        """The table as this process opened it to fence it, with what was committed since."""
        for fence in fences_over(self.root):
            if (opened := fence.opened.pop(self.root, None)) is not None:
                fs.retry_reads(self.root, opened.update_incremental)
                return opened
        return None

    def _keep(self, opened: DeltaTable | None) -> None:
        """Keep the table that was opened first. Another thread may have opened it meanwhile, and have committed since:
        a commit on top of an older version would be refused."""
        with _KEEPING:
            if self._delta is None:
                self._delta = opened

    def _require_whole(self, thorough: bool = False) -> None:
        torn = torn_commits(self.root, thorough)
        if torn:
            raise TornCommit(self.root, torn[0], last_version(self.root))
        if thorough and (checkpoints := torn_checkpoints(self.root)):
            raise TornCheckpoint(checkpoints[0])

    def _require_made_before(self) -> None:
        """Refuse a table that another engine has made since this process took over: its content does not fit what this
        process has read of the store."""
        late = (fence for fence in fences_over(self.root) if fence.around_files)
        if any(self.last_batch(fence.application) < fence.token for fence in late) and self.last_batch() >= 0:
            self._delta = None
            raise self._made_by_other_engine()

    def _made_by_other_engine(self) -> StoreError:
        return StoreError(
            f"table {self.root} was made by an engine that had lost the store already; run again, and what it holds is "
            "taken into account"
        )


def _reached(delta: DeltaTable, application: str = APPLICATION) -> int:
    version = delta.transaction_version(application)
    return -1 if version is None else version
