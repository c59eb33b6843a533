"""A request that was read: the actor, the path, the parameters and the body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.names import DEFAULT_CONTEXT, id_of, subject_of, version_of
from latecomer.schemas.registry.records import Actor, Body, Deleted
from latecomer.schemas.registry.refusals import Refused, invalid_subject, unusable
from latecomer.schemas.registry.tokens import Scope

_FLAGS = {"true": True, "false": False}
_NOTHING = ("", "false")
_REFUSED = ("format", "referenceFormat", "deletedAsNegative")
"""Confluent's parameters that are refused where they are not supported: they ask for another answer."""
REPEATED = ("key", "value")
"""Parameters that may be repeated."""
MOST_PARAMETERS = 50
ALL_CONTEXTS = ":*:"
T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """The request, as a route gets it."""

    actor: Actor
    scope: Scope
    path: dict[str, str]
    query: dict[str, str]
    repeated: Mapping[str, list[str]] = field(default_factory=lambda: {each: [] for each in REPEATED})
    body: Any = None

    @property
    def subject(self) -> str:
        return subject_of(self.path["subject"])

    @property
    def version(self) -> int:
        return version_of(self.path["version"])

    @property
    def id(self) -> int:
        return id_of(self.path["id"])

    @property
    def prefix(self) -> str:
        """The prefix of the subjects. There is one context, so "all contexts" means that one."""
        written = self.query.get("subjectPrefix", "").removeprefix(ALL_CONTEXTS).removeprefix(DEFAULT_CONTEXT)
        if written.startswith(":."):
            raise invalid_subject(
                "subjectPrefix names a context; contexts are not supported, so leave it out"
            )
        return written

    @property
    def deleted(self) -> Deleted:
        if self.flag("deletedOnly") or self.flag("deleted_only"):
            return Deleted.ONLY
        return Deleted.INCLUDED if self.flag("deleted") else Deleted.LEFT_OUT

    @property
    def format(self) -> str:
        """The requested text of a schema; empty for the stored one."""
        written = self.query.get("format", "")
        return "" if written.lower() in _NOTHING else written

    def flag(self, name: str) -> bool:
        written = self.query.get(name, "").lower()
        if written and written not in _FLAGS:
            raise unusable(f"{name}={written[:40]!r} is neither true nor false")
        return _FLAGS.get(written, False)

    def number(self, name: str, default: int) -> int:
        written = self.query.get(name, "")
        if not written:
            return default
        digits = written.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
            raise unusable(f"{name}={written[:40]!r} is no whole number")
        return int(written)

    def page(self, items: Sequence[T]) -> list[T]:
        """The requested part of a list: from `offset`, at most `limit` items; a `limit` of 0 or less means all."""
        offset, limit = self.number("offset", 0), self.number("limit", -1)
        if offset < 0:
            raise unusable(f"offset={offset} is negative; write 0 or more")
        return list(items[offset : offset + limit] if limit > 0 else items[offset:])

    def require(self, scope: Scope, what: str) -> None:
        if self.scope < scope:
            raise Refused(
                403,
                f"To {what} takes the scope {scope.word}, and the token {self.actor.name} has {self.scope.word}.",
            )


@dataclass(frozen=True)
class Route:
    """A path, what it accepts, and the function that answers it."""

    method: str
    path: str
    scope: Scope
    answer: Callable[[Registry, Request], Any]
    what: str
    """What it does, as a verb phrase: read a version."""
    parameters: tuple[str, ...] = ()
    body: type[Body] | None = None
    text_only: bool = False
    """Whether only the text of the schema is sent, and not the JSON around it."""


def read_query(raw: bytes, known: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Parameters by name, and those that may be repeated. Unknown ones are ignored: clients also send parameters of
    other paths."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS
        )
    except ValueError:
        raise Refused(
            400, f"The parameters after ? are not percent-encoded UTF-8, or are more than {MOST_PARAMETERS}."
        ) from None
    values: dict[str, str] = {}
    repeated: dict[str, list[str]] = {each: [] for each in REPEATED}
    for name, value in pairs:
        if name in _REFUSED and name not in known and value.lower() not in _NOTHING:
            raise unusable(f"the parameter {name!r} is not supported by this registry; leave it out")
        if name in REPEATED:
            repeated[name].append(value)
            continue
        if name in values:
            raise unusable(f"the parameter {name[:60]!r} is written twice; write it once")
        if name in known:
            values[name] = value
    return values, repeated
