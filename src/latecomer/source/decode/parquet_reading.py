"""Decodes Parquet files in a task, row group by row group, some thousand rows at a time.

A row with a text that is not UTF-8 is corrupt; a file that cannot be read to the end is damaged as a whole.
`parquet_values.py` makes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from latecomer.config.damaged_files import PARQUET, DamagedFile, damage_found
from latecomer.config.parquet import ParquetColumns, parquet_columns
from latecomer.config.sources import UnknownFields
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.paths import paths_of
from latecomer.model.types import INTEGER_BITS, is_nested, nested_type, with_fields_of
from latecomer.source.decode.base import FileDecoder, FileSplit, SourceFile
from latecomer.source.decode.json_text import (
    JsonText,
    Shape,
    kept_text,
    misread_text,
    raw_text,
    shape_of,
    shape_of_type,
    stored_rows,
    stored_values,
)
from latecomer.source.decode.parquet_values import (
    changed_as_doubles,
    shaped,
    typed_column,
    valid_rows,
    without_bad_texts,
)
from latecomer.source.decode.private_columns import CORRUPT, KEPT, POSITION
from latecomer.source.decode.retrying import cached_by_file, reading
from latecomer.store.layout import source_type

_WIDENINGS = {
    ("float", "double"),
    *((kind, "double") for kind in INTEGER_BITS),
    *combinations(INTEGER_BITS, 2),  # from the narrowest to the widest
}
_AT_ONCE, _MOST_WRITTEN = 1 << 14, 128 << 20
"""Rows that are read at a time, and bytes of their texts once repeated texts are written out, at most."""
_Path = tuple[str, ...]


@dataclass(frozen=True)
class ParquetReading(FileDecoder):
    """Parquet files with the pinned columns, or with narrower types. A split is some row groups."""

    columns: Mapping[str, str]
    unknown_fields: UnknownFields = "ignore"

    def misfit(self, file: SourceFile) -> str | None:
        try:
            with reading(file):
                stored = columns_of(file)
        except DamagedFile as error:
            return f"not a readable Parquet file: {error}"
        return next(self._misfits(stored), None)

    def _misfits(self, stored: ParquetColumns) -> Iterator[str]:
        for column, pinned in self.columns.items():
            kind = stored.kinds.get(column) or stored.left_out.get(column)
            if column in stored.int96 and pinned == "timestamp_ntz":
                continue
            if is_nested(pinned) and column in stored.lists:
                if not self._takes(pinned, stored.lists[column]):
                    yield f"column {column} is {stored.lists[column]}, pinned as {pinned}"
                continue
            if kind is not None and kind != pinned and (kind, pinned) not in _WIDENINGS:
                yield f"column {column} is {stored.nested.get(column, kind)}, pinned as {pinned}"

    def _takes(self, pinned: str, stored: str) -> bool:
        """Whether a column takes the stored type. An object may have fewer fields. It may have more, unless unknown
        fields make dead letters."""
        match nested_type(pinned), nested_type(stored):
            case None, None:
                return pinned == stored or (stored, pinned) in _WIDENINGS
            case (outer, wanted), (stored_outer, parts) if outer == stored_outer:
                strict = outer == "struct" and self.unknown_fields == "dead_letter"
                has_fields = not strict or parts.keys() <= wanted.keys()
                return has_fields and all(
                    self._takes(kind, parts[name]) for name, kind in wanted.items() if name in parts
                )
        return False

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        try:
            with damage_found(PARQUET), reading(file), file.open() as content:
                about = pq.read_metadata(content)
                groups = range(about.num_row_groups)
                sizes = [max(about.row_group(group).total_byte_size, 0) for group in groups]
        except DamagedFile:
            return [FileSplit(file)]  # reading it reports what is wrong
        at_once = max(1, len(sizes) * size // max(file.size, 1))
        bounds = pairwise([*range(0, len(sizes), at_once), len(sizes)])
        return [FileSplit(file, *each, sum(sizes[slice(*each)])) for each in bounds] or [FileSplit(file)]

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        with reading(split.file), split.file.open() as content:
            with damage_found(PARQUET):
                stored = _Stored(self, columns_of(split.file), pq.read_schema(content))
            for position, rows in _batches(content, split, stored):
                with damage_found(PARQUET):
                    table = stored.decoded(rows)
                numbers = pa.array(position + np.arange(table.num_rows))
                yield table.append_column(POSITION, numbers)


@cached_by_file
def columns_of(file: SourceFile) -> ParquetColumns:
    """The columns of a file, from its footer."""
    return parquet_columns(file)


def _batches(content: BinaryIO, split: FileSplit, stored: _Stored) -> Iterator[tuple[int, pa.Table]]:
    """Some rows at a time, and the number of the first of them.

    On a damaged footer Arrow may end the process instead of raising: so the footer is asked nothing about a column
    before it was read.
    """
    with damage_found(PARQUET):
        opened = pq.ParquetFile(
            content,
            read_dictionary=stored.texts,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
        )
    with opened:
        with damage_found(PARQUET):
            about = opened.metadata
            counts = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        if min(counts, default=0) < 0 or sum(counts) != about.num_rows:
            raise DamagedFile(
                f"it has {sum(counts)} rows in its groups, and says that it has {about.num_rows}"
            )
        first, groups = sum(counts[: split.start]), counts[split.start : split.end]
        for group, count in enumerate(groups, split.start):
            left = count
            with damage_found(PARQUET):
                row_group = about.row_group(group)
                size = max(int(row_group.total_byte_size), 1)
                # So few rows that they are not too large when they are unpacked.
                short_enough = max(1, _MOST_WRITTEN * int(row_group.num_rows) // size)
            for rows in _of_group(opened, group, count, stored.read, min(_AT_ONCE, short_enough)):
                for part in _short_enough(rows):
                    yield first + count - left, part
                    left -= part.num_rows
                if left < 0:
                    break
            if left:
                raise DamagedFile(f"a group of its rows has other rows than the {count} that it says")
            first += count


def _of_group(
    opened: pq.ParquetFile, group: int, count: int, names: Sequence[str], at_once: int
) -> Iterator[pa.Table]:
    if not names:
        for start in range(0, count, _AT_ONCE):
            yield pa.table({"": pa.nulls(min(_AT_ONCE, count - start))})
        return
    batches = opened.iter_batches(at_once, row_groups=[group], columns=list(names), use_threads=False)
    while True:
        with damage_found(PARQUET):
            rows = next(batches, None)
        if rows is None:
            return
        if not rows.num_rows and count:
            continue
        yield pa.Table.from_batches([rows])


def _short_enough(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in parts whose texts are not too large. Repeated texts are stored once, and written out later."""
    lengths = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            with damage_found(PARQUET):
                each = pa.concat_arrays(
                    [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
                )
                lengths += np.asarray(each.cast(pa.int64()).fill_null(0))
    start = 0
    while start < rows.num_rows:
        sizes = np.cumsum(lengths[start:])
        count = max(1, int(np.searchsorted(sizes, _MOST_WRITTEN, "right")))
        yield rows.slice(start, count)
        start += count


@dataclass(frozen=True)
class _Stored:
    """A file as it is stored, and how its rows become columns."""

    decoder: ParquetReading
    found: ParquetColumns
    schema: pa.Schema

    @cached_property
    def _paths(self) -> dict[str, list[_Path]]:
        """Where each column is: under its name, or as a field of objects, or both."""
        nested = paths_of(self.decoder.columns)
        paths = {}
        for name in self.decoder.columns:
            both = [self._path((name,)), self._path(nested[name]) if name in nested else None]
            paths[name] = [path for path in both if path is not None]
        return paths

    def _path(self, names: Sequence[str]) -> _Path | None:
        """The path that these names make in the file; None if no field is at its end."""
        fields = list(self.schema)
        for nth, step in enumerate(names):
            alike = [field for field in fields if field.name == step]
            if not alike:
                return None
            if len(alike) > 1:
                raise DamagedFile(f"it has {len(alike)} columns named {step}")
            if nth + 1 < len(names):
                if not pa.types.is_struct(alike[0].type):
                    return None
                fields = list(alike[0].type.fields)
        return tuple(names)

    @cached_property
    def extra(self) -> dict[str, _Path]:
        """The unknown fields, and where they are."""
        if self.decoder.unknown_fields == "ignore":
            return {}
        seen = {name.lower() for name in self.decoder.columns}
        leaves = dict(_leaves(self.schema))
        extra: dict[str, _Path] = {}
        for name in self.found.kinds:
            if name.lower() not in seen:
                seen.add(name.lower())
                extra[name] = leaves[name]
        return extra

    @cached_property
    def wider(self) -> dict[str, str]:
        """Lists and maps whose objects have unknown fields, and their types with these fields."""
        columns = self.decoder.columns
        return {
            name: kind
            for name, stored in self.found.lists.items()
            if self.decoder.unknown_fields == "keep" and is_nested(pinned := columns.get(name, ""))
            if (kind := with_fields_of(pinned, stored)) != pinned
        }

    @cached_property
    def read(self) -> list[str]:
        """The stored columns that are read, as Arrow names them."""
        return list(dict.fromkeys(map(".".join, self._every_path)))

    @cached_property
    def texts(self) -> list[str]:
        """Those of them that are texts, and not within objects."""
        texts = {field.name for field in self.schema if field.type in (pa.string(), pa.large_string())}
        return [name for name in self.read if name in texts]

    def decoded(self, rows: pa.Table) -> pa.Table:
        columns, stored = self.decoder.columns, {path: _at(rows, path) for path in self._every_path}
        decoded = {}
        for name, kind in columns.items():
            parts = [typed_column(stored[path], kind, path) for path in self._paths[name]]
            if not parts:
                parts = [pa.nulls(rows.num_rows, source_type(kind))]
            decoded[name] = parts[0] if len(parts) == 1 else pc.coalesce(*parts)
        odd = np.zeros(rows.num_rows, np.bool_)
        for column in (*stored.values(), *decoded.values()):
            odd |= ~valid_rows(column)
        extra = {name: stored[path] for name, path in self.extra.items()}
        corrupt: list[bytes | None] = [None] * rows.num_rows
        for nth in np.flatnonzero(odd).tolist():
            corrupt[nth] = misread_text(*self._whole(nth, decoded, extra))
        for name, path in self._whole_as_doubles:
            for nth in np.flatnonzero(changed_as_doubles(stored[path], decoded[name])).tolist():
                corrupt[nth] = self._refused(nth, {**decoded, name: stored[path]}, extra)
        kept = self._kept(odd, extra, stored) if self.decoder.unknown_fields != "ignore" else None
        if kept is not None and self.decoder.unknown_fields == "dead_letter":
            for nth in np.flatnonzero(np.asarray(kept.is_valid())).tolist():
                corrupt[nth] = self._refused(nth, decoded, extra)
        table = pa.table({name: without_bad_texts(decoded[name], odd) for name in columns})
        table = table.append_column(CORRUPT, pa.array(corrupt, pa.binary()))
        return table if kept is None else table.append_column(KEPT, kept)

    @cached_property
    def _whole_as_doubles(self) -> list[tuple[str, _Path]]:
        """The double columns that this file has as whole numbers."""
        kinds = {path: self.found.kinds.get(".".join(path)) for path in self._every_path}
        return [
            (name, path)
            for name, kind in self.decoder.columns.items()
            for path in self._paths[name]
            if kind == "double" and kinds[path] == "bigint"
        ]

    @cached_property
    def _every_path(self) -> list[_Path]:
        return list(
            dict.fromkeys([*(path for each in self._paths.values() for path in each), *self.extra.values()])
        )

    def _kept(self, odd: Flags, extra: Mapping[str, pa.Array], stored: Mapping[_Path, pa.Array]) -> pa.Array:
        """The unknown fields of each row that is not odd."""
        if not extra and not self.wider:
            return pa.nulls(len(odd), pa.string())
        columns = {name: stored_values(column) for name, column in extra.items()}
        shapes: dict[str, Shape] = {name: shape_of_type(column.type) for name, column in extra.items()}
        for name, kind in self.wider.items():
            shapes[name] = shape_of(kind)
            columns[name] = [
                shaped(each, shapes[name]) for each in stored_values(stored[self._paths[name][0]])
            ]
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return pa.array(kept_text(shapes, rows), pa.string(), mask=odd)

    def _whole(
        self, nth: int, decoded: Mapping[str, pa.Array], extra: Mapping[str, pa.Array]
    ) -> tuple[dict[str, Shape], dict[str, Any]]:
        """The shapes of all fields of a row, and the row."""
        columns = {name: column.slice(nth, 1) for name, column in {**decoded, **extra}.items()}
        shapes = {name: shape_of(kind) for name, kind in self.decoder.columns.items()}
        shapes |= {name: shape_of_type(column.type) for name, column in extra.items()}
        return shapes, next(stored_rows(pa.table(columns)))

    def _refused(self, nth: int, decoded: Mapping[str, pa.Array], extra: Mapping[str, pa.Array]) -> bytes:
        shapes, row = self._whole(nth, decoded, extra)
        return raw_text(JsonText().of(("struct", shapes))(row))


def _leaves(fields: Sequence[pa.Field], around: _Path = ()) -> Iterator[tuple[str, _Path]]:
    """The fields of a file with their dotted names, as in `parquet_columns`, and their paths."""
    for field in fields:
        path = (*around, field.name)
        yield ".".join(path), path
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type.fields, path)


def _at(rows: pa.Table, path: _Path) -> pa.Array:
    """The field at a path; null where an object on the path is null."""
    column = flat(rows.column(path[0]))
    for step in path[1:]:
        column = pc.struct_field(column, step)
    return column
