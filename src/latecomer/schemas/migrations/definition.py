"""The content of a migration file."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from latecomer.model.base import Model
from latecomer.model.durations import DAY, Duration
from latecomer.model.predicates import check_fix, tokens
from latecomer.schemas.migrations.phases import Phase

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_NO_DEFAULT: Any = object()

ADDITIVE = (
    "no old field goes away, and that needs no migration: a new field with a default is an additive change; "
    "register the schema as it is"
)


class NewField(Model):
    """A field of the new shape: its Avro type, and how it is computed from the old shape."""

    type: Any
    """An Avro type. A field without `default` is made optional: null until producers write it."""
    default: Any = _NO_DEFAULT
    sql: str | dict[str, str] | None = None
    """An expression over the old fields. For a record: one for each of its fields that can be computed from them."""

    @property
    def definition(self) -> dict[str, Any]:
        """Type and default for the schema."""
        if self.default is not _NO_DEFAULT:
            return {"type": self.type, "default": self.default}
        branches = self.type if isinstance(self.type, list) else [self.type]
        return {"type": ["null", *(each for each in branches if each != "null")], "default": None}

    def leaves(self, name: str) -> list[str]:
        """Its columns in a log: those of a record have names with dots."""
        return [name + rest for rest in _leaves(self.type)]


def _leaves(kind: Any) -> list[str]:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        return _leaves(others[0]) if len(others) == 1 else [""]
    if isinstance(kind, dict) and kind.get("type") == "record":
        fields = kind.get("fields")
        listed = fields if isinstance(fields, list) else []
        return [
            f".{each.get('name')}{rest}"
            for each in listed
            if isinstance(each, dict)
            for rest in _leaves(each.get("type"))
        ]
    if isinstance(kind, dict) and isinstance(kind.get("type"), dict | list):
        return _leaves(kind["type"])
    return [""]


class Consumer(Model):
    """Who reads the subject."""

    reader: Any
    """Its Avro reader schema."""
    owner: str | None = None


class Soak(Model):
    """The minimum duration of each phase."""

    expand: Duration = DAY
    dual_write: Duration = 7 * DAY
    migrate: Duration = 7 * DAY

    def of(self, phase: Phase) -> int:
        """Microseconds; 0 for contract, since nothing follows it."""
        return 0 if phase is Phase.CONTRACT else int(getattr(self, str(phase)))


class Migration(Model):
    """A breaking change of a subject's schema."""

    migration: str
    subject: Annotated[str, Field(min_length=1)]
    owner: Annotated[str, Field(min_length=1)]
    registry: str | None = None
    token: str | None = None
    from_: Annotated[dict[str, str], Field(alias="from", default_factory=dict)]
    """The old fields, and how each is computed from the new ones."""
    to: dict[str, NewField]
    consumers: Annotated[dict[str, Consumer], Field(default_factory=dict)]
    soak: Soak = Soak()
    drift_limit: float = 0.0

    @field_validator("migration")
    @classmethod
    def _name(cls, written: str) -> str:
        if not NAME.fullmatch(written):
            raise ValueError("is no name; write letters, digits, dots, dashes and underscores, at most 100")
        return written

    @field_validator("drift_limit", mode="before")
    @classmethod
    def _limit(cls, written: Any) -> float:
        match = _SHARE.fullmatch(written.strip()) if isinstance(written, str) else None
        share = float(match[1]) / 100 if match else written
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise ValueError("is no share of events; write it such as 0.1%, or 0 for none")
        return float(share)

    @field_validator("from_", "to")
    @classmethod
    def _fields(cls, written: dict[str, Any]) -> dict[str, Any]:
        for name in written:
            if not _FIELD.fullmatch(name):
                raise ValueError(f"has {name!r}, which is no field of the schema; name fields of its record")
        return written

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        if not self.to:
            raise ValueError("to has no field; name the fields of the new shape")
        for name in self.from_:
            if name in self.to:
                raise ValueError(f"from and to both have {name}; give the new field another name")
        known, leaves = {*self.old, *self.new}, set(self.new)
        named = {word for sql in self.from_.values() for word in _columns(sql, known)}
        for place, sql in (*self.backward.items(), *self.forward.items()):
            try:
                check_fix(sql, "column")
            except ValueError as error:
                raise ValueError(f"the expression of {place}: {error}") from None
            if place not in known:
                raise ValueError(f"{place} has an expression, and to has no such field; correct its name")
            if not _columns(sql, known - {place}):
                raise ValueError(
                    f"the expression of {place} names no field of the other shape; write how it is computed from it"
                )
        if self.from_ and (unheld := sorted(leaves - named - set(self.forward))):
            raise ValueError(
                f"nothing says how {unheld[0]} follows from the old shape, or the old shape from it; "
                "give it sql, or name it in an expression of from"
            )
        return self

    @property
    def old(self) -> list[str]:
        """The columns of the old shape."""
        return list(self.from_)

    @property
    def new(self) -> list[str]:
        """The columns of the new shape."""
        return [leaf for name, each in self.to.items() for leaf in each.leaves(name)]

    @property
    def backward(self) -> dict[str, str]:
        """Old column → how it is computed from the new shape."""
        return dict(self.from_)

    @property
    def forward(self) -> dict[str, str]:
        """New column → how it is computed from the old shape, if that is possible."""
        expressions: dict[str, str] = {}
        for name, each in self.to.items():
            if isinstance(each.sql, str):
                expressions[name] = each.sql
            elif each.sql is not None:
                expressions |= {f"{name}.{inner}": sql for inner, sql in each.sql.items()}
        return expressions

    @property
    def identity(self) -> str:
        """A hash of what may not change once the migration has begun: subject, fields and expressions."""
        fields = {name: each.definition for name, each in self.to.items()}
        fixed = [self.subject, self.backward, fields, self.forward]
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def _columns(sql: str, known: set[str]) -> set[str]:
    """Which of these columns an expression names."""
    return {token.name for token in tokens(sql)} & known
