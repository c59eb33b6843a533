"""Profiles: the habits of another engine, as far as they are settings of ours.

A profile fills in what is not written. It never makes an output drop what others drop: that is `too_late`.
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
        "trigger.early": {"count": 1, "per": "batch"},  # as its cache of records does
        "trigger.on_time": "if_changed",
        "watermark.on_idle": "hold",
    },
    "spark": {"window.touching": "joins", "window.final": "after_gap", "watermark.on_idle": "hold"},
}
"""Setting → value. `window` and `trigger` are those of every output; those of `window` are for sessions."""


def applied(profile: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a pipeline, with what its profile says where they say nothing."""
    filled = dict(fields)
    outputs = fields.get("outputs")
    if isinstance(outputs, Mapping):
        filled["outputs"] = {name: _output(profile, output) for name, output in outputs.items()}
    filled["watermark"] = _filled(fields.get("watermark"), _of(profile, "watermark"))
    return filled


def settings(profile: str, sessions: bool) -> str:
    """What a profile sets, in words."""
    written = [
        f"{setting}: {_written(value)}"
        for setting, value in PROFILES[profile].items()
        if sessions or not setting.startswith("window.")
    ]
    return ", ".join(written)


def _output(profile: str, output: Any) -> Any:
    window = output.get("window") if isinstance(output, Mapping) else getattr(output, "window", None)
    is_session = "session" in (window if isinstance(window, Mapping) else getattr(window, "kind", ""))
    parts = {"trigger": _of(profile, "trigger")} | ({"window": _of(profile, "window")} if is_session else {})
    if isinstance(output, Mapping):
        return {**output, **{name: _filled(output.get(name, {}), each) for name, each in parts.items()}}
    if isinstance(output, BaseModel):
        return output.model_copy(
            update={name: _filled(getattr(output, name), each) for name, each in parts.items()}
        )
    return output


def _of(profile: str, part: str) -> dict[str, Any]:
    named = (setting.split(".") for setting in PROFILES[profile])
    return {name: PROFILES[profile][f"{first}.{name}"] for first, name in named if first == part}


def _filled(written: Any, defaults: Mapping[str, Any]) -> Any:
    """What is written goes first, whether as a mapping or as an object made in Python."""
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
    return "{count: 1}" if value == {"count": 1} else str(value)
