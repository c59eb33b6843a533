"""A Delta table whose Parquet files are written elsewhere and committed here.

Spark's executors (or Arrow, for small tables) write files into a folder of their own; `commit` reads
their footers for statistics and names them in the Delta log through delta-rs, in a few milliseconds,
with an application transaction that carries the batch number. A batch that is committed twice is
committed once, and files that no commit names do not exist for readers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from latecomer.errors import StoreError
from latecomer.store import files as fs
from latecomer.store.commits import REACHED, commit_file, sync_commits
from latecomer.store.data_files import TO, DataFile, batch_of, batches_of, bounds_of, is_merged, kind_of
from latecomer.store.delta_tables import CHECKPOINT_EVERY, actions_for, create_delta, properties
from latecomer.store.fences import Fence, fences_over
from latecomer.store.files import Location, make_folder, sync_files
from latecomer.store.questions import asked, selected_columns
from latecomer.store.readable import APPLICATION, ReadableTable
from latecomer.store.table_errors import is_overtaken
from latecomer.store.wider_types import wider_schema

LOG = logging.getLogger(__name__)
NOTHING_REACHED: Mapping[str, int] = MappingProxyType({})
NO_METADATA: Mapping[str, str] = MappingProxyType({})
_LEVELS = 3
"""A table is at most this deep in its store: outputs/NAME/panes."""
_AFTER_COMMIT = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""What delta-rs does then. Commits that are too old are looked for when there is another checkpoint, not every time."""
_BEFORE_0088 = "_old_commits"
"""Where earlier versions put commits that had left the log."""
Change: TypeAlias = Callable[[DeltaTable, CommitProperties], object]
"""What makes a commit, with what it is to say."""


class Table(ReadableTable):
    """One Delta table of the store, which is written here, too."""

    def new_folder(self, batch: int, kind: str = "") -> Location:
        """A folder that no commit refers to, for the files of one attempt at one batch."""
        return self.root / "data" / f"{batch:010d}-{fs.new_token()}{kind and '-' + kind}"

    def merged_folder(self, first: int, last: int, token: str, kind: str = "") -> Location:
        """Likewise, for what is made of the files of several batches; `token` is one merge's."""
        return self.root / "data" / f"{first:010d}{TO}{last:010d}-{token}{kind and '-' + kind}"

    def describe(self, file: Location) -> DataFile:
        """A file's size, rows and bounds, from its footer alone."""
        with self.explained():
            return self._data_file(file, *fs.described(file))

    def _data_file(self, file: Location, metadata: pq.FileMetaData, size: int) -> DataFile:
        return DataFile(file.relative_to(self.root).as_posix(), size, metadata.num_rows, *bounds_of(metadata))

    def commit(
        self,
        batch: int,
        files: Iterable[Location],
        remove: Iterable[DataFile] = (),
        application: str = APPLICATION,
        reached: Mapping[str, int] = NOTHING_REACHED,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> list[DataFile]:
        """Make the files of a batch visible, and take others out, in one step. Doing it again changes nothing.

        `reached` is written down with it: the last batch of other tables, which this step rests on, or how far
        something else has been counted. `metadata` stands in the commit itself, beside Delta's own timestamp.
        """
        described = ((file, self.describe(file)) for file in files)
        return self._commit(batch, described, remove, application, reached, metadata)

    def _commit(
        self,
        batch: int,
        files: Iterable[tuple[Location, DataFile]],
        remove: Iterable[DataFile],
        application: str,
        reached: Mapping[str, int],
        metadata: Mapping[str, str],
    ) -> list[DataFile]:
        self._create_or_open()
        late = self._fence_late()
        if self.holds(batch, application):
            if late:
                raise self._made_late()
            return []
        self._widen()
        self._say_what_is_kept()
        added, removed = self._synced(files), list(remove)
        # The batch is in the last line: with it the commit is whole.
        batches = {
            **{REACHED + name: last for name, last in reached.items() if last >= 0},
            application: batch,
        }

        def change(delta: DeltaTable, said: CommitProperties) -> None:
            _add(delta, actions_for(added, removed, data_change=True), self.schema, said)

        def committed() -> None:
            try:
                self._change(change, removed, batches, metadata)
            except StoreError:
                if not self._was_done(batch, application, added):
                    raise

        fs.patiently(self.root, committed)
        return added

    def _was_done(self, batch: int, application: str, described: Sequence[DataFile]) -> bool:
        """Whether a commit that failed was done after all: at a URL its answer can be lost."""
        if not fs.is_url(self.root):
            return False
        self.refresh()
        return self.holds(batch, application) and {each.path for each in described} <= {
            each.path for each in self.files()
        }

    def fence(self, application: str, token: int) -> None:
        """Have no commit come after this one that carries an older token, where the table is there."""
        if self._open() is None:
            return

        def change(delta: DeltaTable, said: CommitProperties) -> None:
            _add(delta, [], self.stored_schema, said)

        def fenced() -> None:
            while self.last_batch(application) < token:
                try:
                    self._make(change, {application: token})
                except StoreError as error:
                    self.refresh()  # the answer of a commit that was done can be lost
                    if not is_overtaken(error) and self.last_batch(application) < token:
                        raise

        fs.patiently(self.root, fenced)

    def fence_off(self, fence: Fence) -> None:
        """Have no commit come after this one from whoever had the lease before."""
        self.fence(fence.application, fence.token)
        if self._delta is not None:
            fence.opened[self.root] = self._delta

    def _fence_late(self) -> bool:
        """Fence a table off that was not there when this engine took over; whether somebody else has made it."""
        late = False
        for each in fences_over(self.root):
            if self.last_batch(each.application) < each.token:
                self.fence(each.application, each.token)
                late |= each.around_files
        return late

    def widen(self) -> None:
        """Have all the columns of its schema, in types as wide as there, where the table is there."""
        if self.exists:
            self._widen()

    def rearrange(self, files: Iterable[Location], remove: Sequence[DataFile]) -> list[DataFile]:
        """Put files in the place of others, which hold no more than those: no batch, and no news to anybody."""
        self._create_or_open()
        self._fence_late()
        added = self._synced((file, self.describe(file)) for file in files)

        def change(delta: DeltaTable, said: CommitProperties) -> None:
            _add(delta, actions_for(added, remove, data_change=False), self.stored_schema, said)

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
        """Write and commit a small table from the driver."""
        if self.holds(batch, application):
            return
        cast, file = rows.cast(self.schema), self.new_folder(batch) / "part.parquet"
        with self.explained():
            described = self._data_file(file, *fs.write_small_table(cast, file))
        self._commit(batch, [(file, described)], (), application, reached, metadata)

    def query(self, sql: str, **others: Table) -> pa.Table:
        """Ask the table as it is now, named `t` in a SELECT, without Spark; others join under their names.

        Columns that a table of an earlier version does not have are null.
        """
        return self._answer({name: each.queried() for name, each in {"t": self, **others}.items()}, sql)

    def queried(self) -> tuple[DeltaTable, str]:
        """What a question is put to: the table as it is now, and its columns in SQL, with those that it lacks."""
        self.refresh()
        selected = selected_columns(self.schema, self.columns, self.zeros)
        return self._create_or_open(), selected

    def _answer(self, tables: Mapping[str, tuple[DeltaTable, str]], sql: str) -> pa.Table:
        with self.explained():
            return pa.table(asked(tables, sql))

    def _synced(self, files: Iterable[tuple[Location, DataFile]]) -> list[DataFile]:
        """The files that hold rows: on the disk before a commit names them.

        Hadoop's checksum beside a file on a disk goes: torn, it would make a whole file unreadable.
        """
        found = list(files)
        with self.explained():
            for file, _ in () if fs.is_url(self.root) else found:
                fs.remove(file.with_name(f".{file.name}.crc"))
            sync_files((file for file, described in found if described.rows), self.root)
        return [described for _, described in found if described.rows]

    def _change(
        self,
        change: Change,
        removed: Sequence[DataFile] = (),
        batches: Mapping[str, int] = NOTHING_REACHED,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Change the table under the tokens of this process: refused where the table has a newer one.

        What is committed after the table was read, with one of these tokens, is seen by Delta as a conflict. It is
        either of an engine that has taken over, which the next look at the table tells, or of another thread under the
        same token. So nobody reads on between the look at the tokens and the commit.
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
        """The tokens that a commit carries; an error where the table has a newer one."""
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
        """Make one commit. On a disk it is there for good before anything is done that rests on it."""
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
            self._ahead = int(delta.version() == before)  # delta-rs has looked at some changes itself
            if self._known[0] == before and self._ahead:
                self._known = before + 1, {**self._known[1], **batches}
            if fs.is_url(self.root):
                has_checkpoint = (before + 2) % CHECKPOINT_EVERY == 0
            else:
                self.refresh()
                has_checkpoint = sync_commits(self.root, range(before + 1, delta.version() + 1))
            if has_checkpoint:
                self._current()
                with suppress(DeltaError, OSError):  # somebody else is at it, or may not delete: another time
                    delta.cleanup_metadata()

    def _require_present(self, files: Sequence[DataFile]) -> None:
        """Delta does not mind if a file is taken out twice, and what came in its place would count twice."""
        if not files:
            return
        self.refresh()
        present = {file.path for file in self.files()}
        gone = [file.path for file in files if file.path not in present]
        if gone:
            raise StoreError(
                f"table {self.root} has changed meanwhile: {gone[0]} is no longer part of it; start again"
            )

    def _say_what_is_kept(self) -> None:
        """A table of an earlier version, or of a pipeline file that has changed, says what it keeps from here on."""
        if self._says_so:
            return
        there = self._create_or_open().metadata().configuration
        if new := {name: value for name, value in properties(self.kept).items() if there.get(name) != value}:
            self._change(lambda delta, said: delta.alter.set_table_properties(new, commit_properties=said))
            fs.remove_all(self.root / _BEFORE_0088)
        self._says_so = True

    def _widen(self) -> None:
        """Columns that were thought of after the table was made: null in what is there."""
        there = set(self.columns)
        if missing := [field for field in self.schema if field.name not in there]:
            fields = Schema.from_arrow(pa.schema(missing)).fields
            self._change(lambda delta, said: delta.alter.add_columns(fields, commit_properties=said))
        schema = wider_schema(self.stored_schema, self.schema)
        if schema != self.stored_schema:
            self._retype(schema)

    def _retype(self, schema: pa.Schema) -> None:
        """Write every file again with columns of wider types, in the same order, and commit them with the types in one
        step: all files of a Delta table have the types that it says."""
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
            lambda delta, said: delta.create_write_transaction(
                actions_for(added, (), data_change=False), "overwrite", schema, commit_properties=said
            )
        )
        self._current()

    def _create_or_open(self) -> DeltaTable:
        delta = self._open()
        if delta is None:
            with self.explained():
                make_folder(self.root)
            fs.patiently(self.root, self._create)
            with self.explained():
                # Spark may have made the folder before: whoever did, every folder above it must know its name.
                sync_files([commit_file(self.root, 0)], self.root.parents[_LEVELS - 1])
            delta = self._delta
            assert delta is not None  # noqa: S101
        return delta

    def _create(self) -> None:
        """Make the table. At a URL it may be made although its making failed: the answer can be lost."""
        try:
            with self.explained():
                fences = {each.application: each.token for each in fences_over(self.root)}
                self._keep(create_delta(self.root, self.schema, properties(self.kept), fences))
        except StoreError:
            if not fs.is_url(self.root) or self._open() is None:
                raise


@contextmanager
def with_empty_ones(*tables: Table) -> Iterator[list[Table]]:
    """The tables, and empty ones of the same columns for those that were never made: reading makes none."""
    with fs.scratch() as folder:
        yield [
            table if table.exists else Table(folder / str(nth), table.schema)
            for nth, table in enumerate(tables)
        ]


def moments(rows: Sequence[int | None]) -> pa.Array:
    """Microseconds as a column of UTC timestamps."""
    return pa.array(rows, pa.timestamp("us", "UTC"))


def _add(
    delta: DeltaTable, actions: list[AddAction | RemoveAction], schema: pa.Schema, said: CommitProperties
) -> None:
    delta.create_write_transaction(
        actions, "append", schema, commit_properties=said, post_commithook_properties=_AFTER_COMMIT
    )
