"""Makes the decoder that the pipeline file describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from latecomer.config.models import Pipeline
from latecomer.config.registered import Avro, Protobuf, Registered, RegisteredJson
from latecomer.config.user_classes import Decoder
from latecomer.schemas.packages import protobuf_model
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.avro_messages import AvroMessages
from latecomer.source.decode.base import FileDecoder, RecordDecoder, SourceFile
from latecomer.source.decode.checked_messages import CheckedMessages
from latecomer.source.decode.csv import CsvFiles
from latecomer.source.decode.framing import FramedDecoder, FramedRecords
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.own import OwnLines, OwnRecords
from latecomer.source.decode.parquet_reading import ParquetReading
from latecomer.source.decode.text import JsonFiles
from latecomer.store.schemas import reader_of, reading_of


def file_decoder(
    pipeline: Pipeline,
    columns: Mapping[str, str],
    folders: Callable[[SourceFile], Mapping[str, str | None]],
) -> FileDecoder:
    """The decoder for files; `folders` returns the column values in the folder names of a file."""
    source = pipeline.source
    unknown, numbers = source.unknown_fields, source.numbers
    if pipeline.format == "parquet":
        return ParquetReading(columns, unknown)
    settings = pipeline.files
    match settings.format:
        case Avro():
            return AvroContainers(reader_of(pipeline), columns, unknown)
        case Decoder() as own:
            return OwnLines(settings, columns, OwnRecords(own))
        case "csv":
            return CsvFiles(settings, columns, folders, unknown_fields=unknown, numbers=numbers)
    return JsonFiles(settings, columns, unknown_fields=unknown, numbers=numbers)


def record_decoder(pipeline: Pipeline) -> RecordDecoder:
    """The decoder for records."""
    match pipeline.format:
        case Registered():
            return framed_decoder(pipeline)
        case Decoder() as own:
            return OwnRecords(own)
    return JsonRecords(pipeline.source.unknown_fields, numbers=pipeline.source.numbers)


def framed_decoder(pipeline: Pipeline) -> FramedRecords:
    """The decoder for records that name their schema."""
    return FramedRecords(
        pipeline, partial(_in_tasks(pipeline), unknown_fields=pipeline.source.unknown_fields)
    )


def _in_tasks(pipeline: Pipeline) -> Callable[..., FramedDecoder]:
    """Makes the decoder in tasks, but for what they have in common."""
    match pipeline.format:
        case Avro():
            return partial(AvroMessages, reader=reader_of(pipeline))
        case Protobuf():
            protobuf_model()
            from latecomer.source.decode.protobuf_messages import ProtobufMessages  # its package is optional

            reading = reading_of(pipeline)
            return partial(ProtobufMessages, reader=reading.schema, message=reading.message)
        case RegisteredJson(validates=validates, id_header=id_header):
            return partial(CheckedMessages, validates=validates, id_header=id_header)
    raise TypeError(pipeline.format)
