"""Reads a migration file: every mistake is reported with its line, and reader schemas in separate files are loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from latecomer.config.load import at_line
from latecomer.config.secrets import reference_problems, resolved
from latecomer.config.yaml_lines import Location, compose, dotted, line_of, read_text, whole_file
from latecomer.errors import LatecomerError, PipelineError, Problem, did_you_mean
from latecomer.model.base import in_own_words
from latecomer.objects.small_files import small_text
from latecomer.schemas.avro import schema_of
from latecomer.schemas.json_input import read_json
from latecomer.schemas.migrations import Consumer, Migration, NewField, Soak

MIGRATION = "migration file"
URL, TOKEN = "LATECOMER_REGISTRY_URL", "LATECOMER_REGISTRY_TOKEN"

TEMPLATE = """\
# A breaking change of a schema in four phases: expand, dual_write, migrate, contract.
# latecomer migrate plan {file}

migration: {name}                # its name in the registry
subject: rides-value             # whose schema changes
owner: fares@rides.example       # who is asked when it cannot go on

registry: http://127.0.0.1:8081  # one that latecomer registry serve has started
# token: ${{env:LATECOMER_REGISTRY_TOKEN}}

# The old fields. Each with SQL that computes it from the new ones: it can be brought back by that, and every
# event is held to it.
from:
  fare_cents: pricing.base + pricing.surge + pricing.tax

# The new fields: their Avro types. A field without default is optional, and null until producers write it.
# sql computes it from the old fields; leave it out where they do not determine it.
to:
  pricing:
    type:
      type: record
      name: Pricing
      fields:
        - {{name: base, type: long}}
        - {{name: surge, type: long}}
        - {{name: tax, type: long}}
    # sql: {{base: fare_cents - pricing.surge - pricing.tax}}

# Who reads the subject, with the Avro schema of each: a file beside this one, or the schema itself.
consumers:
  dashboard:
    owner: dashboards@rides.example
    reader:
      type: record
      name: Ride
      fields:
        - {{name: ride_id, type: string}}
        - {{name: fare_cents, type: long}}
#  billing: {{owner: billing@rides.example, reader: schemas/billing.avsc}}

# How long each phase lasts at least.
soak: {{expand: 1d, dual_write: 7d, migrate: 14d}}

# The share of events whose two shapes may disagree.
drift_limit: 0.1%
"""


def load_migration(file: Path) -> Migration:
    document, lines = compose(read_text(file, MIGRATION), file, MIGRATION)
    if not isinstance(document, dict):
        raise whole_file(file, "is not a mapping of keys to values", "see latecomer migrate new", MIGRATION)
    try:
        migration = Migration.model_validate(_with_readers(document, file, lines))
    except ValidationError as error:
        raise PipelineError([_problem(each, file, lines) for each in error.errors()]) from None
    secrets = {"registry": migration.registry, "token": migration.token}
    texts = [(field, text) for field, text in secrets.items() if text]
    if problems := [*_wrong_readers(migration), *reference_problems(texts, file.parent)]:
        raise PipelineError([at_line(each, file, lines) for each in problems])
    return migration


def registry_of(migration: Migration, base: Path) -> tuple[str, str | None]:
    """The URL and the token of the registry that keeps a migration; from the environment where the file has none."""
    url = resolved(migration.registry, base) if migration.registry else os.environ.get(URL)
    if not url:
        raise LatecomerError(f"registry: is missing; write its URL into the file, or set {URL}")
    token = resolved(migration.token, base) if migration.token else os.environ.get(TOKEN)
    return url, token or None


def _with_readers(document: dict[str, Any], file: Path, lines: Mapping[Location, int]) -> dict[str, Any]:
    """The document, with the schemas from the files that consumers name."""
    consumers = document.get("consumers")
    if not isinstance(consumers, dict):
        return document
    loaded = {}
    for name, each in consumers.items():
        if isinstance(each, dict) and isinstance(each.get("reader"), str):
            each = {**each, "reader": _reader_in(str(name), each["reader"], file, lines)}
        loaded[name] = each
    return {**document, "consumers": loaded}


def _reader_in(consumer: str, path: str, file: Path, lines: Mapping[Location, int]) -> Any:
    field = f"consumers.{consumer}.reader"
    try:
        return read_json(small_text(file.parent / path))
    except OSError as error:
        fix = "name a file with an Avro schema, or write the schema itself"
        problem = Problem(field, f"the file cannot be read ({error.strerror})", path, fix)
    except LatecomerError as error:
        problem = Problem(field, f"{path}: {error}", fix="correct the schema")
    raise PipelineError([at_line(problem, file, lines)])


def _wrong_readers(migration: Migration) -> list[Problem]:
    problems = []
    for name, each in migration.consumers.items():
        try:
            schema_of(each.reader)
        except LatecomerError as error:
            problems.append(Problem(f"consumers.{name}.reader", f"is no Avro schema: {error}"))
    for name, new in migration.to.items():
        try:
            schema_of({"type": "record", "name": "Both", "fields": [{"name": name, **new.definition}]})
        except LatecomerError as error:
            problems.append(Problem(f"to.{name}", f"is no field of Avro: {error}"))
    return problems


_MODELS = {"soak": Soak, "consumers": Consumer, "to": NewField}


def _problem(entry: Any, file: Path, lines: Mapping[Location, int]) -> Problem:
    """A pydantic error in the words of the file."""
    location: Location = tuple(
        step for step in entry["loc"] if not (isinstance(step, str) and step in ("str", "dict[str,str]"))
    )
    message, fix = in_own_words(entry)
    value = entry.get("input")
    if entry["type"] == "extra_forbidden":
        model = _MODELS.get(str(location[0]), Migration) if len(location) > 1 else Migration
        known = [field.alias or name for name, field in model.model_fields.items()]
        message, value, fix = "unknown key", None, did_you_mean(str(location[-1]), known)
    elif entry["type"] == "missing":
        message, value, fix = "is missing", None, f"add {location[-1]}:"
    if isinstance(value, dict | list | Migration):
        value = None
    return Problem(
        dotted(location) if location else MIGRATION, message, value, fix, str(file), line_of(location, lines)
    )
