"""Replaces files of a table by merged ones: streamed with Arrow, a part at a time, and committed in one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from latecomer.engine.upkeep.plan import Group, Merge, arranged, most_rows
from latecomer.errors import BUG, StoreError
from latecomer.store.delta.data_files import DataFile, batch_of, batches_of, kind_of
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, footer, new_parquet, new_token, write_table
from latecomer.store.layout import TIMESTAMP

ROW_GROUP = 128 * 1024
WRITTEN, COMMITTED = "compact.written", "compact.committed"
_ALL = (0, 0)
"""The only part of a group that is joined: everything, in one file."""


@dataclass(frozen=True)
class Remnant:
    """A file without its batches up to `after`."""

    file: DataFile
    after: int


Remnants = Mapping[str, Remnant]
"""Files as they will be once retention has cut them, by the path that the plan gives them."""


def plan_merge(table: Table, group: Group, remnants: Remnants = {}) -> Merge | None:  # noqa: B006 - only read
    """The files that a group is merged into; None where merging gains nothing."""
    if group.by is None:
        return Merge(group, [_ALL])
    minutes: Counter[int] = Counter()
    plain = 0
    whole = [file for file in group.files if file.path not in remnants]
    cut = [remnants[file.path] for file in group.files if file.path in remnants]
    with table.explained():
        for files, after in [(whole, -1), *(([each.file], each.after) for each in cut)]:
            if files:
                minutes += _minutes(table.dataset(files), group.by, _kept(after))
                plain += sum(map(_plain_size, map(table.location, files)))
    return arranged(group, minutes, most_rows(sum(minutes.values()), plain))


def merge(table: Table, planned: Merge) -> list[DataFile]:
    """Replace the files of a group by merged ones."""
    files, by = planned.group.files, planned.group.by
    with table.explained():
        rows = table.dataset(files)
        if by is None:
            first = min(batches_of(file)[0] for file in files)
            folder = table.merged_folder(first, max(map(batch_of, files)), new_token(), kind_of(files[0]))
            written = [_joined(rows, None, folder)]
        else:
            written = list(_clustered(table, rows, by, planned.parts))
        _require_all(table, sum(file.rows for file in files), written)
    return _replace(table, files, written)


def without(table: Table, files: Sequence[DataFile], last: int) -> list[DataFile]:
    """Remove the batches up to `last` from a table's files, none of which begins later. The rest of each file is
    written to one file, in the same order."""
    token, written = new_token(), []
    with table.explained():
        for nth, file in enumerate(straddling(files, last)):
            folder = table.merged_folder(last + 1, batch_of(file), token, kind_of(file))
            rows = table.dataset([file])
            written.append(_joined(rows, _kept(last), folder, f"part-{nth:05d}.parquet"))
            _require_all(table, rows.count_rows(filter=_kept(last)), written[-1:])
    return _replace(table, files, written)


def straddling(files: Sequence[DataFile], last: int) -> list[DataFile]:
    """The files that hold batches up to `last` as well as later ones."""
    return [file for file in files if batches_of(file)[0] <= last < batch_of(file)]


def remnant(table: Table, file: DataFile, last: int, by: str | None) -> DataFile:
    """A file as it will be without its batches up to `last`; its size is estimated."""
    with table.explained():
        rows = table.dataset([file]).to_table(columns=["batch", *([by] if by else [])], filter=_kept(last))
    minimum, maximum = dict(file.minimum), dict(file.maximum)
    if by:
        bounds = pc.min_max(rows[by]).as_py()
        minimum[by], maximum[by] = bounds["min"], bounds["max"]
    data, folder, name = file.path.split("/", 2)
    kind = f"-{kind_of(file)}" if kind_of(file) else ""
    path = f"{data}/{last + 1:010d}to{batch_of(file):010d}-cut{kind}/{folder}-{name}"
    return DataFile(path, file.size * rows.num_rows // file.rows, rows.num_rows, minimum, maximum)


def _replace(table: Table, files: Sequence[DataFile], written: Sequence[Location]) -> list[DataFile]:
    last = max(map(batch_of, files))
    failpoint(WRITTEN, last)
    added = table.rearrange(written, files)
    failpoint(COMMITTED, last)
    return added


def _require_all(table: Table, expected: int, written: Sequence[Location]) -> None:
    rows = sum(footer(file).num_rows for file in written)
    if rows != expected:
        raise StoreError(
            f"table {table.root}: {expected} rows were to be merged and {rows} were written; nothing was "
            f"changed, and {BUG}"
        )


def _kept(after: int) -> pc.Expression | None:
    return pc.field("batch") > after if after >= 0 else None


def _joined(
    rows: ds.Dataset, kept: pc.Expression | None, folder: Location, name: str = "part.parquet"
) -> Location:
    """Write the rows to one file, in the order of their files."""
    file = folder / name
    with new_parquet(file, rows.schema) as writer:
        pending: list[pa.RecordBatch] = []
        for batch in rows.to_batches(filter=kept):
            pending.append(batch)
            if sum(each.num_rows for each in pending) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(pending, rows.schema))
                pending = []
        writer.write_table(pa.Table.from_batches(pending, rows.schema))
    return file


def _clustered(
    table: Table, rows: ds.Dataset, by: str, parts: Sequence[tuple[int, int]]
) -> Iterator[Location]:
    """Write a file for each interval of time, sorted by time, each in a folder named for the batches that it holds."""
    token = new_token()
    for number, (start, end) in enumerate(parts):
        within = (pc.field(by) >= moment(start)) & (pc.field(by) < moment(end))
        part = rows.to_table(filter=within)
        batches = pc.min_max(part.column("batch")).as_py()
        folder = table.merged_folder(batches["min"], batches["max"], token)
        ordered = part.sort_by([(by, "ascending"), ("batch", "ascending")])
        yield write_table(ordered.cast(rows.schema), folder / f"part-{number:05d}.parquet", ROW_GROUP)


def _plain_size(file: Location) -> int:
    """A file's bytes before compression, from its footer."""
    file_footer = footer(file)
    return sum(file_footer.row_group(group).total_byte_size for group in range(file_footer.num_row_groups))


def _minutes(rows: ds.Dataset, by: str, kept: pc.Expression | None) -> dict[int, int]:
    """How many rows each minute has."""
    minutes_of: Counter[int] = Counter()
    for batch in rows.to_batches(columns=[by], filter=kept):
        minutes = pc.floor_temporal(batch.column(0).cast(pa.timestamp("us")), unit="minute")
        for each in pc.value_counts(minutes.cast(pa.int64())).to_pylist():
            minutes_of[each["values"]] += each["counts"]
    return minutes_of


def moment(micros: int) -> pa.Scalar:
    """A moment, to compare columns of tables with."""
    return pa.scalar(micros, pa.int64()).cast(TIMESTAMP)
