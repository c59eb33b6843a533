"""Stores of earlier versions: each step brings what a store has written down from one format to the next.

Reading takes the steps in memory, so an old store can be read as it is. The next run writes down where they lead.
Tables need no step so far: a column that came later is empty in old files. What is not as latecomer writes it is left
as it is, for whoever reads it to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from latecomer.model.panes import Accumulation
from latecomer.model.triggers import Trigger
from latecomer.model.verdicts import LatePolicy
from latecomer.store.state_types import NARROW

FORMAT = 3
"""What this version writes."""
SUMS = "sums"
"""How whole numbers are summed up."""


def _with_first_defaults(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """1 → 2: what the first versions could not do otherwise, and later ones can, is written down.

    Whole numbers were summed up as such, without room for more (ADR 0028). No output discarded, fired early or
    published empty windows.
    """
    found = {SUMS: NARROW, **pinned}
    if isinstance(outputs := pinned.get("outputs"), dict):
        found["outputs"] = {name: _defined(definition) for name, definition in outputs.items()}
    if isinstance(policies := pinned.get("policies"), dict):
        found["policies"] = {name: _with_policies(entries) for name, entries in policies.items()}
    return found


def _defined(definition: Any) -> Any:
    return {"discarding": False, **definition} if isinstance(definition, dict) else definition


def _with_policies(entries: Any) -> Any:
    return list(map(_with_policy, entries)) if isinstance(entries, list) else entries


def _with_policy(entry: Any) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get("policy"), dict):
        return entry
    retracts = entry["policy"].get("late") == LatePolicy.RETRACT
    before = {
        "trigger": Trigger().model_dump(mode="json"),
        "accumulation": str(Accumulation.RETRACTING if retracts else Accumulation.ACCUMULATING),
        "emit_empty": False,
    }
    entry = {**entry, "policy": {**before, **entry["policy"]}}
    return {**entry, "definition": _defined(entry["definition"])} if "definition" in entry else entry


def _with_cadence(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """2 → 3: triggers were looked at when a batch ended (ADR 0010)."""
    policies = pinned.get("policies")
    if not isinstance(policies, dict):
        return dict(pinned)
    found = {
        name: list(map(_per_batch, entries)) if isinstance(entries, list) else entries
        for name, entries in policies.items()
    }
    return {**pinned, "policies": found}


def _per_batch(entry: Any) -> Any:
    policy = entry.get("policy") if isinstance(entry, dict) else None
    trigger = policy.get("trigger") if isinstance(policy, dict) else None
    if not isinstance(policy, dict) or not isinstance(trigger, dict):
        return entry
    rules = {name: {**rule, "per": "batch"} for name, rule in trigger.items() if isinstance(rule, dict)}
    return {**entry, "policy": {**policy, "trigger": {**trigger, **rules}}}


STEPS: dict[int, Callable[[Mapping[str, Any]], dict[str, Any]]] = {1: _with_first_defaults, 2: _with_cadence}
"""From a format to the next one."""
MEANINGS = {
    1: "what the first versions could not do otherwise is written down: sums, triggers, accumulation",
    2: "triggers were looked at when a batch ended, and that is written down",
}
"""What each step means to whoever owns the store."""


def upgraded(pinned: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is written down, in the format of this version; None for a format that it does not know."""
    found, now = dict(pinned), pinned.get("format")
    while now != FORMAT:
        if not isinstance(now, int) or now not in STEPS:
            return None
        found, now = STEPS[now](found), now + 1
    return {**found, "format": FORMAT}
