"""The rules that a registry enforces by itself: minimum durations, the limit for drift, consumers that must move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration
from latecomer.schemas.migrations.definition import Migration, Soak
from latecomer.schemas.migrations.phases import Phase, State, Stored


@dataclass(frozen=True)
class Rules(Stored):
    """The rules stored with a state, durations as microseconds. The defaults are those of a file that sets none.

    >>> Rules.read(Rules(consumers=("crm",)).body()) == Rules(consumers=("crm",))
    True
    """

    soak: Mapping[Phase, int] = field(default_factory=lambda: _soak(Soak()))
    """The minimum duration of each phase, in microseconds."""
    drift_limit: float = 0.0
    consumers: tuple[str, ...] = ()
    """The consumers that must not be seen with a schema that needs the old shape."""

    @classmethod
    def of(cls, migration: Migration) -> Self:
        return cls(_soak(migration.soak), migration.drift_limit, tuple(sorted(migration.consumers)))

    @classmethod
    def read(cls, body: Mapping[str, Any] | None) -> Self:
        return cls() if body is None else super().read(body)


def _soak(soak: Soak) -> dict[Phase, int]:
    return {phase: soak.of(phase) for phase in Phase if phase is not Phase.CONTRACT}


def waiting(state: State, rules: Rules, now: int) -> list[str]:
    """Why a phase cannot end yet, by its age and by the measured drift; empty if it can."""
    reasons = (_soaking(state, rules, now), _drifting(state, rules))
    return [reason for reason in reasons if reason is not None]


def _soaking(state: State, rules: Rules, now: int) -> str | None:
    """Why the phase is too young; None if it is not."""
    if state.phase is None or state.since is None:
        return None
    soak = rules.soak.get(state.phase, 0)
    remaining = state.since + soak - now
    if remaining <= 0:
        return None
    return f"{state.phase} is to last {format_duration(soak)}, and {shown_duration(remaining)} of it are left"


def _drifting(state: State, rules: Rules) -> str | None:
    """Why the drift is too much or unknown; None if it is neither."""
    if state.phase not in (Phase.DUAL_WRITE, Phase.MIGRATE) or state.since is None:
        return None
    measured = state.measured
    if measured is None or measured.at < state.since:
        return f"drift was not measured since {state.phase} began; run latecomer migrate check FILE --pipeline FILE"
    if not measured.events:
        return "there was no event when drift was last measured; check again"
    if measured.share <= rules.drift_limit:
        return None
    return (
        f"{measured.drifted:,} of {counted(measured.events, 'event')} drift ({shown_share(measured.share)}), and "
        f"the limit is {shown_share(rules.drift_limit)}; correct the producers that latecomer migrate check names"
    )


def shown_share(share: float) -> str:
    """
    >>> shown_share(0.001), shown_share(0.25), shown_share(0)
    ('0.1%', '25%', '0%')
    """
    return f"{share * 100:.6g}%"
