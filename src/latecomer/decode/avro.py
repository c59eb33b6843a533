"""Avro, decoded by Spark: messages in Confluent's framing, and object files.

A message is a zero byte, the id of its schema in four bytes, and the payload. Each id has a column of its own, with
what `from_avro` makes of the messages of that id, and null for all others; the columns of the source choose among them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaPackage
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.avro_files import file_schema
from latecomer.config.checks import PRIVATE
from latecomer.config.damage import DamagedFile
from latecomer.config.models import Pipeline
from latecomer.config.sources import UnknownFields
from latecomer.decode.arrow_text import column_type
from latecomer.decode.avro_containers import AvroContainers
from latecomer.decode.avro_messages import AvroMessages
from latecomer.decode.base import FileDecoder, FileSplit, NewReader
from latecomer.decode.columns import CORRUPT, HEAD, KEPT, RECORD, SCHEMA_ID
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.frames import HEAD_SIZE, number_of
from latecomer.decode.framing import FramedRecords, head_of
from latecomer.decode.nested import changed_in, holds_in
from latecomer.decode.parquet import misread
from latecomer.decode.retrying import reading as reading_file
from latecomer.decode.unknown import as_json, kept_values
from latecomer.errors import MachineError
from latecomer.model.avro import (
    Bounded,
    Reading,
    Schema,
    SchemaError,
    Value,
    bounded,
    canonical_form,
    incompatibilities,
    parse_schema,
    reading,
)
from latecomer.model.avro.reading import MARK
from latecomer.model.types import is_decimal
from latecomer.model.unknown_fields import Known
from latecomer.spark.avro_depth import is_shallow
from latecomer.spark.avro_limits import limit_avro
from latecomer.spark.packages import avro_reader
from latecomer.store.schemas import WriterSchemas, reader_of
from latecomer.store.sql import quoted

ROWS_A_BYTE = 2048
"""Deflate packs a thousand bytes into one at best, and a row has one, unless it has no fields."""
_PARSED, _WHOLE = f"{PRIVATE}as_", f"{PRIVATE}whole"
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
_UUID = "regexp_replace(lower(hex({0})), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', '$1-$2-$3-$4-$5')"


def require_spark_avro(spark: SparkSession) -> None:
    """Refuse a session that has no Avro, and limit the lengths that a record may claim."""
    jvm: Any = spark._jvm
    limit_avro(spark)
    if isinstance(jvm.org.apache.spark.sql.avro.functions, JavaPackage):
        raise MachineError(
            f"this Spark session has no Avro; start it with {avro_reader().parts[0].coordinates} in "
            "spark.jars.packages, or leave the session to latecomer"
        )


@dataclass
class AvroRecords(FramedRecords):
    """Messages in Confluent's framing."""

    @cached_property
    def reader(self) -> Schema:
        return reader_of(self.pipeline)

    @cached_property
    def schemas(self) -> WriterSchemas:
        return WriterSchemas.of(self.pipeline)

    def in_tasks(self) -> AvroMessages:
        return AvroMessages(dict(self.schemas.known), self._unknown, reader=self.reader)

    def require_fast(self, columns: Mapping[str, str]) -> None:
        for kind in columns.values():
            column_type(kind)

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        require_spark_avro(records.sparkSession)
        readings = dict(self._readings())
        head = F.substring(RECORD, 1, HEAD_SIZE)
        parsed = {
            f"{_PARSED}{number}": self._parsed(records.sparkSession, number, writer, found)
            for number, (writer, found) in readings.items()
        }
        number = _case([(f"{HEAD} = {head_of(each)}", str(each)) for each in readings], "null")
        rows = records.withColumn(HEAD, head).withColumns({SCHEMA_ID: F.expr(number).cast("int"), **parsed})
        cases = [
            (f"{HEAD} = {head_of(number)}", f"{_PARSED}{number}", found)
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

    def _parsed(self, spark: SparkSession, number: int, writer: str, found: Reading) -> Column:
        """What is read of the messages of one id; null for those that Java cannot be handed."""
        payload = F.expr(f"substring({RECORD}, {HEAD_SIZE + 1})")
        is_its, ends = F.col(HEAD) == F.expr(head_of(number)), self._bounds[number]
        if ends.is_checked and ends.deepest is not None:
            is_its &= is_shallow(spark, payload, writer, ends.deepest)
        return F.when(is_its, _from_avro(payload, writer, found))

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def _refused(self, cases: Sequence[tuple[str, str, Reading]]) -> Column:
        """Whether a record has fields that make it a dead letter."""
        return _kept(cases).isNotNull() if self._unknown == "dead_letter" else F.lit(False)

    def _readings(self) -> Iterator[tuple[int, tuple[str, Reading]]]:
        for number in self.schemas.known:
            if (writer := self._bounded(number)) is not None:
                found = reading(self.reader, writer.schema, self._unknown != "ignore")
                yield number, (canonical_form(writer.schema), found)

    @cached_property
    def _bounds(self) -> dict[int, Bounded]:
        return {}

    def _bounded(self, number: int) -> Bounded | None:
        """The schema of a writer as Spark is handed it: one in which no message can be too deep for Java, or one of
        which messages are checked."""
        writer = self.schemas.known[number]
        if not isinstance(writer, Schema):
            return None
        if number not in self._bounds:
            self._bounds[number] = bounded(writer)
        return self._bounds[number]

    def unknown_names(self, raw: bytes, known: Known) -> list[str]:
        """The fields that the writer of a message had and that are no columns."""
        writer = self.schemas.known.get(number_of(raw))
        return list(reading(self.reader, writer, True).unknown) if isinstance(writer, Schema) else []

    def mistake(self, raw: bytes) -> str:
        """What is wrong with a message that could not be decoded."""
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        number, writer = number_of(raw), self.schemas.known[number_of(raw)]
        with contextlib.suppress(SchemaError):  # it takes too many steps to compare
            for problem in incompatibilities(self.reader, writer) if isinstance(writer, Schema) else ():
                return f"what schema {number} wrote cannot be read as the pipeline's schema: {problem}"
        damaged = f"the {len(raw) - HEAD_SIZE} bytes after its id are no whole record of schema {number}"
        most = self.in_tasks().depth_exceeded(number, raw[HEAD_SIZE:]) if isinstance(writer, Schema) else None
        return (
            damaged if most is None else f"it has more than {most} records of schema {number} in one another"
        )


def _kept(cases: Sequence[tuple[str, str, Reading]]) -> Column:
    """What is kept of a record's unknown fields: for each schema, when it is its, where it lies, and how it is read."""
    found = [F.when(F.expr(when), kept_values(_unknown(found, place))) for when, place, found in cases]
    return F.coalesce(*found, F.lit(None).cast("string"))


def _unknown(found: Reading, place: str = "") -> dict[str, str]:
    return {name: ".".join(map(quoted, (place, name) if place else (name,))) for name in found.unknown}


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


def value_sql(value: Value, kind: str, place: str = "", as_written: bool = False) -> str:
    """A column of this type, in SQL, from where it lies within what Spark has read: the column `place`, or the row.
    `as_written`, it is for people, and has all that was written, whether or not the column takes it."""
    at = _at(value, place)
    match value.given:
        case "json":
            return f"if({_json_fits(at)}, {as_json(at)}, cast({at} as string))" if as_written else as_json(at)
        case "list":
            if kind == "string":  # as it is in stores that were made before
                return as_json(at)
            change = _written_element_sql if as_written else _element_sql
            return at if value.kind == kind else changed_in(at, value.kind, kind, change)
        case "uuid":
            return _UUID.format(at)
        case "nanos" | "local_nanos":
            return _from_nanos(at, kind)
        case "millis_of_day":
            return f"cast({at} as bigint) * 1000L"
        case "union":
            texts = ", ".join(_text_sql(member, place) for member in value.members)
            return f"coalesce({texts}, cast(null as string))"
    return at if as_written else _cast_sql(at, value.kind, kind)


def _from_nanos(sql: str, kind: str) -> str:
    return f"cast(timestamp_micros(({sql} - pmod({sql}, 1000L)) div 1000L) as {kind})"


def _element_sql(sql: str, read: str, kind: str) -> str:
    """A value in a list or a map. A number that is wanted as a moment has nanoseconds."""
    if (read, kind) == ("bigint", "timestamp"):
        return _from_nanos(sql, kind)
    return _cast_sql(sql, read, kind)


def _written_element_sql(sql: str, read: str, kind: str) -> str:
    return sql if is_decimal(kind) else _element_sql(sql, read, kind)


def _cast_sql(sql: str, read: str, kind: str) -> str:
    if read == kind:
        return sql
    return f"cast(null as {kind})" if "binary" in (read, kind) else f"try_cast({sql} as {kind})"


def _text_sql(value: Value, place: str) -> str:
    """A value of a union as text."""
    if value.given == "list":
        return as_json(_at(value, place))
    sql = value_sql(value, value.kind, place)
    return f"base64({sql})" if value.kind == "binary" else f"cast({sql} as string)"


# Whether a column takes what was written


def _fits(found: Reading, columns: Mapping[str, str], place: str = "") -> list[str]:
    """What must hold of a record that was read: its texts are in UTF-8, and its numbers such as their columns take."""
    values = {name: found.values[name] for name in columns if name in found.values}
    told = [each for name, value in values.items() for each in _value_fits(value, columns[name], place)]
    return [*told, *map(_json_fits, _unknown(found, place).values())]


def _value_fits(value: Value, kind: str, place: str) -> list[str]:
    at = _at(value, place)
    match value.given:
        case "union":
            return [each for member in value.members for each in _value_fits(member, member.kind, place)]
        case "list" if kind != "string":
            return [each for each in [holds_in(at, value.kind, kind, _element_fits)] if each]
        case "list" | "json":
            return [_json_fits(at)]
        case "plain":
            return [each for each in [_element_fits(at, value.kind, kind)] if each]
    return []


def _element_fits(sql: str, read: str, kind: str) -> str:
    if kind == "string":
        return f"coalesce(is_valid_utf8({sql}), true)"
    if read == kind or not (is_decimal(read) or is_decimal(kind)):
        return ""
    if "binary" in (read, kind):  # more digits than a decimal has in Spark
        return f"{sql} is null"
    return f"({sql} is null or coalesce(try_cast({sql} as {kind}) = {sql}, false))"


def _json_fits(sql: str) -> str:
    """Whether all texts in a value are UTF-8. JSON has U+FFFD for what is not; a plain text keeps the bytes."""
    whole = f"coalesce(is_valid_utf8(cast({sql} as string)), true)"
    return f"(not coalesce(contains({as_json(f'struct({sql})')}, '\ufffd'), false) or {whole})"


def _fine(found: Reading, columns: Mapping[str, str], place: str) -> str:
    """Whether a record was read, all of it, and its columns take it."""
    return " and ".join([f"coalesce({quoted(place)}.{MARK}, false)", *_fits(found, columns, place)])


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
                part = read.select(
                    *(F.expr(sql).alias(name) for name, sql in self._values(found).items()),
                    F.expr(self._misread(found)).alias(CORRUPT),
                    *([kept_values(_unknown(found)).alias(KEPT)] if self._unknown != "ignore" else []),
                )
                parts.append(self._with_refused(part))
        return parts

    def _values(self, found: Reading, as_written: bool = False) -> dict[str, str]:
        return {
            name: value_sql(found.values[name], kind, as_written=as_written)
            if name in found.values
            else f"cast(null as {kind})"
            for name, kind in self.columns.items()
        }

    def _misread(self, found: Reading) -> str:
        """A row that its columns do not take, as JSON, with all digits and bytes that it has, and with the fields that
        are no columns; else null."""
        unknown = _unknown(found)
        values = {**self._values(found, as_written=True), **unknown}
        return misread({**self.columns, **dict.fromkeys(unknown, "")}, _fits(found, self.columns), values)

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def _with_refused(self, part: DataFrame) -> DataFrame:
        if self._unknown == "ignore":
            return part
        found = part.withColumn(KEPT, F.when(F.col(CORRUPT).isNull(), F.col(KEPT)))
        if self._unknown == "keep":
            return found
        columns = ", ".join(map(quoted, self.columns))
        whole = F.expr(f"to_json(struct({columns}), map('ignoreNullFields', 'false'))")
        both = F.expr(f"concat(substring({_WHOLE}, 1, length({_WHOLE}) - 1), ',', substring({KEPT}, 2))")
        refused = F.coalesce(CORRUPT, F.when(F.col(KEPT).isNotNull(), both))
        return found.withColumn(_WHOLE, whole).withColumn(CORRUPT, refused).drop(_WHOLE)

    def in_tasks(self) -> AvroContainers:
        """What decodes files in a task."""
        return AvroContainers(self.reader, self.columns, self._unknown)

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        return self.in_tasks().splits(file, size)

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        return self.in_tasks().decode(split)

    @property
    def rows_a_byte(self) -> int:
        return ROWS_A_BYTE


@lru_cache(maxsize=4096)
def _schema_of(file: SourceFile) -> Schema:
    return parse_schema(file_schema(file.local))


def forget_avro_files() -> None:
    _schema_of.cache_clear()
