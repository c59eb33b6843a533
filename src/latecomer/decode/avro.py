"""Avro, decoded by Spark: messages in Confluent's framing, and object files.

A message is a zero byte, the id of its schema in four bytes, and the payload. Each id has a column of its own, with
what `from_avro` makes of the messages of that id, and null for all others; the columns of the source choose among them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.avro import Avro
from latecomer.config.avro_files import file_schema
from latecomer.config.checks import PRIVATE
from latecomer.config.damage import DamagedFile
from latecomer.config.models import Pipeline
from latecomer.config.sources import UnknownFields
from latecomer.decode.base import CORRUPT, KEPT, RECORD, SCHEMA_ID, FileDecoder, NewReader, RecordDecoder
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.parquet import not_text
from latecomer.decode.retrying import reading as reading_file
from latecomer.decode.unknown import kept_values
from latecomer.errors import MachineError
from latecomer.model.avro import (
    Reading,
    Schema,
    SchemaError,
    Value,
    canonical_form,
    incompatibilities,
    parse_schema,
    reading,
)
from latecomer.model.avro.reading import MARK
from latecomer.model.types import is_decimal
from latecomer.spark.packages import avro_reader
from latecomer.store.schemas import WriterSchemas, not_known, reader_of
from latecomer.store.sql import quoted

HEAD = 5
"""Bytes before the payload."""
LARGEST_ID = 2**31 - 1
ROWS_A_BYTE = 2048
"""Deflate packs a thousand bytes into one at best, and a row has one, unless it has no fields."""
_HEAD, _PARSED, _WHOLE = f"{PRIVATE}head", f"{PRIVATE}as_", f"{PRIVATE}whole"
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
_LIMITS = {
    "org.apache.avro.limits.string.maxLength": 64 << 20,
    "org.apache.avro.limits.bytes.maxLength": 64 << 20,
    "org.apache.avro.limits.collectionItems.maxLength": 4 << 20,
}
"""Java's own names for its limits, in bytes and items. It reads them once, with the first record."""
_UUID = "regexp_replace(lower(hex({0})), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', '$1-$2-$3-$4-$5')"


def require_spark_avro(spark: SparkSession) -> None:
    """Refuse a session that has no Avro. Have it refuse lengths that no record has: a damaged one may claim any, and
    Java would make room for it first."""
    jvm: Any = spark._jvm
    for name, most in _LIMITS.items():
        if jvm.java.lang.System.getProperty(name) is None:
            jvm.java.lang.System.setProperty(name, str(most))
    if isinstance(jvm.org.apache.spark.sql.avro.functions, JavaPackage):
        raise MachineError(
            f"this Spark session has no Avro; start it with {avro_reader().parts[0].coordinates} in "
            "spark.jars.packages, or leave the session to latecomer"
        )


def head_of(number: int) -> str:
    """What the messages of an id begin with, in SQL.

    >>> head_of(7)
    "X'0000000007'"
    """
    return f"X'{number:010X}'"


@dataclass
class AvroRecords(RecordDecoder):
    """Messages in Confluent's framing."""

    pipeline: Pipeline
    _missing: set[int] = field(default_factory=set)
    """Ids that could not be had when they were asked for."""

    @cached_property
    def reader(self) -> Schema:
        return reader_of(self.pipeline)

    @cached_property
    def schemas(self) -> WriterSchemas:
        return WriterSchemas.of(self.pipeline)

    @cached_property
    def _settings(self) -> Avro:
        return self.schemas.avro

    @property
    def knows_nothing(self) -> bool:
        return not self.schemas.known

    def prepare(self) -> bool:
        return self._have(sorted(self._missing), wait=True)

    def learn(self, records: DataFrame, wait: bool = True) -> bool:
        head = F.substring(RECORD, 1, HEAD)
        unknown = records.where(self.unknown(F.col(RECORD))).select(head.alias(_HEAD)).distinct()
        heads = (row[_HEAD] for row in unknown.toArrow().to_pylist())
        return self._have(sorted(int.from_bytes(each[1:], "big") for each in heads), wait)

    def _have(self, numbers: Sequence[int], wait: bool) -> bool:
        self._missing = set(numbers) if wait else set()
        self.schemas.learn(numbers, wait and self._settings.unknown_id == "wait")
        self._missing = set()
        return bool(numbers)

    def unknown(self, record: Column) -> Column:
        """Whether a record has an id that is not known yet."""
        head = F.substring(record, 1, HEAD)
        known = [F.expr(head_of(number)) for number in self.schemas.known]
        return _is_framed(record) & (~head.isin(*known) if known else F.lit(True))

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        require_spark_avro(records.sparkSession)
        readings = dict(self._readings())
        payload, head = F.expr(f"substring({RECORD}, {HEAD + 1})"), F.substring(RECORD, 1, HEAD)
        parsed = {
            f"{_PARSED}{number}": F.when(
                F.col(_HEAD) == F.expr(head_of(number)), _from_avro(payload, writer, found)
            )
            for number, (writer, found) in readings.items()
        }
        number = _case([(f"{_HEAD} = {head_of(each)}", str(each)) for each in readings], "null")
        rows = records.withColumn(_HEAD, head).withColumns({SCHEMA_ID: F.expr(number).cast("int"), **parsed})
        cases = [
            (f"{_HEAD} = {head_of(number)}", f"{_PARSED}{number}", found)
            for number, (_, found) in readings.items()
        ]
        fine = _case([(when, _fine(found, columns, place)) for when, place, found in cases], "false")
        others = [quoted(name) for name in records.columns if name != RECORD]
        return rows.select(
            *(
                F.expr(
                    _case(
                        [(when, value_sql(found.values[name], kind, place)) for when, place, found in cases],
                        f"cast(null as {kind})",
                    )
                ).alias(name)
                for name, kind in columns.items()
            ),
            F.when(~F.expr(fine) | self._refused(cases), F.col(RECORD).cast("string")).alias(CORRUPT),
            SCHEMA_ID,
            *([F.when(F.expr(fine), _kept(cases)).alias(KEPT)] if self._unknown != "ignore" else []),
            *others,
        )

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def _refused(self, cases: Sequence[tuple[str, str, Reading]]) -> Column:
        """Whether a record has fields that make it a dead letter."""
        return _kept(cases).isNotNull() if self._unknown == "dead_letter" else F.lit(False)

    def _readings(self) -> Iterator[tuple[int, tuple[str, Reading]]]:
        for number, writer in self.schemas.known.items():
            if isinstance(writer, Schema):
                found = reading(self.reader, writer, self._unknown != "ignore")
                yield number, (canonical_form(writer), found)

    def unknown_names(self, raw: bytes) -> list[str]:
        """The fields that the writer of a message had and that are no columns."""
        writer = self.schemas.known.get(int.from_bytes(raw[1:HEAD], "big"))
        return list(reading(self.reader, writer, True).unknown) if isinstance(writer, Schema) else []

    def mistake(self, raw: bytes) -> str:
        """What is wrong with a message that could not be decoded."""
        if raw[:1] != b"\0":
            begins = f"its first byte is 0x{raw[0]:02X}" if raw else "it has no bytes"
            return f"{begins}, and Confluent's framing begins with 0x00"
        if len(raw) < HEAD:
            return f"it has {len(raw)} bytes, and the framing alone has {HEAD}"
        number = int.from_bytes(raw[1:HEAD], "big")
        if not 1 <= number <= LARGEST_ID:
            return f"{number} is no id that a registry gives a schema"
        writer = self.schemas.known.get(number)
        if writer is None:
            return not_known(number)
        if isinstance(writer, str):
            return writer
        with contextlib.suppress(SchemaError):  # it takes too many steps to compare
            for problem in incompatibilities(self.reader, writer):
                return f"what schema {number} wrote cannot be read as the pipeline's schema: {problem}"
        return f"the {len(raw) - HEAD} bytes after its id are no whole record of schema {number}"


def _kept(cases: Sequence[tuple[str, str, Reading]]) -> Column:
    """What is kept of a record's unknown fields: for each schema, when it is its, where it lies, and how it is read."""
    found = [F.when(F.expr(when), kept_values(_unknown(found, place))) for when, place, found in cases]
    return F.coalesce(*found, F.lit(None).cast("string"))


def _unknown(found: Reading, place: str = "") -> dict[str, str]:
    return {name: ".".join(map(quoted, (place, name) if place else (name,))) for name in found.unknown}


def _is_framed(record: Column) -> Column:
    """Whether a record begins with a zero byte and an id that a registry may have given."""
    lowest, beyond = F.expr(head_of(1)), F.expr("X'0080'")
    return (F.length(record) >= HEAD) & (record >= lowest) & (record < beyond)


def _from_avro(payload: Column, writer: str, found: Reading) -> Column:
    from pyspark.sql.avro.functions import from_avro

    return from_avro(payload, writer, {**_OPTIONS, "avroSchema": found.text})


def _case(branches: Sequence[tuple[str, str]], otherwise: str) -> str:
    if not branches:
        return otherwise
    said = " ".join(f"when {when} then {value}" for when, value in branches)
    return f"case {said} else {otherwise} end"


def _at(value: Value, place: str) -> str:
    return ".".join(map(quoted, ((place, *value.way) if place else value.way)))


def value_sql(value: Value, kind: str, place: str = "") -> str:
    """A column of this type, in SQL, from where it lies within what Spark has read: the column `place`, or the row."""
    at = _at(value, place)
    match value.given:
        case "json":
            return f"to_json({at})"
        case "uuid":
            return _UUID.format(at)
        case "nanos" | "local_nanos":
            return f"cast(timestamp_micros(({at} - pmod({at}, 1000L)) div 1000L) as {kind})"
        case "millis_of_day":
            return f"cast({at} as bigint) * 1000L"
        case "union":
            texts = ", ".join(_text_sql(member, place) for member in value.members)
            return f"coalesce({texts}, cast(null as string))"
    return at if value.kind == kind else f"try_cast({at} as {kind})"


def _text_sql(value: Value, place: str) -> str:
    sql = value_sql(value, value.kind, place)
    return f"base64({sql})" if value.kind == "binary" else f"cast({sql} as string)"


def _fine(found: Reading, columns: Mapping[str, str], place: str) -> str:
    """Whether a record was read: all of it, its texts in UTF-8, and its numbers such as their columns take."""
    told = [f"coalesce({quoted(place)}.{MARK}, false)"]
    for name, kind in columns.items():
        value = found.values[name]
        at = _at(value, place)
        if value.given == "plain" and kind == "string":
            told.append(f"coalesce(is_valid_utf8({at}), true)")
        elif is_decimal(kind) and value.kind != kind:
            told.append(f"({at} is null or coalesce(try_cast({at} as {kind}) = {at}, false))")
    return " and ".join(told)


@dataclass(frozen=True)
class AvroFiles(FileDecoder):
    """Object files, each with the schema that it was written with."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    """Under the names that the source has for them."""

    @cached_property
    def reader(self) -> Schema:
        return reader_of(self.pipeline)

    def misfit(self, file: SourceFile) -> str | None:
        try:
            with reading_file(file.local):
                writer = _schema_of(file)
            for problem in incompatibilities(self.reader, writer):
                return f"what its schema wrote cannot be read as the pipeline's schema: {problem}"
        except (DamagedFile, SchemaError) as error:
            return f"not a readable Avro file: {error}"
        return None

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """Files grouped by the schema that they were written with."""
        parts = []
        require_spark_avro(reader()._spark)
        for writer, group in grouped(files, _schema_of).items():
            found = reading(self.reader, writer, self._unknown != "ignore")
            options = {"avroSchema": found.text, "datetimeRebaseMode": "CORRECTED", "ignoreExtension": "true"}
            for paths in together(group):
                read = reader().format("avro").options(**options).load(list(paths))
                values = {name: found.values[name] for name in self.columns if name in found.values}
                missing = [name for name in self.columns if name not in values]
                part = read.select(
                    *(
                        F.expr(value_sql(value, self.columns[name])).alias(name)
                        for name, value in values.items()
                    ),
                    *(F.lit(None).cast(self.columns[name]).alias(name) for name in missing),
                    *([kept_values(_unknown(found)).alias(KEPT)] if self._unknown != "ignore" else []),
                )
                parts.append(self._with_corrupt(part))
        return parts

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def _with_corrupt(self, part: DataFrame) -> DataFrame:
        corrupt = F.expr(not_text(self.columns))
        if self._unknown == "ignore":
            return part.withColumn(CORRUPT, corrupt)
        found = part.withColumn(CORRUPT, corrupt)
        found = found.withColumn(KEPT, F.when(F.col(CORRUPT).isNull(), F.col(KEPT)))
        if self._unknown == "keep":
            return found
        columns = ", ".join(map(quoted, self.columns))
        whole = F.expr(f"to_json(struct({columns}), map('ignoreNullFields', 'false'))")
        both = F.expr(f"concat(substring({_WHOLE}, 1, length({_WHOLE}) - 1), ',', substring({KEPT}, 2))")
        refused = F.coalesce(CORRUPT, F.when(F.col(KEPT).isNotNull(), both))
        return found.withColumn(_WHOLE, whole).withColumn(CORRUPT, refused).drop(_WHOLE)

    @property
    def rows_a_byte(self) -> int:
        return ROWS_A_BYTE


@lru_cache(maxsize=4096)
def _schema_of(file: SourceFile) -> Schema:
    return parse_schema(file_schema(file.local))


def forget_avro_files() -> None:
    _schema_of.cache_clear()
