"""What a registry holds a migration to by itself: how long phases last, how much may drift, who must have moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration
from latecomer.schemas.migrations.definition import Migration, Soak
from latecomer.schemas.migrations.phases import Phase, State


@dataclass(frozen=True)
class Rules:
    """As they are kept with the state. Where none are kept, they are those of a file that sets none."""

    soak: Mapping[Phase, int] = field(default_factory=lambda: _soak(Soak()))
    """How long each phase lasts at least, in microseconds."""
    drift_limit: float = 0.0
    consumers: tuple[str, ...] = ()
    """Who must not be seen with a schema that needs the old shape."""

    @classmethod
    def of(cls, migration: Migration) -> Self:
        return cls(_soak(migration.soak), migration.drift_limit, tuple(sorted(migration.consumers)))

    def body(self) -> dict[str, Any]:
        """As they are kept and sent; times are microseconds.

        >>> Rules.read(Rules(consumers=("crm",)).body()) == Rules(consumers=("crm",))
        True
        """
        return {
            "soak": {str(phase): micros for phase, micros in self.soak.items()},
            "drift_limit": self.drift_limit,
            "consumers": list(self.consumers),
        }

    @classmethod
    def read(cls, body: Mapping[str, Any] | None) -> Self:
        """Rules as they were kept or sent."""
        if body is None:
            return cls()
        soak = {Phase(phase): int(micros) for phase, micros in body["soak"].items()}
        return cls(soak, float(body["drift_limit"]), tuple(map(str, body["consumers"])))


def _soak(soak: Soak) -> dict[Phase, int]:
    return {phase: soak.of(phase) for phase in Phase if phase is not Phase.CONTRACT}


def waiting(state: State, rules: Rules, now: int) -> list[str]:
    """Why a phase cannot end yet, by the clock and by what was measured; nothing where it can."""
    found = (_soaking(state, rules, now), _drifting(state, rules))
    return [reason for reason in found if reason is not None]


def _soaking(state: State, rules: Rules, now: int) -> str | None:
    """That the phase is younger than it has to become."""
    if state.phase is None or state.since is None:
        return None
    soak = rules.soak.get(state.phase, 0)
    left = state.since + soak - now
    if left <= 0:
        return None
    return f"{state.phase} is to last {format_duration(soak)}, and {shown_duration(left)} of it are left"


def _drifting(state: State, rules: Rules) -> str | None:
    """That too much drifts, or that nobody has looked."""
    if state.phase not in (Phase.DUAL_WRITE, Phase.MIGRATE) or state.since is None:
        return None
    measured = state.measured
    if measured is None or measured.at < state.since:
        return f"drift was not looked at since {state.phase} began; run latecomer migrate check FILE --pipeline FILE"
    if not measured.events:
        return "no event has been there when drift was last looked at; check again"
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
