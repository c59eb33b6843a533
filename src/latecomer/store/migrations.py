"""Stores of earlier versions: each step brings `pipeline.json` from one format to the next.

Reading takes the steps in memory, so an old store can be read as it is. The next run writes the result. Tables have
needed no step so far: a new column is null in old files. A part that latecomer cannot have written stays as it is: its
reader refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from latecomer.model.panes import Accumulation
from latecomer.model.triggers import Trigger
from latecomer.model.verdicts import LatePolicy
from latecomer.store.state_types import NARROW

FORMAT = 3
"""The format that this version writes."""
SUMS = "sums"
"""The key for the type of sums of whole numbers."""


def _with_first_defaults(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """1 → 2: settings that the first versions did not have are written down.

    Sums of whole numbers were 64 bits wide (ADR 0028). No output discarded, fired early or published empty windows.
    """
    found = {SUMS: NARROW, **pinned}
    if isinstance(outputs := pinned.get("outputs"), dict):
        found["outputs"] = {name: _with_discarding(definition) for name, definition in outputs.items()}
    if isinstance(policies := pinned.get("policies"), dict):
        found["policies"] = {name: _with_policies(entries) for name, entries in policies.items()}
    return found


def _with_discarding(definition: Any) -> Any:
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
    return {**entry, "definition": _with_discarding(entry["definition"])} if "definition" in entry else entry


def _with_cadence(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """2 → 3: triggers fired only at the end of a batch (ADR 0010)."""
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
"""Format → the step to the next one."""
MEANINGS = {
    1: "what the first versions could not do otherwise is written down: sums, triggers, accumulation",
    2: "triggers were looked at when a batch ended, and that is written down",
}
"""What each step means, for the owner of the store."""


def upgraded(pinned: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content of `pipeline.json` in the format of this version; None for a format that it does not know."""
    found, now = dict(pinned), pinned.get("format")
    while now != FORMAT:
        if not isinstance(now, int) or now not in STEPS:
            return None
        found, now = STEPS[now](found), now + 1
    return {**found, "format": FORMAT}
