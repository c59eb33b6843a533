"""Files in the place of others: streamed with Arrow, a part at a time, and committed in one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from latecomer.errors import StoreError
from latecomer.store.failpoints import failpoint
from latecomer.store.layout import TIMESTAMP
from latecomer.store.table import DataFile, Table, batch_of, batches_of, kind_of, new_token
from latecomer.upkeep.plan import Group, most_rows, parts

ROW_GROUP = 128 * 1024
WRITTEN, COMMITTED = "compact.written", "compact.committed"


def merge(table: Table, group: Group) -> list[DataFile]:
    """Put merged files in the place of a group's."""
    return _replace(table, group.files, _written(table, group.files, group.by))


def without(table: Table, files: Sequence[DataFile], last: int, by: str | None) -> list[DataFile]:
    """Take the batches up to `last` out of a table's files, none of which begins later."""
    rest = [file for file in files if batch_of(file) > last]
    return _replace(table, files, _written(table, rest, by, last) if rest else [])


def _replace(table: Table, files: Sequence[DataFile], written: Sequence[Path]) -> list[DataFile]:
    last = max(map(batch_of, files))
    failpoint(WRITTEN, last)
    added = table.rearrange(written, files)
    failpoint(COMMITTED, last)
    return added


def _written(table: Table, files: Sequence[DataFile], by: str | None, after: int = -1) -> list[Path]:
    """The rows of some files, from a batch on, in files of their own."""
    rows = ds.dataset(table.paths(files), schema=table.stored_schema, format="parquet")
    kept = pc.field("batch") > after if after >= 0 else None
    expected = rows.count_rows(filter=kept) if after >= 0 else sum(file.rows for file in files)
    if by is None:
        first = max(after + 1, min(batches_of(file)[0] for file in files))
        folder = table.merged_folder(first, max(map(batch_of, files)), new_token(), kind_of(files[0]))
        written = [_joined(rows, kept, folder)]
    else:
        written = list(_clustered(table, files, rows, by, kept))
    found = sum(pq.read_metadata(file).num_rows for file in written)
    if found != expected:
        raise StoreError(
            f"table {table.root}: {expected} rows were to be merged and {found} were written; nothing was "
            "changed, and this is a fault of latecomer's"
        )
    return written


def _joined(rows: ds.Dataset, kept: pc.Expression | None, folder: Path) -> Path:
    """One file after the other, as they are."""
    folder.mkdir(parents=True)
    file = folder / "part.parquet"
    with pq.ParquetWriter(file, rows.schema) as writer:
        held: list[pa.RecordBatch] = []
        for batch in rows.to_batches(filter=kept):
            held.append(batch)
            if sum(each.num_rows for each in held) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(held, rows.schema))
                held = []
        writer.write_table(pa.Table.from_batches(held, rows.schema))
    return file


def _clustered(
    table: Table, files: Sequence[DataFile], rows: ds.Dataset, by: str, kept: pc.Expression | None
) -> Iterator[Path]:
    """Files of one day each, sorted by time, each in a folder that tells the batches it holds."""
    token = new_token()
    most = most_rows(sum(file.rows for file in files), sum(map(_plain_size, table.paths(files))))
    for number, (start, end) in enumerate(parts(_minutes(rows, by, kept), most)):
        within = (pc.field(by) >= _moment(start)) & (pc.field(by) < _moment(end))
        part = rows.to_table(filter=within if kept is None else within & kept)
        batches = pc.min_max(part.column("batch")).as_py()
        folder = table.merged_folder(batches["min"], batches["max"], token)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"part-{number:05d}.parquet"
        ordered = part.sort_by([(by, "ascending"), ("batch", "ascending")])
        pq.write_table(ordered.cast(rows.schema), file, row_group_size=ROW_GROUP)
        yield file


def _plain_size(path: str) -> int:
    """A file's bytes before compression, from its footer."""
    footer = pq.read_metadata(path)
    return sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))


def _minutes(rows: ds.Dataset, by: str, kept: pc.Expression | None) -> dict[int, int]:
    """How many rows each minute has."""
    found: Counter[int] = Counter()
    for batch in rows.to_batches(columns=[by], filter=kept):
        minutes = pc.floor_temporal(batch.column(0).cast(pa.timestamp("us")), unit="minute")
        for each in pc.value_counts(minutes.cast(pa.int64())).to_pylist():
            found[each["values"]] += each["counts"]
    return found


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.int64()).cast(TIMESTAMP)
