"""Schemas in the store: the reader's, which determines the columns, pinned; and those of writers, by their ids.

    schemas/REGISTRY/ID.json          an Avro schema of a writer, with all that it refers to
    schemas/REGISTRY-json/ID.json     a JSON Schema, likewise; REGISTRY-protobuf has those of Protobuf

The schema of an id never changes, so a stored schema is never fetched again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from latecomer.config.avro_files import file_schema
from latecomer.config.columns import SAMPLE_FILES
from latecomer.config.damaged_files import DamagedFile
from latecomer.config.models import Pipeline
from latecomer.config.paths import list_files
from latecomer.config.registered import Avro, Protobuf, Registered, RegisteredJson, SchemaFormat, schema_text
from latecomer.errors import (
    LatecomerError,
    RegistryError,
    RegistryOutage,
    SchemaOutage,
    SourceError,
    StoreMismatch,
    did_you_mean,
)
from latecomer.objects.readable import readable
from latecomer.schemas import jsonschema
from latecomer.schemas.avro import Schema, SchemaError, parse_schema, reading, self_contained
from latecomer.schemas.packages import protobuf_model
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.kinds import Parsed
from latecomer.schemas.registry.names import LATEST
from latecomer.schemas.registry.records import Version
from latecomer.schemas.registry.refusals import NO_SCHEMA, NO_SUBJECT, NO_VERSION
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.pins import PINS, read_pins


@dataclass(frozen=True)
class _Kind:
    """One kind of schemas in a registry, and the form in which they are stored."""

    type: str
    """The name of the kind in a registry."""
    in_words: str
    read: Callable[[Mapping[str, Any]], Any]
    """Parses a schema as it is stored."""
    written: Callable[[Any], dict[str, Any]]
    """Gives a schema in the form in which it is stored, with all that it refers to."""
    ending: str = ""
    """The end of the names of its folders: an id of another kind may be stored as unusable in a folder."""


def _with_references(schema: Any) -> dict[str, Any]:
    """The text of a schema, and of all that it refers to."""
    references = {name: _with_references(each) for name, each in schema.references}
    return {"schema": schema.text, "references": references}


def _read_with_references(written: Mapping[str, Any], parse: Callable[[str, Mapping[str, Any]], Any]) -> Any:
    references = {name: _read_with_references(each, parse) for name, each in written["references"].items()}
    return parse(written["schema"], references)


_AVRO = _Kind(
    "AVRO",
    "an Avro schema",
    read=lambda written: parse_schema(written["schema"], strict=False),
    written=lambda schema: {"schema": self_contained(schema)},
)
_JSON = _Kind(
    "JSON",
    "a JSON Schema",
    read=lambda written: _read_with_references(written, jsonschema.parse_schema),
    written=_with_references,
    ending="-json",
)
_PROTOBUF = _Kind(
    "PROTOBUF",
    "a Protobuf schema",
    read=lambda written: _read_with_references(written, protobuf_model().parse_schema),
    written=_with_references,
    ending="-protobuf",
)


def _kind_of(registered: Registered) -> _Kind:
    if isinstance(registered, Avro):
        return _AVRO
    return _PROTOBUF if isinstance(registered, Protobuf) else _JSON


def client_of(registered: Registered, base: Path) -> Client:
    """A client of the registry that a pipeline file names; `base` is the folder of that file."""
    options = registered.registry_settings(base)
    return Client(options["url"], token=options["token"])


# The schema that determines the columns


def readers_of(pipeline: Pipeline, pinned: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The schemas that determine the columns of the sources, in the form of the pins: the `pinned` ones, and others
    from registry, file or data."""
    readers = {}
    for view in pipeline.views.values():
        if isinstance(view.format, SchemaFormat):
            # A schema file of the user's may change, as long as the columns stay.
            is_file = isinstance(view.format, Avro) and view.format.schema_file
            known = None if is_file else pinned.get(key_of(view))
            readers[key_of(view)] = known or _fetch_reader(view)
    return readers


def reader_of(view: Pipeline, readers: Mapping[str, Any] | None = None) -> Any:
    """The schema that determines the columns of a source: one of `readers`, or else the pinned one."""
    if readers is None:
        readers = (read_pins(view.store_path) or {}).get("schemas", {})
    try:
        return _kind_of(_format(view)).read(readers[key_of(view)])
    except (KeyError, TypeError, SchemaError) as error:
        raise StoreMismatch(
            f"store {view.store_path}: {PINS} has not the schema that it was made with ({error}); restore it"
        ) from None


def reading_of(view: Pipeline, readers: Mapping[str, Any] | None = None) -> Any:
    """The columns of a source by its schema, and its fields that are no columns."""
    reader = reader_of(view, readers)
    try:
        if isinstance(view.format, Protobuf):
            return protobuf_model().reading(reader, view.format.message)
        return reading(reader)
    except SchemaError as error:
        registered = _format(view)
        place = registered.subject or getattr(registered, "schema_file", None) or view.files.path
        raise SourceError(f"the schema of {place}: {error}") from None


def key_of(view: Pipeline) -> str:
    """The key of a source's schema in the pins."""
    registered = _format(view)
    return registered.pinned_as if registered.names_schema else json.dumps(["files", view.files.path])


def _format(view: Pipeline) -> SchemaFormat:
    assert isinstance(view.format, SchemaFormat)  # noqa: S101
    return view.format


def _fetch_reader(view: Pipeline) -> dict[str, Any]:
    registered = _format(view)
    if registered.subject is not None:
        version, parsed = _version_of(registered, view.base)
        place = {"subject": version.subject, "version": version.version, "id": version.id}
        return {**_kind_of(registered).written(parsed.schema), **place}
    assert isinstance(registered, Avro)  # noqa: S101
    if registered.schema_file is None:
        return {"schema": self_contained(_of_files(view))}
    try:
        return {"schema": self_contained(parse_schema(schema_text(registered, view.base)))}
    except SchemaError as error:
        raise SourceError(f"{registered.schema_file} is no Avro schema that can be used: {error}") from None


def columns_of_subject(json_format: RegisteredJson, base: Path) -> dict[str, str]:
    """The columns of the JSON Schema that a subject has."""
    version, parsed = _version_of(json_format, base)
    try:
        return jsonschema.columns_of(parsed.schema)
    except SchemaError as error:
        raise SourceError(f"the schema of {version.subject}, version {version.version}: {error}") from None


def _version_of(registered: Registered, base: Path) -> tuple[Version, Parsed]:
    """The named version of a subject, and its schema, which must be of the format's kind."""
    client, subject, kind = client_of(registered, base), str(registered.subject), _kind_of(registered)
    try:
        version = client.version(subject, LATEST if registered.version == "latest" else registered.version)
        parsed = client.parsed(version)
    except RegistryError as error:
        if error.code == NO_SUBJECT:
            fix = did_you_mean(subject, client.subjects()[:50])
            raise SourceError(f"the registry {client.shown} has no subject {subject}; {fix}") from None
        if error.code == NO_VERSION:
            versions = ", ".join(map(str, client.versions(subject)))
            raise SourceError(
                f"the registry {client.shown} has no version {registered.version} of {subject}; there is "
                f"{versions or 'none'}"
            ) from None
        raise
    if parsed.type != kind.type:
        raise SourceError(
            f"subject {subject} of the registry {client.shown} has a schema of the type {parsed.type}; name one "
            f"with {kind.in_words}"
        )
    return version, parsed


def _of_files(view: Pipeline) -> Schema:
    """The schema of the first file with a usable schema."""
    paths = list_files(view.source_path)
    for name in paths[:SAMPLE_FILES]:
        try:
            return parse_schema(file_schema(readable(name)), strict=False)
        except (DamagedFile, SchemaError, OSError):
            continue  # a damaged file does not determine the columns
    what = "none of the files has a schema that can be used" if paths else "there is no file yet"
    raise SourceError(
        f"no columns could be inferred at {view.source_path}: {what}; name the schema, as in format: {{avro: "
        "{schema_file: payments.avsc}}"
    )


# The schemas of writers


def not_known(number: int) -> str:
    return f"the registry does not know schema {number}"


@dataclass
class KnownSchemas:
    """The schemas of writers: from the store, or from the registry."""

    kind: _Kind
    root: Location
    registered: Registered
    base: Path
    pinned: Mapping[int, Any] = field(default_factory=dict)
    """The schema that determines the columns, if it has an id."""
    _known: dict[int, Any] | None = field(default=None, repr=False)

    @property
    def known(self) -> dict[int, Any]:
        """Id → schema, or the reason why it cannot be used."""
        if self._known is None:
            names = (PurePath(name) for name in files.names(self.folder) if name.endswith(".json"))
            numbers = (int(name.stem) for name in names if name.stem.isdigit())
            stored = {number: self._stored(number) for number in sorted(numbers)}
            usable = {number: each for number, each in stored.items() if each is not None}
            self._known = {**self.pinned, **usable}
        return self._known

    def learn(self, numbers: Iterable[int], wait: bool) -> None:
        """Fetch the schemas of some ids. `SchemaOutage` where that is not possible yet. Without `wait`, an id that the
        registry does not know counts as unusable until the next run."""
        for number in numbers:
            if number not in self.known:
                self.known[number] = self._fetch(number, wait)

    def _fetch(self, number: int, wait: bool) -> Any:
        client = client_of(self.registered, self.base)
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
        if (fetched_type := fetched.definition.type) != self.kind.type:
            return self._keep_problem(number, f"is of the type {fetched_type}, not {self.kind.type}")
        try:
            schema = fetched.parsed().schema
        except LatecomerError as error:
            return self._keep_problem(number, f"cannot be used: {error}")
        self._keep(number, **self.kind.written(schema))
        return schema

    def _stored(self, number: int) -> Any:
        """A schema from the store; None, so that it is fetched again, where the file is damaged, or has the `problem`
        of an earlier version, for which this version may have support."""
        try:
            written = json.loads(files.read_text(self._file(number)))
            return str(written["unusable"]) if "unusable" in written else self.kind.read(written)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _keep_problem(self, number: int, words: str) -> str:
        problem = f"schema {number} {words}"
        self._keep(number, unusable=problem)
        return problem

    def _keep(self, number: int, **fields: Any) -> None:
        files.make_folder(self.folder)
        files.replace_text(self._file(number), json.dumps({"id": number, **fields}) + "\n")

    def _file(self, number: int) -> Location:
        return self.folder / f"{number}.json"

    @property
    def folder(self) -> Location:
        return self.root / "schemas" / f"{self.registered.registry_folder}{self.kind.ending}"


def writer_schemas(view: Pipeline) -> KnownSchemas:
    """The schemas of writers, for a source whose records have their ids."""
    assert isinstance(view.format, Registered)  # noqa: S101
    pinned = _pinned(view) if isinstance(view.format, SchemaFormat) else {}
    return KnownSchemas(_kind_of(view.format), view.store_path, view.format, view.base, pinned)


def _pinned(view: Pipeline) -> dict[int, Any]:
    reader = (read_pins(view.store_path) or {}).get("schemas", {}).get(key_of(view), {})
    return {reader["id"]: reader_of(view)} if type(reader.get("id")) is int else {}
