"""Schemas in the store: the one that the columns follow from, pinned, and those of writers, by their ids.

    schemas/REGISTRY/ID.json     a schema of a writer, with all that it refers to

An id never means another schema, so one that is here is never asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latecomer.config.avro import Avro, schema_text
from latecomer.config.avro_files import file_schema
from latecomer.config.columns import SAMPLE_FILES
from latecomer.config.damage import DamagedFile
from latecomer.config.models import Pipeline
from latecomer.config.paths import list_files
from latecomer.errors import (
    LatecomerError,
    RegistryError,
    RegistryOutage,
    SchemaOutage,
    SourceError,
    StoreMismatch,
    did_you_mean,
)
from latecomer.model.avro import Reading, Schema, SchemaError, parse_schema, reading, self_contained
from latecomer.registry.client import NO_SCHEMA, NO_SUBJECT, Client
from latecomer.registry.names import LATEST
from latecomer.store import files
from latecomer.store.pins import PINS, read_pins

AVRO_TYPE = "AVRO"
NO_VERSION = 40402


def client_of(avro: Avro, base: Path) -> Client:
    """Asks the registry that a pipeline file names; `base` is the folder of that file."""
    asked = avro.asked_with(base)
    return Client(asked["url"], token=asked["token"])


# The schema that the columns follow from


def readers_of(pipeline: Pipeline, pinned: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The schemas that the columns of the sources follow from, as a store pins them: those that are `pinned`, and
    others as registry, file or data say them now."""
    found = {}
    for view in pipeline.views.values():
        if isinstance(view.format, Avro):
            # A file of the user's may change, as long as the columns stay.
            known = None if view.format.schema_file else pinned.get(key_of(view))
            found[key_of(view)] = known or _found(view)
    return found


def reader_of(view: Pipeline, readers: Mapping[str, Any] | None = None) -> Schema:
    """The schema that the columns of a source follow from; unless given, as the store has it pinned."""
    if readers is None:
        readers = (read_pins(view.store_path) or {}).get("schemas", {})
    try:
        return parse_schema(readers[key_of(view)]["schema"])
    except (KeyError, TypeError, SchemaError) as error:
        raise StoreMismatch(
            f"store {view.store_path}: {PINS} has not the schema that it was made with ({error}); restore it"
        ) from None


def reading_of(view: Pipeline, readers: Mapping[str, Any]) -> Reading:
    """The columns of a source, and which fields are none."""
    try:
        return reading(reader_of(view, readers))
    except SchemaError as error:
        raise SourceError(f"the schema of {_place(view)}: {error}") from None


def key_of(view: Pipeline) -> str:
    """What a store calls the schema of a source."""
    avro = _avro(view)
    if avro.subject is None and avro.schema_file is None:
        return json.dumps(["files", view.files.path])
    return avro.pinned_as


def _avro(view: Pipeline) -> Avro:
    assert isinstance(view.format, Avro)  # noqa: S101
    return view.format


def _place(view: Pipeline) -> str:
    avro = _avro(view)
    return avro.subject or avro.schema_file or view.files.path


def _found(view: Pipeline) -> dict[str, Any]:
    avro = _avro(view)
    if avro.subject is not None:
        return _of_subject(avro, view.base)
    if avro.schema_file is not None:
        return {"schema": self_contained(_parsed(schema_text(avro, view.base), avro.schema_file))}
    return {"schema": self_contained(_of_files(view))}


def _parsed(text: str, what: str) -> Schema:
    try:
        return parse_schema(text)
    except SchemaError as error:
        raise SourceError(f"{what} is no Avro schema that can be used: {error}") from None


def _of_subject(avro: Avro, base: Path) -> dict[str, Any]:
    client, subject = client_of(avro, base), str(avro.subject)
    try:
        version = client.version(subject, LATEST if avro.version == "latest" else avro.version)
        found = client.parsed(version)
    except RegistryError as error:
        if error.code == NO_SUBJECT:
            fix = did_you_mean(subject, client.subjects()[:50])
            raise SourceError(f"the registry {client.shown} has no subject {subject}; {fix}") from None
        if error.code == NO_VERSION:
            there = ", ".join(map(str, client.versions(subject)))
            raise SourceError(
                f"the registry {client.shown} has no version {avro.version} of {subject}; there is {there or 'none'}"
            ) from None
        raise
    if found.type != AVRO_TYPE:
        raise SourceError(
            f"subject {subject} of the registry {client.shown} has a schema of the type {found.type}; name one "
            "with an Avro schema"
        )
    place = {"subject": version.subject, "version": version.version, "id": version.id}
    return {"schema": self_contained(found.schema), **place}


def _of_files(view: Pipeline) -> Schema:
    """The schema of the first file that has one that can be used."""
    there = list_files(view.source_path)
    for name in there[:SAMPLE_FILES]:
        try:
            return parse_schema(file_schema(name))
        except (DamagedFile, SchemaError, OSError):
            continue  # what cannot be read does not decide the columns
    what = "none of the files has a schema that can be used" if there else "there is no file yet"
    raise SourceError(
        f"no columns could be inferred at {view.source_path}: {what}; name the schema, as in format: {{avro: "
        "{schema_file: payments.avsc}}"
    )


# The schemas of writers


def not_known(number: int) -> str:
    return f"the registry does not know schema {number}"


@dataclass
class WriterSchemas:
    """The schemas that records were written with: in the store, or in the registry."""

    root: Path
    avro: Avro
    base: Path
    pinned: Mapping[int, Schema] = field(default_factory=dict)
    """The one that the columns follow from, where it has an id."""
    _known: dict[int, Schema | str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, view: Pipeline) -> WriterSchemas:
        reader = (read_pins(view.store_path) or {}).get("schemas", {}).get(key_of(view), {})
        pinned = {reader["id"]: reader_of(view)} if type(reader.get("id")) is int else {}
        return cls(view.store_path, _avro(view), view.base, pinned)

    @property
    def known(self) -> dict[int, Schema | str]:
        """The schemas by their ids; in words why one cannot be used, where that is so."""
        if self._known is None:
            names = (Path(name) for name in files.names(self._folder) if name.endswith(".json"))
            numbers = (int(name.stem) for name in names if name.stem.isdigit())
            kept = {number: self._kept(number) for number in sorted(numbers)}
            found = {number: each for number, each in kept.items() if each is not None}
            self._known = {**self.pinned, **found}
        return self._known

    def learn(self, numbers: Iterable[int], wait: bool) -> None:
        """Have the schemas of ids. `SchemaOutage` where one cannot be had yet; unless they are waited for, ids that the
        registry does not know count as known, and as of no use, until the next run."""
        for number in numbers:
            if number not in self.known:
                self.known[number] = self._asked(number, wait)

    def _asked(self, number: int, wait: bool) -> Schema | str:
        client = client_of(self.avro, self.base)
        try:
            fetched = client.schema(number)
        except RegistryOutage as error:
            raise SchemaOutage(f"schema {number} cannot be had: {error}") from None
        except RegistryError as error:
            if error.code not in (NO_SCHEMA, 404):
                raise SchemaOutage(f"schema {number} cannot be had: {error}") from None
            if wait:
                raise SchemaOutage(
                    f"the registry {client.shown} does not know schema {number} yet; register it, or write unknown_id: "
                    "dead_letter to go on without what was written with it"
                ) from None
            return not_known(number)
        if fetched.definition.type != AVRO_TYPE:
            return self._keep_problem(number, f"is of the type {fetched.definition.type}, not {AVRO_TYPE}")
        try:
            found: Schema = fetched.parsed().schema
        except LatecomerError as error:
            return self._keep_problem(number, f"cannot be used: {error}")
        self._keep(number, schema=self_contained(found))
        return found

    def _kept(self, number: int) -> Schema | str | None:
        """A schema that the store has; one that is not as it was written is asked for again."""
        try:
            written = json.loads(files.read_text(self._file(number)))
            return str(written["problem"]) if "problem" in written else parse_schema(written["schema"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keep_problem(self, number: int, words: str) -> str:
        problem = f"schema {number} {words}"
        self._keep(number, problem=problem)
        return problem

    def _keep(self, number: int, **said: str) -> None:
        files.make_folder(self._folder)
        files.replace_text(self._file(number), json.dumps({"id": number, **said}) + "\n")

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    @property
    def _folder(self) -> Path:
        return self.root / "schemas" / self.avro.registry_folder
