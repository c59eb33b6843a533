"""Checks the options of `advise` and advises: the entry point of the command line and of Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latecomer.config.arguments import require_kind
from latecomer.config.checks import require_output
from latecomer.config.models import Pipeline
from latecomer.errors import did_you_mean
from latecomer.model.durations import DURATION_FIX, parse_duration
from latecomer.model.lateness.advice import COMPLETENESS, Wish
from latecomer.model.zones import is_zone, zone_fix
from latecomer.observe.advise.advising import advise
from latecomer.observe.advise.history import History
from latecomer.observe.advise.log import LogHistory
from latecomer.observe.advise.raw import RawHistory
from latecomer.observe.advise.raw_source import RawSource, refused
from latecomer.observe.advise.report import Advice, Wanted

UNITS = ("s", "ms", "us", "ns")
_DURATIONS = {"every": None, "idle_after": None, "max_future": "5m", "window": "1m"}
_COLUMNS = ("event_time", "arrival", "partition", "producer")
_FILES = (*_COLUMNS, "measures", "unit", "zone", *_DURATIONS)


@dataclass(frozen=True)
class AdviceOptions:
    """The options for any history, as the user writes them."""

    by: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    delays: tuple[str, ...] = ()
    lateness: tuple[str, ...] = ()
    target_completeness: float | None = None
    max_latency: str | None = None
    sample: float | None = None


def advice_on(source: Pipeline | str | Path, options: AdviceOptions, files: Mapping[str, Any]) -> Advice:
    """Advice on a pipeline that has run, or on files."""
    require_kind("advise", (Pipeline, str, Path), "a Pipeline, or the path of files", source=source)
    wanted = wanted_of(options)
    return advise(history_of(source, options, files), wanted)


def history_of(source: Pipeline | str | Path, options: AdviceOptions, files: Mapping[str, Any]) -> History:
    """The log of a pipeline, or files."""
    for name in files:
        if name not in _FILES:
            raise refused(name, "there is no such option", None, did_you_mean(name, _FILES))
    given = {name: value for name, value in files.items() if value not in (None, (), [])}
    if isinstance(source, Pipeline):
        if given:
            name = next(iter(given))
            raise refused(
                _option(name), "is for raw files: a pipeline file has it", given[name], "leave it out"
            )
        for output in options.outputs:
            require_output(source, output)
        return LogHistory(source, options.by, options.outputs)
    if options.outputs:
        raise refused("--output", "raw files have no outputs", options.outputs[0], "leave it out")
    if "event_time" not in given:
        fix = "name the column: --event-time event_time; or name a pipeline file"
        raise refused("--event-time", "is needed for raw files", None, fix)
    return RawHistory(_raw_source(str(source), options, given))


def _option(name: str) -> str:
    return "--" + {"measures": "measure"}.get(name, name).replace("_", "-")


def _raw_source(path: str, options: AdviceOptions, given: Mapping[str, Any]) -> RawSource:
    columns = {name: given[name] for name in _COLUMNS if name in given}
    for name, column in columns.items():
        require_kind("advise", str, "the name of a column", **{name: column})
    unit, zone = given.get("unit"), given.get("zone", "UTC")
    if unit is not None and unit not in UNITS:
        raise refused("--unit", "is not a unit of time", unit, f"write one of {', '.join(UNITS)}")
    if not isinstance(zone, str) or not is_zone(zone):
        raise refused("--zone", "is not a time zone", zone, zone_fix(str(zone)))
    lengths = {
        name: _duration(_option(name), given.get(name, usual), name != "idle_after")
        for name, usual in _DURATIONS.items()
    }
    measures = given.get("measures", ())
    require_kind("advise", (list, tuple), "columns in a list", measures=measures)
    given_lengths: dict[str, Any] = {name: length for name, length in lengths.items() if length is not None}
    return RawSource(
        path, **columns, by=options.by, measures=tuple(measures), unit=unit, zone=zone, **given_lengths
    )


def wanted_of(options: AdviceOptions) -> Wanted:
    """The options, checked and parsed."""
    share = options.target_completeness
    if share is not None and not _is_share(share):
        fix = "write a share above 0 and below 1, such as 0.995"
        raise refused("--target-completeness", "is not a share", share, fix)
    if options.sample is not None and not (_is_share(options.sample) or options.sample == 1):
        raise refused(
            "--sample", "is not a share", options.sample, "write a share above 0 and up to 1, such as 0.1"
        )
    limit = None if options.max_latency is None else _duration("--max-latency", options.max_latency)
    return Wanted(
        Wish(share or COMPLETENESS, limit, share is not None),
        tuple(dict.fromkeys(_at_least_zero("--delay", each) for each in options.delays)),
        tuple(dict.fromkeys(_at_least_zero("--lateness", each) for each in options.lateness)),
        None if options.sample == 1 else options.sample,
    )


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1


def _at_least_zero(option: str, written: str) -> int:
    return _duration(option, written, False) or 0


def _duration(option: str, written: object, above_zero: bool = True) -> int | None:
    if written is None:
        return None
    try:
        micros = parse_duration(written)
    except (TypeError, ValueError):
        raise refused(option, "is not a duration", written, DURATION_FIX) from None
    if micros < 0 or (above_zero and not micros):
        raise refused(option, "is too short", written, DURATION_FIX)
    return micros
