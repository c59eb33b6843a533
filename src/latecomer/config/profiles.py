"""Profiles: settings that make a pipeline behave as another engine does.

A profile sets only what the pipeline file leaves out. It never makes an output drop events: that is `too_late`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

Name = Literal["flink", "beam", "kafka", "spark"]

PROFILES: dict[str, dict[str, Any]] = {
    "flink": {
        "window.touching": "joins",
        "window.final": "after_gap",
        "trigger.on_time": "always",
        "watermark.on_idle": "hold",
    },
    "beam": {
        "window.touching": "separate",
        "window.final": "after_gap",
        "trigger.on_time": "always",
        "watermark.on_idle": "hold",
    },
    "kafka": {
        "window.touching": "joins",
        "window.final": "after_gap",
        "trigger.early": {"count": 1, "per": "batch"},  # as Kafka Streams' record cache does
        "trigger.on_time": "if_changed",
        "watermark.on_idle": "hold",
    },
    "spark": {"window.touching": "joins", "window.final": "after_gap", "watermark.on_idle": "hold"},
}
"""Setting → value. `window` and `trigger` apply to every output, `window` only where it is a session; `watermark`
applies to the pipeline's watermark and to the own watermark of each source."""


def applied(profile: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a pipeline. Those that are not set are set by its profile."""
    whole = dict(fields)
    for field, fill in (("outputs", _output), ("sources", _source)):
        if isinstance(named := fields.get(field), Mapping):
            whole[field] = {name: fill(profile, each) for name, each in named.items()}
    whole["watermark"] = _filled(fields.get("watermark"), _of(profile, "watermark"))
    return whole


def settings(profile: str, sessions: bool) -> str:
    """What a profile sets, as the pipeline file would have it."""
    return ", ".join(
        f"{setting}: {_written(value)}"
        for setting, value in PROFILES[profile].items()
        if sessions or not setting.startswith("window.")
    )


def _output(profile: str, output: Any) -> Any:
    window = output.get("window") if isinstance(output, Mapping) else getattr(output, "window", None)
    is_session = "session" in (window if isinstance(window, Mapping) else getattr(window, "kind", ""))
    parts = {"trigger": _of(profile, "trigger")} | ({"window": _of(profile, "window")} if is_session else {})
    return _with_parts({"trigger": {}, **output} if isinstance(output, Mapping) else output, parts)


def _source(profile: str, source: Any) -> Any:
    return _with_parts(source, {"watermark": _of(profile, "watermark")})


def _with_parts(whole: Any, defaults: Mapping[str, Mapping[str, Any]]) -> Any:
    """A mapping or a model, with defaults for the fields of its parts."""
    if isinstance(whole, Mapping):
        return {
            **whole,
            **{name: _filled(whole[name], each) for name, each in defaults.items() if name in whole},
        }
    if isinstance(whole, BaseModel):
        parts = {name: getattr(whole, name) for name in defaults}
        return whole.model_copy(update={name: _filled(part, defaults[name]) for name, part in parts.items()})
    return whole


def _of(profile: str, part: str) -> dict[str, Any]:
    named = (setting.split(".") for setting in PROFILES[profile])
    return {name: PROFILES[profile][f"{first}.{name}"] for first, name in named if first == part}


def _filled(written: Any, defaults: Mapping[str, Any]) -> Any:
    """Fields that are set go first, whether in a mapping or in an object made in Python."""
    if isinstance(written, Mapping):
        return {**defaults, **written}
    if isinstance(written, BaseModel):
        missing = {name: value for name, value in defaults.items() if name not in written.model_fields_set}
        whole = {**{name: getattr(written, name) for name in type(written).model_fields}, **missing}
        return (
            type(written).model_validate(whole) if "early" in missing else written.model_copy(update=missing)
        )
    return written


def _written(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return f"{{{', '.join(f'{name}: {each}' for name, each in value.items())}}}"
