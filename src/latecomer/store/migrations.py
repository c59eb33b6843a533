"""Stores of earlier versions: each step brings `pipeline.json` from one format to the next.

Reading takes the steps in memory, so an old store can be read as it is. The next run writes the result. Tables have
needed no step so far: a new column is null in old files. The content is checked before (`pins.py`).
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


def with_sums(pinned: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pins with the type of sums, which the first format did not name: they were 64 bits wide (ADR 0028)."""
    return {SUMS: NARROW, **pinned} if pinned.get("format") == 1 else pinned


def _with_first_defaults(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """1 → 2: settings that the first versions did not have are written down. No output discarded, fired early or
    published empty windows."""
    outputs = {name: _with_discarding(definition) for name, definition in pinned["outputs"].items()}
    policies = {name: list(map(_with_policy, entries)) for name, entries in pinned["policies"].items()}
    return {**with_sums(pinned), "outputs": outputs, "policies": policies}


def _with_discarding(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {"discarding": False, **definition}


def _with_policy(entry: Mapping[str, Any]) -> dict[str, Any]:
    retracts = entry["policy"].get("late") == LatePolicy.RETRACT
    before = {
        "trigger": Trigger().model_dump(mode="json"),
        "accumulation": str(Accumulation.RETRACTING if retracts else Accumulation.ACCUMULATING),
        "emit_empty": False,
    }
    meaning = {"definition": _with_discarding(entry["definition"])} if "definition" in entry else {}
    return {**entry, "policy": {**before, **entry["policy"]}, **meaning}


def _with_cadence(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """2 → 3: triggers fired only at the end of a batch (ADR 0010)."""
    policies = {name: list(map(_per_batch, entries)) for name, entries in pinned["policies"].items()}
    return {**pinned, "policies": policies}


def _per_batch(entry: Mapping[str, Any]) -> dict[str, Any]:
    trigger = entry["policy"].get("trigger", {})
    rules = {name: {**rule, "per": "batch"} for name, rule in trigger.items() if isinstance(rule, dict)}
    return {**entry, "policy": {**entry["policy"], "trigger": {**trigger, **rules}}}


STEPS: dict[int, Callable[[Mapping[str, Any]], dict[str, Any]]] = {1: _with_first_defaults, 2: _with_cadence}
"""Format → the step to the next one."""
MEANINGS = {
    1: "what the first versions could not do otherwise is written down: sums, triggers, accumulation",
    2: "triggers were looked at when a batch ended, and that is written down",
}
"""What each step means, for the owner of the store."""


def upgraded(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """The checked content of a `pipeline.json`, in the format of this version."""
    found = dict(pinned)
    for step in range(found["format"], FORMAT):
        found = STEPS[step](found)
    return {**found, "format": FORMAT}
