"""An Iceberg table of the panes that stand, upserted by window and key; or of rows, appended.

Each batch is one commit through pyiceberg: its rows, and its number as a property of the table. The model's own rule
first compares the batch with the stored sequences. Where no stored row changes, the commit is a plain append. Else the
windows of the changed rows are written anew. So pyiceberg filters by windows alone, which is exact for any key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.config.contract import Shape
from latecomer.config.secrets import reference_problems, resolved
from latecomer.config.sinks import IcebergSink
from latecomer.errors import SinkError, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.model.panes import Place
from latecomer.sink.base import BRING_BACK, BuiltInLogic, micros, take_rows
from latecomer.sink.settling import Change, places_of, settle
from latecomer.store.failpoints import failpoint

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction

PIPELINE, OUTPUT, BATCH = (f"latecomer.{name}" for name in ("pipeline", "output", "batch"))
"""The properties of a table: whose it is, and the last batch in it."""
_NEW_TABLE = {
    # Else every batch leaves a manifest that all later batches read, and a metadata file that nobody reads.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
_TRIES = 4
_MOST_WINDOWS = 200
"""With more windows than this, pyiceberg does not use the statistics of files."""


class IcebergLogic(BuiltInLogic):
    kind = IcebergSink.kind

    def __init__(self, sink: IcebergSink, base: Path, pipeline: str, shape: Shape) -> None:
        super().__init__(sink.place, pipeline, shape)
        self._sink, self._base = sink, base
        self._catalog: Catalog | None = None
        self._was_open = False

    def open(self) -> None:
        with self._errors_in_words():
            self._prepare(self._connected())
        self._was_open = True

    def last_batch(self) -> int:
        with self._errors_in_words():
            return _batch(self._load())

    def peek(self) -> int:
        with self._errors_in_words():
            return _batch(self._load()) if self._connected().table_exists(self._sink.table) else -1

    def close(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()

    def _apply(self, batch: int, panes: pa.Table) -> None:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        with self._errors_in_words(batch):
            for tries_left in reversed(range(_TRIES)):
                try:
                    return self._commit(batch, panes)
                except (CommitFailedException, ValidationException):
                    if not tries_left:
                        raise
        return None

    def _commit(self, batch: int, panes: pa.Table) -> None:
        table = self._load()
        reached = _batch(table)
        if reached >= batch:
            return
        table.catalog = _AtBatch(table.catalog, reached)
        with table.transaction() as transaction:
            if self.shape.appends:
                transaction.append(self._kept(panes), {BATCH: str(batch)})
            else:
                self._upsert(table, transaction, panes, batch)
            transaction.set_properties({BATCH: str(batch)})
            failpoint("sink.iceberg.written", batch)

    def _upsert(self, table: Table, transaction: Transaction, panes: pa.Table, batch: int) -> None:
        place = self.shape.place
        existing = table.scan(_within(panes), (*place, "sequence")).to_arrow()
        changes = settle(panes, existing, place)
        rows = self._kept(take_rows(panes, [each.row for each in changes if each.puts]))
        replaced = [each for each in changes if each.stored is not None]
        if replaced:
            windows = _within(take_rows(panes, [each.row for each in replaced]))
            stays = self._staying(table, windows, panes, replaced)
            transaction.overwrite(pa.concat_tables([stays, rows]), windows, {BATCH: str(batch)})
        elif rows.num_rows:
            transaction.append(rows, {BATCH: str(batch)})

    def _staying(
        self, table: Table, windows: BooleanExpression, panes: pa.Table, replaced: list[Change]
    ) -> pa.Table:
        """The rows to write again unchanged: those of the same windows that are not replaced."""
        existing = table.scan(windows, tuple(self.shape.standing.names)).to_arrow()
        places = places_of(panes, self.shape.place)
        replaced_places: set[Place] = {places[each.row] for each in replaced}
        stays = [each not in replaced_places for each in places_of(existing, self.shape.place)]
        return self._kept(existing.filter(pa.array(stays, pa.bool_())))

    def _kept(self, rows: pa.Table) -> pa.Table:
        return rows.select(self._kept_schema.names).cast(self._kept_schema)

    # Opening

    def _connected(self) -> Catalog:
        if self._catalog is None:
            try:
                from pyiceberg.catalog import load_catalog
            except ImportError:
                raise self._refusal(
                    "it needs the package pyiceberg", "install it: pip install 'latecomer[iceberg]'"
                ) from None
            texts = ((f"properties.{name}", str(text)) for name, text in self._sink.properties.items())
            for problem in reference_problems(texts, self._base):
                raise self._refusal(f"{problem.value}: {problem.message}", str(problem.fix))
            properties = {name: _written(text, self._base) for name, text in self._sink.properties.items()}
            self._catalog = load_catalog(self._sink.catalog, **properties)
        return self._catalog

    def _load(self) -> Table:
        return self._connected().load_table(self._sink.table)

    def _prepare(self, catalog: Catalog) -> None:
        """Make the table; or check that it has no other owner, and give it the wanted columns."""
        namespace = self._sink.table.rpartition(".")[0]
        ours = {PIPELINE: self.pipeline, OUTPUT: self.shape.owner}
        if not catalog.table_exists(self._sink.table):
            if not catalog.namespace_exists(namespace):
                catalog.create_namespace(namespace)
            self._go_by()
            catalog.create_table(self._sink.table, self._kept_schema, properties={**_NEW_TABLE, **ours})
            return
        table = self._load()
        owner = {name: table.properties[name] for name in ours if name in table.properties}
        if owner and owner != ours:
            raise self._refusal(
                self._belongs_to(f"table {self._sink.table}", owner.get(PIPELINE, ""), owner.get(OUTPUT, "")),
                "give the sink another table",
            )
        found = _types(table.schema().as_arrow())
        self._go_by(found)
        wanted = _types(self._kept_schema)
        if list(found) != list(wanted) and found.keys() == wanted.keys():
            found = {name: found[name] for name in wanted}  # their order does not matter
        with table.transaction() as transaction:
            what, fix = f"the table {self._sink.table}", "rename it, or give the sink another table"
            if self._steps_to(found, wanted, bool(owner), what, fix):
                with transaction.update_schema() as update:
                    update.union_by_name(self._kept_schema)
            if not owner:
                transaction.set_properties(ours)

    @property
    def _kept_schema(self) -> pa.Schema:
        return pa.schema([(each.name, _kept_as(each.type)) for each in self.shape.standing])

    # Errors in words

    @contextmanager
    def _errors_in_words(self, batch: int | None = None) -> Iterator[None]:
        try:
            yield
        except SinkError:
            raise
        except Exception as error:
            if not isinstance(error, (OSError, ValueError)) and _package(error) not in _THEIRS:
                raise
            self.close()
            raise self._explained(error, batch) from error

    def _explained(self, error: Exception, batch: int | None) -> SinkError:
        names = {each.__name__ for each in type(error).__mro__}
        text = without_secrets(first_line(error))
        if names & _GONE:
            return self._outage("the table is gone", BRING_BACK, batch)
        if names & _OVERTAKEN:
            return self._outage(f"another writer was faster ({text})", "nothing need be done", batch)
        if names & _NOT_LET_IN:
            refuse = self._outage if self._was_open else self._refusal
            fix = "correct what pyiceberg is given for it: a secret as ${env:NAME} or ${file:PATH}, or its own file"
            return refuse(f"the catalog does not let it in ({text})", fix, batch)
        if names & _PASSING:
            fix = "see that the catalog and its storage are up, and can be reached"
            return self._system_refusal(error, batch) or self._outage(
                f"the catalog or its storage cannot be reached ({text})", fix, batch
            )
        if names & {"NotInstalledError"}:
            return self._refusal(f"pyiceberg lacks a package ({text})", "install what it names", batch)
        fix = "correct the catalog (properties here, or pyiceberg's own file), or give the sink another table"
        return self._refusal(f"pyiceberg refused ({text})", fix, batch)


_GONE = {"NoSuchTableError", "NoSuchNamespaceError"}
_OVERTAKEN = {"CommitFailedException", "ValidationException", "CommitStateUnknownException"}
_NOT_LET_IN = {"UnauthorizedError", "ForbiddenError", "OAuthError", "AuthorizationExpiredError"}
_PASSING = {"OSError", "OperationalError", "ServerError", "ServiceUnavailableError"}
"""Errors of pyiceberg, requests and SQLAlchemy by name: which packages are installed depends on the catalog."""
_THEIRS = {"pyiceberg", "sqlalchemy", "requests", "strictyaml", "botocore", "thrift"}


def _package(error: Exception) -> str:
    return type(error).__module__.partition(".")[0]


class _AtBatch:
    """A catalog that only commits on top of a certain batch. pyiceberg retries a commit on top of what others have
    committed since, which may be the same batch. So the batch is read from the metadata that the commit builds on."""

    def __init__(self, catalog: Catalog, reached: int) -> None:
        self._catalog, self._reached = catalog, reached

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Any:
        if _batch(table) != self._reached:
            from pyiceberg.exceptions import ValidationException

            raise ValidationException(f"batch {_batch(table)} has come since")
        return self._catalog.commit_table(table, requirements, updates)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def _batch(table: Table) -> int:
    return int(table.properties.get(BATCH, -1))


def _within(panes: pa.Table) -> BooleanExpression:
    """A filter for the rows in the windows of some panes."""
    from pyiceberg.expressions import And, GreaterThanOrEqual, In, LessThanOrEqual

    starts = set(micros(panes["window_start"]))
    if len(starts) <= _MOST_WINDOWS:
        return In("window_start", starts)
    return And(GreaterThanOrEqual("window_start", min(starts)), LessThanOrEqual("window_start", max(starts)))


def _written(value: str | float | bool, base: Path) -> str:
    return str(value).lower() if isinstance(value, bool) else resolved(str(value), base)


def _types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(_kept_as(field.type)) for field in schema}


def _kept_as(kind: pa.DataType) -> pa.DataType:
    """The type in which Iceberg keeps another: it has no large texts and bytes, and no integers below 32 bits."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _kept_as(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_kept_as(kind.key_type), _kept_as(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _kept_as(each.type)) for each in kind])
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind
