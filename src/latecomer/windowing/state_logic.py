"""How one aggregate becomes a mergeable state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StateLogic:
    """One aggregate in SQL. All mappings are column → SQL expression."""

    columns: Mapping[str, str]
    """The private state columns and their types; empty where the value is the state."""
    from_event: Mapping[str, str]
    """An event's inputs, over the source's columns."""
    from_state: Mapping[str, str]
    """A state's inputs, over the pane's columns."""
    merge: Mapping[str, str]
    """Aggregations over the inputs."""
    finish: Mapping[str, str] = field(default_factory=dict)
    """State and value columns, over the merged inputs; those not named pass through."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """Inputs of a state that still counts as what this batch added, where they are not those of any state."""
