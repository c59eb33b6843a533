"""What a decoder is: it turns what a source holds into typed columns, and says what it could not read.

A record is the bytes of one event: a line of a file, a message of a topic. Every decoder takes records. Those that know
a reader of Spark's own for whole files are faster with it (`FileDecoder`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from latecomer.decode.columns import CORRUPT
from latecomer.decode.files import SourceFile
from latecomer.decode.limits import LongLine
from latecomer.fast import Declined
from latecomer.store.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader

NewReader: TypeAlias = "Callable[[], DataFrameReader]"
"""Makes a reader: whatever is set on one stays set on it."""
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def other_columns(found: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The columns that are missing or of another type: what there is instead, the name, and the type that it should
    have."""
    for name, kind in wanted.items():
        if found.get(name) != kind:
            yield f"{name} is {found[name]}" if name in found else f"there is no {name}", name, kind


class RecordDecoder(ABC):  # noqa: B024 (until the readers of Spark are gone)
    """Decodes records, in a task: it can be pickled."""

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """One row a record, in their order: the columns, and CORRUPT; KEPT, INVALID and SCHEMA_ID where the decoder
        knows them."""
        raise NotImplementedError

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        """The columns instead of RECORD, and CORRUPT; SCHEMA_ID where a record says it; whatever else the records have
        stays."""
        raise NotImplementedError

    def unknown(self, record: Column) -> Column | None:
        """Whether something has to be learned before a record can be decoded; None if that is never so."""
        return None

    @property
    def knows_nothing(self) -> bool:
        """Whether no record could be decoded before something is learned."""
        return False

    def prepare(self) -> bool:
        """Learn what was not to be had when it was asked for last, if anything; `SchemaOutage` while it is not."""
        return False

    def learn(self, records: DataFrame, wait: bool = True) -> bool:
        """Learn what the unknown ones of these records need, if anything; `SchemaOutage` while it cannot be had. Unless
        they are to `wait`, those of which nothing is known anywhere are corrupt."""
        return False

    def require_fast(self, columns: Mapping[str, str]) -> None:
        """`Declined` where Spark has to decode such records, whatever they hold."""
        raise Declined("records that only Spark decodes")

    def load(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """The columns of some records in this process, and SCHEMA_ID where a record says it; `Declined` where Spark has
        to decode them. What has to be learned is learned: `SchemaOutage` while it cannot be."""
        self.require_fast(columns)
        raise NotImplementedError


@dataclass(frozen=True)
class FileSplit:
    """A part of a file that one task reads. What is counted, its decoder says."""

    file: SourceFile
    start: int = 0
    end: int | None = None


class FileDecoder(ABC):
    """Decodes whole files of one format."""

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        """The parts of a file, in its order: of so many bytes, about."""
        return [FileSplit(file)]

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        """The rows of a part, a chunk at a time: the columns, CORRUPT and POSITION; KEPT where unknown fields are
        looked for. `DamagedFile` where the file cannot be read to the end: then none of its rows counts."""
        raise NotImplementedError

    @abstractmethod
    def misfit(self, file: SourceFile) -> str | None:
        """Why Spark could not read a file, as far as that can be seen before it tries."""

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """The rows of files: the source's columns and CORRUPT. With `by_line` the bytes of every row are at hand."""
        raise NotImplementedError

    def doubt(self, part: DataFrame) -> Column | None:
        """Whether the bytes of a row are needed after all, which Spark's readers do not keep."""
        return None

    def value(self, column: str, by_line: bool) -> str:
        """A column of a part in its own type, in SQL."""
        return quoted(column)

    def long_lines(self, file: SourceFile) -> tuple[LongLine, ...]:
        """The lines that are longer than the pipeline allows; `DamagedFile` if it cannot be told."""
        return ()

    def require_fast(self) -> None:
        """`Declined` where Spark has to read files of this format, whatever they hold."""
        raise Declined("files that only Spark reads")

    def load(self, file: SourceFile) -> pa.Table:
        """The source's columns in this process, where every row can be read; `Declined` where Spark has to read it."""
        self.require_fast()
        raise NotImplementedError

    def needs_lines(self, files: Sequence[SourceFile]) -> bool:
        """Whether files have to be read `by_line`: Spark's own reader of this format would not tell all of them."""
        return False

    @property
    def rows_a_byte(self) -> int:
        """How many rows a byte of a file may hold, at most, where Spark reads files in pieces."""
        return 1

    @property
    def numbers_rows(self) -> bool:
        """Whether the files themselves say which row of theirs is which."""
        return False
