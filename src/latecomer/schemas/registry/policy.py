"""Decisions of the registry, without effects: modes, levels, names, and whom to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from latecomer.errors import did_you_mean
from latecomer.model.counting import counted
from latecomer.schemas import Level, Policy
from latecomer.schemas.levels import Breach
from latecomer.schemas.registry import refusals
from latecomer.schemas.registry.names import Naming, NamingRule
from latecomer.schemas.registry.records import Mode
from latecomer.schemas.registry.refusals import Refused

E = TypeVar("E", bound=Enum)
DEFAULT_LEVEL = Level.BACKWARD
_MOST_COMPLAINTS = 20
_REMOVED = "PROVEN"
"""A removed policy that settings may still have (ADR 0089)."""
_READONLY = (Mode.READONLY, Mode.READONLY_OVERRIDE)


# Levels


def level_of(written: object) -> Level:
    """A level as it is written in a body or an option."""
    return _member(Level, written, "no compatibility level", refusals.invalid_level)


def policy_of(written: object) -> Policy:
    """A policy as it is written in a body or an option."""
    if isinstance(written, str) and written.upper() == _REMOVED:
        fix = 'it was removed; set another: PUT /config or /config/SUBJECT with {"compatibilityPolicy": "STRICT"}'
        raise refusals.invalid_policy(f"{written!r} is none; {fix}")
    return _member(Policy, written, "none", refusals.invalid_policy)


def _member(kind: type[E], written: object, what: str, refusal: Callable[[str], Refused]) -> E:
    """The member of an enum with a name, in upper or lower case."""
    shown = str(written)[:40]
    if isinstance(written, str) and written.upper() in kind.__members__:
        return kind[written.upper()]
    raise refusal(f"{shown!r} is {what}; {did_you_mean(shown.upper(), kind.__members__)}")


NORMALIZE, VALIDATE = "normalize", "validateNewSchemas"
"""Flags of a subject or the registry: normalize new schemas; refuse what the specification forbids."""
POLICY, GROUP, ALIAS = "compatibilityPolicy", "compatibilityGroup", "alias"
LAYERS = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
"""Metadata and rules that are merged with those of a schema."""
SETTINGS = (NORMALIZE, VALIDATE, POLICY, GROUP, *LAYERS)
"""The settings besides the level that a subject may have, or else takes from the registry."""


@dataclass(frozen=True)
class InForce:
    """The settings of a subject: each is its own, else that of the registry."""

    own: Mapping[str, Any] | None
    everywhere: Mapping[str, Any] | None

    def get(self, name: str) -> Any:
        """A setting; None if it is not set."""
        return next((each[name] for each in (self.own, self.everywhere) if each and name in each), None)

    @property
    def level(self) -> Level:
        return Level(self.get("compatibility") or DEFAULT_LEVEL)

    @property
    def policy(self) -> Policy:
        return policy_of(self.get(POLICY) or Policy.STRICT)


def refused_registration(
    subject: str, level: Level, complaints: Sequence[Breach], owner: str | None
) -> Refused:
    """Why a schema is not registered: every problem with its fix, and whom to ask."""
    shown = [f"({number}) {each.text}" for number, each in enumerate(complaints[:_MOST_COMPLAINTS], 1)]
    if len(complaints) > _MOST_COMPLAINTS:
        shown.append(f"and {len(complaints) - _MOST_COMPLAINTS} more")
    return Refused(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
        f"{counted(len(complaints), 'problem')} "
        f"under {level}: {'. '.join(shown)}. {whom_to_ask(subject, owner)}",
    )


def whom_to_ask(subject: str, owner: str | None) -> str:
    if owner is None:
        return f"'{subject}' has no owner on record; ask an admin of the registry."
    return f"Ask the owner of '{subject}': {owner}."


# Modes


def mode_of(written: object, subject: str | None) -> Mode:
    """A mode as it is written in a body."""
    mode = _member(Mode, written, "no mode that this registry has", refusals.invalid_mode)
    if mode is Mode.READONLY_OVERRIDE and subject is not None:
        raise refusals.invalid_mode(
            "READONLY_OVERRIDE is for the whole registry: it overrides the modes of subjects. Set READONLY for one."
        )
    return mode


def mode_in_force(own: str | None, everywhere: str | None) -> Mode:
    """The mode of a subject: its own, unless that of the registry overrides it."""
    if everywhere == Mode.READONLY_OVERRIDE:
        return Mode.READONLY_OVERRIDE
    return Mode(own or everywhere or Mode.READWRITE)


def require_writable(mode: Mode, subject: str | None) -> None:
    """Refuse a change where only reading is allowed."""
    if mode in _READONLY:
        what = "The registry" if subject is None else f"Subject {subject}"
        raise refusals.not_permitted(
            f"{what} is in read-only mode: nothing may be changed in the mode {mode}."
        )


def require_registrable(mode: Mode, subject: str, number: int | None) -> None:
    """Refuse a registration that the mode does not allow. Requests have ids in IMPORT only."""
    require_writable(mode, subject)
    if mode is Mode.IMPORT and number is None:
        raise refusals.not_permitted(
            f"Subject {subject} is not in read-write mode: in the mode IMPORT a schema is registered with the id that "
            "it had elsewhere. Give an id, or set the mode READWRITE."
        )
    if mode is not Mode.IMPORT and number is not None:
        raise refusals.not_permitted(
            f"Subject {subject} is not in import mode: in the mode {mode} the registry gives ids. Leave id out, or set "
            "the mode IMPORT."
        )


# Owners


def owner_of(about: Mapping[str, Any] | None, naming: Naming, subject: str) -> str | None:
    """The owner of a subject: its own, else that of the naming rule that it fits."""
    if about and about.get("owner"):
        return str(about["owner"])
    rule = naming.rule_for(subject)
    return rule.owner if rule else None


def naming_of(setting: Mapping[str, Any] | None) -> Naming:
    """Naming rules from their stored form."""
    if setting is None:
        return Naming(rules=[])
    rules = [NamingRule(subjects=each["subjects"], owner=each.get("owner")) for each in setting["rules"]]
    return Naming(rules=rules, others=setting["others"])
