"""The tables of a report, as text for a terminal and for a page. The first row has the heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from latecomer.config.sizes import size_in_words
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.groups import Interval
from latecomer.model.lateness.sweep import WhatIf
from latecomer.observe.advise.rows import in_figures, setting_row

if TYPE_CHECKING:
    from latecomer.observe.advise.report import Advice, GroupDelays, OutputReport

Table = list[list[str]]
P99 = "p99"
"""The column of a what-if table for which a terminal has no room."""
_ABSENT = "-"
_SHARES = (0.5, 0.99, 0.999)
_SHARES_SHOWN = ("p50", "p99", "p99.9")


def delays_by_group(report: Advice) -> Iterator[tuple[str, Table]]:
    """Both delays of partitions, then of the groups of each column of `by`."""
    every = (*report.partitions, *report.groups)
    for column in dict.fromkeys(each.column for each in every):
        old, behind = ([f"{what}: {_SHARES_SHOWN[0]}", *_SHARES_SHOWN[1:]] for what in ("old", "behind"))
        rows = [_group(each) for each in every if each.column == column]
        yield column, [["", "events", *old, *behind, "most"], *rows]


def _group(group: GroupDelays) -> list[str]:
    both = (group.age.percentiles, group.behind.percentiles)
    shown = [percentiles.get(share) for percentiles in both for share in _SHARES]
    return [
        _value(group.value),
        f"{group.age.count:,}",
        *(_ABSENT if each is None else shown_duration(each) for each in shown),
        shown_duration(group.behind.most),
    ]


def what_ifs(output: OutputReport, settings: Sequence[WhatIf], sampled: bool) -> Table:
    """What settings would mean for an output."""
    lost = "dropped" if output.drops_too_late else "set aside"
    heads = ["delay", "lateness", "on time", "complete", lost, "published after", P99]
    rows = [_what_if(each, output, sampled) for each in settings]
    return [[*heads, "corrections/min", "upserts/day", "kept"], *rows]


def _what_if(each: WhatIf, output: OutputReport, sampled: bool) -> list[str]:
    row = setting_row(each, output, sampled)
    after = (row["published_after"], row["published_after_p99"])
    return [
        format_duration(each.setting.delay),
        format_duration(each.setting.lateness) if output.accepts else _ABSENT,
        f"{row['on_time_share']:.2%}",
        f"{row['completeness']:.3%}",
        f"{row['side_output'] + row['dropped']:,}",
        *(_ABSENT if value is None else shown_duration(round(value)) for value in after),
        _number(row["corrections_a_minute"]),
        _number(row["upserts_a_day"]),
        _ABSENT if (kept := row["retained_bytes"]) is None else size_in_words(kept),
    ]


def who_is_late(report: Advice) -> Table:
    """The groups that are late more often than others."""
    rows = [
        [
            f"{each.column} = {_value(each.value)}",
            f"{each.times:.3g}",
            _interval(each.interval, "{:.3g}"),
            f"{each.share_of_late:.1%}",
            f"{each.share_of_events:.1%}",
        ]
        for each in report.late_groups
    ]
    return [["", "times as often", "95 %", "of the late", "of all"], *rows]


def biases(report: Advice) -> Table:
    """The numbers that would change if late events were dropped."""
    rows = []
    for each in report.biases:
        if each.relative:
            name = (
                f"{each.output}: {each.aggregate} = {each.written}" if report.kind == "log" else each.written
            )
            group = "" if each.group is None else f", {each.group[0]} = {_value(each.group[1])}"
            numbers = in_figures(each.with_all), in_figures(each.without_late)
            change = f"{each.relative:+.3%}", _interval(each.interval, "{:+.3%}")
            rows.append([name + group, *numbers, *change])
    return [["", "with all", "without", "change", "95 %"], *rows]


def skews(report: Advice) -> Table:
    """The producers whose clocks are ahead."""
    rows = [
        [
            each.producer,
            f"{each.events:,}",
            f"{each.negative:,}",
            shown_duration(each.ahead),
            shown_duration(each.against_others),
        ]
        for each in report.skews
    ]
    return [["", "events", "negative", "ahead by", "against others"], *rows]


def _value(value: str | None) -> str:
    return "(null)" if value is None else value


def _interval(found: Interval | None, form: str) -> str:
    return _ABSENT if found is None else f"{form.format(found.low)} … {form.format(found.high)}"


def _number(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
