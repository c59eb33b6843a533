"""A Delta table whose Parquet files are written by others, and committed by this module.

Tasks, and the driver for small tables, write files into a folder of their own. `commit` reads the footers of
these files for statistics and adds the files to the Delta log through delta-rs, in a few milliseconds. Each commit has
an application transaction with the number of its batch, so a batch that is committed again changes nothing. Readers do
not see a file before a commit adds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from latecomer.errors import StoreError
from latecomer.store import files as fs
from latecomer.store.delta.commits import REACHED, commit_file, sync_commits
from latecomer.store.delta.data_files import TO, DataFile, batch_of, batches_of, bounds_of, is_merged, kind_of
from latecomer.store.delta.readable import APPLICATION, ReadableTable
from latecomer.store.delta.tables import (
    CHECKPOINT_EVERY,
    actions_for,
    create_delta,
    is_overtaken,
    properties,
    query_tables,
    selected_columns,
)
from latecomer.store.files import Location, make_folder, sync_files
from latecomer.store.holding.fences import Fence, fences_over
from latecomer.store.wider_types import wider_schema

LOG = logging.getLogger(__name__)
NOTHING_REACHED: Mapping[str, int] = MappingProxyType({})
NO_METADATA: Mapping[str, str] = MappingProxyType({})
_LEVELS = 3
"""A table is at most this deep in its store: outputs/NAME/panes."""
_AFTER_COMMIT = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""What delta-rs does after a commit. Old commits are removed only when a checkpoint is written, not every time."""
_BEFORE_0088 = "_old_commits"
"""The folder to which earlier versions moved commits that were removed from the log."""
Change: TypeAlias = Callable[[DeltaTable, CommitProperties], object]
"""A function that makes a commit with these properties."""


class Table(ReadableTable):
    """One Delta table of the store, for reading and writing."""

    def new_folder(self, batch: int, kind: str = "") -> Location:
        """A folder that no commit refers to, for the files of one attempt at one batch."""
        return self.root / "data" / f"{batch:010d}-{fs.new_token()}{kind and '-' + kind}"

    def merged_folder(self, first: int, last: int, token: str, kind: str = "") -> Location:
        """A folder for files that are merged from several batches; `token` identifies the merge."""
        return self.root / "data" / f"{first:010d}{TO}{last:010d}-{token}{kind and '-' + kind}"

    def describe(self, file: Location) -> DataFile:
        """The size, rows and bounds of a file; only its footer is read."""
        with self.explained():
            return self._data_file(file, *fs.footer_and_size(file))

    def _data_file(self, file: Location, metadata: pq.FileMetaData, size: int) -> DataFile:
        return DataFile(file.relative_to(self.root).as_posix(), size, metadata.num_rows, *bounds_of(metadata))

    def commit(
        self,
        batch: int,
        files: Iterable[Location],
        remove: Iterable[DataFile] = (),
        application: str = APPLICATION,
        reached: Mapping[str, int] = NOTHING_REACHED,
    ) -> list[DataFile]:
        """Add the files of a batch and remove others, in one commit. Doing it again changes nothing.

        `reached` is recorded with the commit: the last batch of other tables that it depends on, or another count.
        """
        described = ((file, self.describe(file)) for file in files)
        return self._commit(batch, described, remove, application, reached)

    def _commit(
        self,
        batch: int,
        files: Iterable[tuple[Location, DataFile]],
        remove: Iterable[DataFile],
        application: str,
        reached: Mapping[str, int],
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> list[DataFile]:
        self._create_or_open()
        made_by_other = self._fence_new_table()
        if self.holds(batch, application):
            if made_by_other:
                raise self._made_by_other_engine()
            return []
        self._widen()
        self._update_properties()
        added, removed = self._synced(files), list(remove)
        # The batch is in the last line: a commit file that has it is complete.
        batches = {
            **{REACHED + name: last for name, last in reached.items() if last >= 0},
            application: batch,
        }

        change = partial(_add, actions_for(added, removed, data_change=True), self.schema)

        def commit() -> None:
            try:
                self._change(change, removed, batches, metadata)
            except StoreError:
                if not self._has_committed(batch, application, added):
                    raise

        fs.retry_reads(self.root, commit)
        return added

    def _has_committed(self, batch: int, application: str, added: Sequence[DataFile]) -> bool:
        """Whether a commit that raised an error was made nevertheless: at a URL, the answer to it can be lost."""
        if not fs.is_url(self.root):
            return False
        self.refresh()
        return self.holds(batch, application) and {each.path for each in added} <= {
            each.path for each in self.files()
        }

    def fence(self, application: str, token: int) -> None:
        """Refuse every later commit with an older token. Nothing is done if the table does not exist."""
        if self._open() is None:
            return

        def change(delta: DeltaTable, recorded: CommitProperties) -> None:
            _add([], self.stored_schema, delta, recorded)

        def record_token() -> None:
            while self.last_batch(application) < token:
                try:
                    self._make(change, {application: token})
                except StoreError as error:
                    self.refresh()  # the answer to a commit that was made can be lost
                    if not is_overtaken(error) and self.last_batch(application) < token:
                        raise

        fs.retry_reads(self.root, record_token)

    def fence_off(self, fence: Fence) -> None:
        """Refuse every later commit of those who had the lease before."""
        self.fence(fence.application, fence.token)
        if self._delta is not None:
            fence.opened[self.root] = self._delta

    def _fence_new_table(self) -> bool:
        """Fence a table that did not exist when this engine took over. Returns whether another engine has made it."""
        made_by_other = False
        for each in fences_over(self.root):
            if self.last_batch(each.application) < each.token:
                self.fence(each.application, each.token)
                made_by_other |= each.around_files
        return made_by_other

    def widen(self) -> None:
        """Add the missing columns of the schema and widen types, if the table exists."""
        if self.exists:
            self._widen()

    def rearrange(self, files: Iterable[Location], remove: Sequence[DataFile]) -> list[DataFile]:
        """Replace files by others with the same rows or fewer. It is no batch, and no change for readers of changes."""
        self._create_or_open()
        self._fence_new_table()
        added = self._synced((file, self.describe(file)) for file in files)

        def change(delta: DeltaTable, recorded: CommitProperties) -> None:
            _add(actions_for(added, remove, data_change=False), self.stored_schema, delta, recorded)

        self._change(change, remove)
        return added

    def append(
        self,
        batch: int,
        rows: pa.Table,
        application: str = APPLICATION,
        reached: Mapping[str, int] = NOTHING_REACHED,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Write and commit a small table from the driver.

        `metadata` is recorded in the commit itself, beside Delta's own timestamp.
        """
        if self.holds(batch, application):
            return
        cast, file = rows.cast(self.schema), self.new_folder(batch) / "part.parquet"
        with self.explained():
            data_file = self._data_file(file, *fs.write_small_table(cast, file))
        self._commit(batch, [(file, data_file)], (), application, reached, metadata)

    def query(self, sql: str, **others: Table) -> pa.Table:
        """The result of a SELECT on the current table, named `t`, without Spark. Other tables have the given names.

        Columns that a table of an earlier version lacks are null.
        """
        tables = {name: each.queried() for name, each in {"t": self, **others}.items()}
        with self.explained():
            return pa.table(query_tables(tables, sql))

    def query_rows(self, sql: str, **others: Table) -> list[dict[str, Any]]:
        """The rows of such a result; none where one of the tables does not exist, and is not made by that."""
        exist = all(table.exists for table in (self, *others.values()))
        return self.query(sql, **others).to_pylist() if exist else []

    def query_as(self, schema: pa.Schema, sql: str, **others: Table) -> pa.Table:
        """Such a result with this schema; without rows where this table does not exist, and is not made by that."""
        return self.query(sql, **others).cast(schema) if self.exists else schema.empty_table()

    def queried(self) -> tuple[DeltaTable, str]:
        """The current table, and its columns in SQL; columns that it lacks are null or zero."""
        self.refresh()
        selected = selected_columns(self.schema, self.columns, self.zeros)
        return self._create_or_open(), selected

    def _synced(self, files: Iterable[tuple[Location, DataFile]]) -> list[DataFile]:
        """The files with rows, which are synced to the disk before a commit adds them.

        Hadoop's checksum files on a disk are removed: an incomplete checksum would make its file unreadable.
        """
        pairs = list(files)
        with self.explained():
            for file, _ in () if fs.is_url(self.root) else pairs:
                fs.remove(file.with_name(f".{file.name}.crc"))
            sync_files((file for file, data_file in pairs if data_file.rows), self.root)
        return [data_file for _, data_file in pairs if data_file.rows]

    def _change(
        self,
        change: Change,
        removed: Sequence[DataFile] = (),
        batches: Mapping[str, int] = NOTHING_REACHED,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Change the table with the tokens of this process. The change is refused if the table has a newer token.

        Delta reports a conflict if somebody has committed with one of these tokens since the table was read. Either an
        engine has taken over, which the next read of the table shows, or another thread has committed with the same
        token. So no thread may refresh the table between the check of the tokens and the commit.
        """
        while True:
            with self._turn:
                self._require_present(removed)
                tokens = self._tokens()
                try:
                    self._make(change, {**tokens, **batches}, metadata)
                    return
                except StoreError as error:
                    if not tokens or not is_overtaken(error):
                        raise
                    self.refresh()
                    if any(
                        self.holds(each, name)
                        for name, each in batches.items()
                        if not name.startswith(REACHED)
                    ):
                        raise

    def _tokens(self) -> dict[str, int]:
        """The tokens for a commit. An error is raised if the table has a newer one."""
        fences = fences_over(self.root)
        self._current()
        for each in fences:
            each.require()
            if self.last_batch(each.application) > each.token:
                raise each.refusal()
        return {each.application: each.token for each in fences}

    def _make(
        self, change: Change, batches: Mapping[str, int], metadata: Mapping[str, str] = NO_METADATA
    ) -> None:
        """Make one commit. On a disk it is durable before anything else depends on it."""
        with self._turn, self.explained():
            delta = self._current()
            assert delta is not None  # noqa: S101
            before = delta.version()
            change(
                delta,
                CommitProperties(
                    custom_metadata=dict(metadata) or None,
                    app_transactions=[Transaction(*each) for each in batches.items()],
                ),
            )
            # After some changes delta-rs has updated its version itself.
            self._ahead = int(delta.version() == before)
            if self._known[0] == before and self._ahead:
                self._known = before + 1, {**self._known[1], **batches}
            if fs.is_url(self.root):
                has_checkpoint = (before + 2) % CHECKPOINT_EVERY == 0
            else:
                self.refresh()
                has_checkpoint = sync_commits(self.root, range(before + 1, delta.version() + 1))
            if has_checkpoint:
                self._current()
                # Another process may be removing them, or deleting is not allowed: it is tried again later.
                with suppress(DeltaError, OSError):
                    delta.cleanup_metadata()

    def _require_present(self, files: Sequence[DataFile]) -> None:
        """Refuse to remove files that are not in the table. Delta would allow it, and then rows could count twice: in
        new files that replaced them."""
        if not files:
            return
        self.refresh()
        present = {file.path for file in self.files()}
        missing = [file.path for file in files if file.path not in present]
        if missing:
            raise StoreError(
                f"table {self.root} has changed meanwhile: {missing[0]} is no longer part of it; start again"
            )

    def _update_properties(self) -> None:
        """Set how long the table keeps files and commits. It has other values if it is of an earlier version, or if the
        pipeline file has changed."""
        if self._has_properties:
            return
        current = self._create_or_open().metadata().configuration
        if new := {
            name: value for name, value in properties(self.kept).items() if current.get(name) != value
        }:
            self._change(
                lambda delta, recorded: delta.alter.set_table_properties(new, commit_properties=recorded)
            )
            fs.remove_all(self.root / _BEFORE_0088)
        self._has_properties = True

    def _widen(self) -> None:
        """Add the columns of the schema that the table lacks, null in existing rows, and widen types."""
        existing = set(self.columns)
        if missing := [field for field in self.schema if field.name not in existing]:
            fields = Schema.from_arrow(pa.schema(missing)).fields
            self._change(lambda delta, recorded: delta.alter.add_columns(fields, commit_properties=recorded))
        schema = wider_schema(self.stored_schema, self.schema)
        if schema != self.stored_schema:
            self._retype(schema)

    def _retype(self, schema: pa.Schema) -> None:
        """Write every file again with columns of wider types, in the same order. Files and types change in one commit:
        all files of a Delta table must have the types in its log."""
        LOG.info(
            "widening the types of table %s: its %d files are written again", self.root, len(self.files())
        )
        written, token = [], fs.new_token()
        with self.explained():
            for file in self.files():
                first, last = batches_of(file)[0], batch_of(file)
                folder = self.root / "data" / f"{first:010d}-{token}{kind_of(file) and '-' + kind_of(file)}"
                if is_merged(file):
                    folder = self.merged_folder(first, last, token, kind_of(file))
                place = folder / file.path.split("/", 1)[1].replace("/", "-")
                with fs.new_parquet(place, schema) as writer:
                    for batch in self.dataset([file], schema).to_batches():
                        writer.write_batch(batch)
                written.append(place)
        added = self._synced((file, self.describe(file)) for file in written)
        self._change(
            lambda delta, recorded: delta.create_write_transaction(
                actions_for(added, (), data_change=False), "overwrite", schema, commit_properties=recorded
            )
        )
        self._current()

    def _create_or_open(self) -> DeltaTable:
        delta = self._open()
        if delta is None:
            with self.explained():
                make_folder(self.root)
            fs.retry_reads(self.root, self._create)
            with self.explained():
                # Spark may have made the folder before. In either case every folder above it is synced, too.
                sync_files([commit_file(self.root, 0)], self.root.parents[_LEVELS - 1])
            delta = self._delta
            assert delta is not None  # noqa: S101
        return delta

    def _create(self) -> None:
        """Make the table. At a URL it may exist after an error: the answer can be lost."""
        try:
            with self.explained():
                fences = {each.application: each.token for each in fences_over(self.root)}
                self._keep(create_delta(self.root, self.schema, properties(self.kept), fences))
        except StoreError:
            if not fs.is_url(self.root) or self._open() is None:
                raise


@contextmanager
def with_empty_ones(*tables: Table) -> Iterator[list[Table]]:
    """The tables; in place of those that do not exist, empty ones with the same columns. None is made in the store."""
    with fs.scratch() as folder:
        yield [
            table if table.exists else Table(folder / str(nth), table.schema)
            for nth, table in enumerate(tables)
        ]


def moments(rows: Sequence[int | None]) -> pa.Array:
    """Microseconds as a column of UTC timestamps."""
    return pa.array(rows, pa.timestamp("us", "UTC"))


def _add(
    actions: list[AddAction | RemoveAction], schema: pa.Schema, delta: DeltaTable, recorded: CommitProperties
) -> None:
    delta.create_write_transaction(
        actions, "append", schema, commit_properties=recorded, post_commithook_properties=_AFTER_COMMIT
    )
