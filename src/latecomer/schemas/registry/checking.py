"""Checks the schemas of a folder against a registry before they are registered, and a history against a level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from latecomer.errors import RegistryError
from latecomer.objects.small_files import small_bytes
from latecomer.schemas import Level, Policy
from latecomer.schemas.levels import Breach
from latecomer.schemas.registry import policy
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.kinds import KINDS, Parsed, complaints, parsed
from latecomer.schemas.registry.names import Naming, subject_of
from latecomer.schemas.registry.records import Definition, Deleted


@dataclass(frozen=True)
class WouldRefuse:
    """A version that another level would have refused."""

    subject: str
    version: int
    id: int
    complaint: Breach


def dry_run(
    registry: Registry | Client, level: Level, prefix: str = "", policy: Policy = Policy.STRICT
) -> Iterator[WouldRefuse]:
    """The versions that a level would have refused. Deleted versions count: data may have been written with them."""
    for subject in registry.subjects(prefix, Deleted.INCLUDED):
        earlier: dict[int, Parsed] = {}
        for number in registry.versions(subject, Deleted.INCLUDED):
            version = registry.version(subject, number, Deleted.INCLUDED)
            schema = registry.parsed(version)
            for each in complaints(schema, earlier, level, policy):
                yield WouldRefuse(subject, number, version.id, each)
            earlier[number] = schema


# The schemas of a folder


@dataclass(frozen=True)
class Problem:
    """Why a file's schema could not be registered."""

    file: Path
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.subject}: {self.text}"


@dataclass(frozen=True)
class Checked:
    """The result for the files of a folder."""

    problems: tuple[Problem, ...]
    registered: int
    new_versions: int
    new_subjects: int


@dataclass(frozen=True)
class _File:
    path: Path
    subject: str
    definition: Definition


def check_folder(folder: Path, client: Client) -> Checked:
    """Whether the schemas of a folder could be registered now. Nothing is registered.

    A file is named after its subject: orders-value.avsc. References are looked up in the other files.
    """
    files, problems = _files(folder)
    schemas = dict(_parsed_files(folder, files, problems))
    naming = policy.naming_of(client.naming())
    counts = {"registered": 0, "new version": 0, "new subject": 0}
    for file in files:
        if file.path in schemas:
            effect, texts = _effect_of(file.subject, schemas[file.path], naming, client)
            problems += [Problem(file.path, file.subject, text) for text in texts]
            if not texts:
                counts[effect] += 1
    return Checked(tuple(sorted(problems, key=str)), *counts.values())


def _effect_of(subject: str, schema: Parsed, naming: Naming, client: Client) -> tuple[str, list[str]]:
    """The effect of registering a schema, and why it would be refused."""
    numbers = client.versions(subject)
    if not numbers:
        problem = naming.problem(subject) if not client.versions(subject, Deleted.INCLUDED) else None
        return "new subject", [] if problem is None else [str(problem)]
    versions = {number: client.parsed(client.version(subject, number)) for number in numbers}
    if any(
        old.type == schema.type and schema.normalized in (old.normalized, old.written_out)
        for old in versions.values()
    ):
        return "registered", []
    problems = complaints(schema, versions, *client.compatibility(subject))
    if not problems:
        return "new version", []
    owner = (client.about(subject) or {}).get("owner")
    whom = policy.whom_to_ask(subject, owner) if owner else ""
    return "new version", [f"{each.text}. {whom}".strip() for each in problems]


def _files(folder: Path) -> tuple[list[_File], list[Problem]]:
    files: dict[str, _File] = {}
    problems: list[Problem] = []
    for path in sorted(folder.rglob("*")):
        kind = next((name for name, kind in KINDS.items() if path.name.endswith(kind.suffix)), None)
        if kind is None or not path.is_file():
            continue
        subject = unquote(path.name.removesuffix(KINDS[kind].suffix))
        try:
            subject = subject_of(subject)
            file = _File(path, subject, Definition(_text(path), kind))
        except RegistryError as error:
            problems.append(Problem(path, subject, str(error)))
            continue
        if subject in files:
            problems.append(
                Problem(path, subject, f"{files[subject].path} has the same subject; rename one of them")
            )
        else:
            files[subject] = file
    return list(files.values()), problems


def _text(path: Path) -> str:
    try:
        return small_bytes(path).decode("utf-8-sig")
    except OSError as error:
        raise RegistryError(f"the file cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise RegistryError(f"the file is not UTF-8, from byte {error.start} on") from None


def _parsed_files(folder: Path, files: list[_File], problems: list[Problem]) -> Iterator[tuple[Path, Parsed]]:
    """The parsed files: first those without references, then those that refer to these, and so on. A Protobuf file is
    imported by its path in the folder."""
    known: dict[str, dict[str, Parsed]] = {name: {} for name in KINDS}
    pending, errors = list(files), {}
    while pending:
        tried, pending = pending, []
        for file in tried:
            try:
                schema = _parsed_file(file, known[file.definition.type])
            except RegistryError as error:
                errors[file.path] = str(error)
                pending.append(file)
                continue
            yield file.path, schema
            imported = (file.path.relative_to(folder).as_posix(),) if schema.type == "PROTOBUF" else ()
            for name in getattr(schema.schema, "names", imported):
                known[file.definition.type].setdefault(name, schema)
        if len(pending) == len(tried):
            break
    problems += [Problem(file.path, file.subject, errors[file.path]) for file in pending]


def _parsed_file(file: _File, known: dict[str, Parsed]) -> Parsed:
    try:
        return parsed(file.definition, {}, strict=True)
    except RegistryError as alone:
        if not known:
            raise
        try:
            return parsed(file.definition, known, strict=True)
        except RegistryError:
            raise alone from None
