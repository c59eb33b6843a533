"""Which dead letters are replayed, and the record of each to decode again. The arguments come from the command line or
from Python; corrected texts are JSON, one object for each letter."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.config.arguments import path_of
from latecomer.config.damaged_files import DamagedFile
from latecomer.config.registered import Avro
from latecomer.config.user_classes import Decoder
from latecomer.errors import PipelineError, Problem, SourceError, did_you_mean
from latecomer.model.dead_letters import (
    DELIVER_AGAIN,
    INVALID_RECORD,
    REST,
    TOMBSTONE,
    TOO_LONG,
    UNKNOWN_FIELDS,
    UNREADABLE,
    UNREADABLE_FILE,
)
from latecomer.model.sources import split_partition
from latecomer.source.choose import source_of
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.csv import CsvFiles
from latecomer.source.file_source import FileSource
from latecomer.source.fixes import Fix, check_expression, check_on_spark
from latecomer.source.found_files import FoundFiles
from latecomer.source.private_columns import NUMBER, ORIGIN
from latecomer.source.repaired import JSON, LETTERS, Form
from latecomer.store.files import Location, url, write_table
from latecomer.store.layout import DEAD_LETTERS, arrow_type
from latecomer.store.repairs import FILED_AS, standing_letters
from latecomer.store.store import Store

Place = tuple[int, str, int]
"""Batch, origin and position, as `latecomer dead-letters` shows them."""
Texts = Mapping[Place, str]
_OF_A_FILE = {
    UNREADABLE_FILE: f"a whole file; {DELIVER_AGAIN}",
    REST: "the rest of a file; correct that, and deliver it under another name",
}
WITHOUT_RECORD = (*_OF_A_FILE, TOO_LONG, TOMBSTONE)
"""The reasons of dead letters that lack the whole record."""
COLUMNS = {name: "string" for name in DEAD_LETTERS.names if name != "raw_bytes"} | {
    "batch": "bigint",
    "position": "bigint",
    "event_time": "timestamp",
    "arrival_time": "timestamp",
}
"""The columns that a condition on dead letters, or an expression for their text, can name."""
COLUMN = "column:"
KEYS = {
    "format": "how the event time is written, a pattern such as dd/MM/yyyy HH:mm:ss",
    "unit": "the unit of an event time that is a number: s, ms, us or ns",
    "column:NAME": "SQL for a column, over the record's columns, each of them text",
    "raw": "SQL for the corrected text of the record, over the columns of the dead letter",
    "text": "a file of corrected texts",
}
"""The keys of a fix."""
_TEXTS_FIX = (
    "give objects with batch, origin and position, as latecomer dead-letters FILE -f json prints them, and the "
    "corrected text in raw"
)


@dataclass(frozen=True)
class Choice:
    """Which dead letters to replay, and their corrected texts."""

    where: str | None = None
    raw: str | None = None
    """An SQL expression for the corrected text."""
    texts: Texts | None = None
    """Corrected texts; then only these letters are replayed."""
    source: str | None = None
    """The source of the letters, where there are several."""

    def check(self) -> None:
        """Refuse expressions that Spark may not be given."""
        for option, written in (("where", self.where), ("raw", self.raw)):
            if written is not None:
                check_expression(option, written, COLUMNS)

    def check_on(self, spark: SparkSession) -> None:
        """Refuse expressions that Spark cannot evaluate."""
        kinds = pa.schema([(name, arrow_type(kind)) for name, kind in COLUMNS.items()])
        rows = spark.createDataFrame(kinds.empty_table())
        for option, written, kind in (("where", self.where, "boolean"), ("raw", self.raw, "string")):
            if written is not None:
                check_on_spark(option, written, rows, kind)


@dataclass(frozen=True)
class Picked:
    """The dead letters to replay: as the table has them, and their corrected texts."""

    letters: pa.Table
    texts: Sequence[str | None]

    @property
    def places(self) -> list[Place]:
        names = ("batch", "origin", "position")
        return list(zip(*(self.letters[name].to_pylist() for name in names), strict=True))


def chosen_source(store: Store, choice: Choice) -> str:
    """The source whose dead letters to replay; each source has its own columns and format."""
    sources = store.pipeline.sources
    if choice.source is not None and choice.source not in sources:
        fix = did_you_mean(choice.source, sources) if sources else "leave it out: there is one source"
        raise _refused("source", "the pipeline has no such source", choice.source, fix)
    if choice.source is not None or not sources:
        return choice.source or ""
    with_letters = sorted({*_sources_of(store, standing_letters(store))})
    if len(with_letters) > 1:
        fix = f"choose one, such as {with_letters[0]}"
        raise _refused("source", f"there are dead letters of {' and '.join(with_letters)}", None, fix)
    return with_letters[0] if with_letters else next(iter(sources))


def _sources_of(store: Store, letters: pa.Table) -> list[str]:
    return [store.pipeline.source_of(partition) for partition in letters["source_partition"].to_pylist()]


def picked(store: Store, choice: Choice, source: str, spark: SparkSession, folder: Location) -> Picked:
    """The chosen dead letters of a source. Spark reads them from a file in `folder`."""
    letters = standing_letters(store)
    if source:
        of_source = [each == source for each in _sources_of(store, letters)]
        letters = letters.filter(pa.array(of_source, pa.bool_()))
    if choice.texts is not None:
        _require_known(store, choice.texts)
        corrected = [place in choice.texts for place in Picked(letters, ()).places]
        letters = letters.filter(pa.array(corrected, pa.bool_()))
    texts: list[str | None] = [None] * letters.num_rows
    if letters.num_rows and (choice.where is not None or choice.raw is not None):
        kept, texts = _evaluated(choice, letters, spark, folder)
        letters = letters.take(pa.array(kept, pa.int64()))
    chosen = Picked(letters, texts)
    if choice.texts is None:
        return chosen
    if twice := [place for place, count in Counter(chosen.places).items() if count > 1]:
        fix = "tell them apart with where: reason = …"
        raise _refused("text", "names two dead letters in one place", twice[0], fix)
    return Picked(letters, [choice.texts[place] for place in chosen.places])


def _evaluated(
    choice: Choice, letters: pa.Table, spark: SparkSession, folder: Location
) -> tuple[list[int], list[str | None]]:
    """The rows that the condition keeps, and their texts as the expression makes them."""
    numbered = letters.select([*COLUMNS]).append_column(NUMBER, pa.array(range(letters.num_rows), pa.int64()))
    rows = spark.read.parquet(url(write_table(numbered, folder / "chosen.parquet")))
    kept = rows.where(F.expr(choice.where or "true"))
    made = F.expr(choice.raw or "cast(null as string)").alias("made")
    numbered_texts = sorted(kept.select(NUMBER, made).toArrow().to_pylist(), key=lambda row: row[NUMBER])
    return [row[NUMBER] for row in numbered_texts], [row["made"] for row in numbered_texts]


def _require_known(store: Store, texts: Texts) -> None:
    """Refuse a text for what was never a dead letter. A text for a letter that is repaired already has no effect."""
    rows = store.dead_letters.query_rows("select batch, origin, position from t")
    known = {tuple(row.values()) for row in rows}
    for place in texts:
        if place not in known:
            batch, origin, position = place
            message = f"there is no dead letter of batch {batch} at position {position} of {origin}"
            fix = "name them as latecomer dead-letters FILE -f json prints them"
            raise _refused("text", message, None, fix)


@dataclass(frozen=True)
class Records:
    """The records of dead letters to decode: rows of LETTERS, their forms, and the letters that have no record."""

    rows: pa.Table
    forms: Sequence[Form]
    lost: dict[int, str]
    """Letters without a record: number → what can be done about it."""


def records_of(store: Store, source: str, picked: Picked) -> Records:
    """The records of the letters that can be decoded."""
    forms = _Forms(store, source)
    rows, lost = [], {}
    for number, (letter, text) in enumerate(zip(picked.letters.to_pylist(), picked.texts, strict=True)):
        record = forms.record(letter, text)
        if isinstance(record, str):
            lost[number] = record
            continue
        form, folders, content = record
        partition = letter["source_partition"]
        if source:
            partition = split_partition(partition)[1] or None
        place = forms.origin(letter["origin"]), letter["position"], partition, letter["arrival_time"]
        rows.append((number, *place, form, list(folders.items()), content))
    columns = list(zip(*rows, strict=True)) or [() for _ in LETTERS]
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, LETTERS, strict=True)], schema=LETTERS
    )
    return Records(table, forms.all, lost)


class _Forms:
    """The forms of records, each once, and the headers of files."""

    def __init__(self, store: Store, name: str) -> None:
        self.pipeline = store.pipeline.views[name]
        source = source_of(self.pipeline, store.columns.read_from(name), name)
        self.files = source if isinstance(source, FoundFiles) else None
        self.all: list[Form] = [JSON]
        self.headers: dict[str, tuple[str, ...] | str] = {}

    def record(self, letter: dict[str, Any], text: str | None) -> tuple[int, dict[str, str], bytes] | str:
        """The form of the record, the columns from the folders of its file, and its bytes; or why there is none."""
        filed_as = letter[FILED_AS]
        if filed_as in _OF_A_FILE:
            return f"it stands for {_OF_A_FILE[filed_as]}"
        if filed_as in WITHOUT_RECORD and text is None:
            return f"{letter['detail'] or 'not all of the record is kept'}; give a corrected text"
        content = (letter["raw"] or "").encode() if letter["raw_bytes"] is None else letter["raw_bytes"]
        if text is not None:
            content = text.encode()
        # What could be parsed is kept as JSON, and a correction may be JSON too.
        as_json = (
            filed_as not in (UNREADABLE, INVALID_RECORD, UNKNOWN_FIELDS)
            if text is None
            else text.lstrip().startswith("{")
        )
        form = self._form(letter["origin"], as_json)
        if isinstance(form, str):
            return form
        folders = (
            self._folders(letter["origin"]) if filed_as in (UNREADABLE, TOO_LONG, UNKNOWN_FIELDS) else {}
        )
        if form not in self.all:
            self.all.append(form)
        return self.all.index(form), folders, content

    def _form(self, origin: str, as_json: bool) -> Form | str:
        of_files = not self.pipeline.source.has_records and isinstance(self.pipeline.format, Avro)
        if as_json or of_files or self.pipeline.format in ("json", "parquet"):
            return JSON
        if isinstance(self.pipeline.format, Decoder):
            return Form("own")
        header = self._header(origin)
        return header if isinstance(header, str) else Form("csv", header)

    def _header(self, origin: str) -> tuple[str, ...] | str:
        if origin in self.headers:
            return self.headers[origin]
        decoder = self.files.decoder if isinstance(self.files, FileSource) else None
        assert isinstance(decoder, CsvFiles)  # noqa: S101
        self.headers[origin] = (
            "the header of its file cannot be read any more; give a corrected text, as JSON"
        )
        for path in dict.fromkeys((origin, unquote(origin))):
            with suppress(SourceError, DamagedFile, OSError):
                self.headers[origin] = decoder.header(SourceFile(path, 0, 0))
                break
        return self.headers[origin]

    def origin(self, of_letter: str) -> str:
        """The origin of a letter as events have it: of a file, the path below the folder of the source."""
        if self.files is None:
            return of_letter
        return self.files.where(SourceFile(unquote(of_letter), 0, 0))[ORIGIN]

    def _folders(self, origin: str) -> dict[str, str]:
        if self.files is None:
            return {}
        values = self.files.path.folder_values(str(SourceFile(unquote(origin), 0, 0).named))
        return {name: value for name, value in values.items() if value is not None}


@contextmanager
def mistakes_in(place: str) -> Iterator[None]:
    """Report mistakes with the place in which they were made."""
    try:
        yield
    except PipelineError as error:
        raise PipelineError([replace(problem, file=place) for problem in error.problems]) from None


def _refused(field: str, message: str, value: object = None, fix: str | None = None) -> PipelineError:
    return PipelineError([Problem(field, message, value, fix)])


def asked_for(
    where: str | None, fix: Mapping[str, Any], place: str, source: str | None = None
) -> tuple[Choice, Fix]:
    """Which dead letters to replay, and the fix for them. `place` is where the arguments were given, for errors."""
    with mistakes_in(place):
        if unknown := [key for key in fix if key not in KEYS and not key.startswith(COLUMN)]:
            known = f"write one of {', '.join(KEYS)}"
            raise PipelineError([Problem(key, "is no fix", fix[key], known) for key in unknown])
        texts = None if fix.get("text") is None else _texts(fix["text"])
        if texts is not None and fix.get("raw") is not None:
            raise _refused("raw", "cannot be beside text", fix["raw"], "leave one of them out")
        columns = {key.removeprefix(COLUMN): value for key, value in fix.items() if key.startswith(COLUMN)}
        given = {"where": where, **{name: fix.get(name) for name in ("format", "unit", "raw")}}
        wrong = [
            Problem(name, "has the wrong kind of value", value, "give text")
            for name, value in [
                *given.items(),
                *((f"{COLUMN}{name}", each) for name, each in columns.items()),
            ]
            if not isinstance(value, str) and not (value is None and name in given)
        ]
        if wrong:
            raise PipelineError(wrong)
        return Choice(where, fix.get("raw"), texts, source), Fix(fix.get("format"), fix.get("unit"), columns)


def _texts(given: object) -> Texts:
    if isinstance(given, str | Path):
        try:
            return _texts_of(_parsed(path_of("replay", "text", given).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            fix = "name a file of corrected texts"
            raise _refused("text", f"cannot be read: {reason}", str(given), fix) from None
    if isinstance(given, Sequence):
        return _texts_of(given)
    fix = "give a file of corrected texts, or a list of them"
    raise _refused("text", "has the wrong kind of value", given, fix)


def _parsed(written: str) -> Iterable[Any]:
    """The texts in a file: a JSON array of objects, or an object a line."""
    try:
        if written.lstrip().startswith("["):
            return json.loads(written)  # type: ignore[no-any-return]
        return [json.loads(line) for line in written.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise _refused("text", f"is not JSON: {error}", None, _TEXTS_FIX) from None


def _texts_of(rows: Iterable[Any]) -> Texts:
    """The texts by the dead letter that each belongs to."""
    texts: dict[Place, str] = {}
    for nth, row in enumerate(rows, start=1):
        named = _named(row)
        if named is None:
            raise _refused(f"text {nth}", "does not name a dead letter", row, _TEXTS_FIX)
        letter, raw = named
        if not raw.strip():
            raise _refused(f"text {nth}", "is blank", raw, "leave the letter out")
        if letter in texts:
            raise _refused(f"text {nth}", "is a second one for the same letter", row, "leave one out")
        texts[letter] = raw
    return texts


def _named(row: Any) -> tuple[Place, str] | None:
    if not isinstance(row, Mapping):
        return None
    batch, origin, position, raw = (row.get(name) for name in ("batch", "origin", "position", "raw"))
    if type(batch) is not int or type(position) is not int:
        return None
    if not isinstance(origin, str) or not isinstance(raw, str):
        return None
    return (batch, origin, position), raw
