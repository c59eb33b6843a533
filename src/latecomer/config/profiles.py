"""Profiles: settings that make a pipeline behave as another engine does.

A profile sets only what the pipeline file leaves out. It never makes an output drop events: that is `too_late`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from latecomer.config.outputs import Output
from latecomer.model.base import Model
from latecomer.model.triggers import Count

Name = Literal["flink", "beam", "kafka", "spark"]
_HOLD = {"on_idle": "hold"}

PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "flink": {
        "window": {"touching": "joins", "final": "after_gap"},
        "trigger": {"on_time": "always"},
        "watermark": _HOLD,
    },
    "beam": {
        "window": {"touching": "separate", "final": "after_gap"},
        "trigger": {"on_time": "always"},
        "watermark": _HOLD,
    },
    "kafka": {
        "window": {"touching": "joins", "final": "after_gap"},
        # as Kafka Streams' record cache does
        "trigger": {"early": Count(count=1, per="batch"), "on_time": "if_changed"},
        "watermark": _HOLD,
    },
    "spark": {"window": {"touching": "joins", "final": "after_gap"}, "watermark": _HOLD},
}
"""`window` and `trigger` apply to every output, `window` only where it is a session; `watermark` applies to the
pipeline's watermark and to the own watermark of each source."""

_Part = TypeVar("_Part", bound=Model)


def with_profile(part: _Part, profile: str | None, name: str) -> _Part:
    """A part of a pipeline. The fields that are not set in it are set by the profile."""
    defaults = {} if profile is None else PROFILES[profile].get(name, {})
    missing = {field: value for field, value in defaults.items() if field not in part.model_fields_set}
    return part.model_copy(update=missing) if missing else part


def output_with_profile(output: Output, profile: str | None) -> Output:
    """An output, whose trigger and session window have what the profile sets."""
    if profile is None:
        return output
    trigger = with_profile(output.trigger, profile, "trigger")
    window = with_profile(output.window, profile, "window") if output.window.merges else output.window
    return output.model_copy(update={"trigger": trigger, "window": window})


def settings(profile: str, sessions: bool) -> str:
    """What a profile sets, as the pipeline file would have it."""
    return ", ".join(
        f"{part}.{setting}: {_written(value)}"
        for part, defaults in PROFILES[profile].items()
        for setting, value in defaults.items()
        if sessions or part != "window"
    )


def _written(value: Any) -> str:
    if isinstance(value, Model):
        value = value.model_dump()
    if not isinstance(value, Mapping):
        return str(value)
    return f"{{{', '.join(f'{name}: {each}' for name, each in value.items())}}}"
