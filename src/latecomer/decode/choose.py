"""The decoder for what the pipeline file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latecomer.config.own import Decoder, Format
from latecomer.config.sources import Files
from latecomer.decode.base import FileDecoder, RecordDecoder
from latecomer.decode.csv import CsvFiles
from latecomer.decode.files import SourceFile
from latecomer.decode.json import JsonFiles, JsonRecords
from latecomer.decode.own import OwnLines, OwnRecords
from latecomer.decode.parquet import ParquetFiles


def file_decoder(
    settings: Files,
    columns: Mapping[str, str],
    folders: Callable[[SourceFile], Mapping[str, str | None]],
    with_metadata: bool,
) -> FileDecoder:
    """The decoder for files; `folders` tells what the folders of a file say of its columns."""
    match settings.format:
        case Decoder() as own:
            return OwnLines(settings, columns, OwnRecords(own))
        case "parquet":
            return ParquetFiles(columns)
        case "csv":
            return CsvFiles(settings, columns, folders, with_metadata)
    return JsonFiles(settings, columns)


def record_decoder(written: Format) -> RecordDecoder:
    """The decoder for records."""
    return OwnRecords(written) if isinstance(written, Decoder) else JsonRecords()
