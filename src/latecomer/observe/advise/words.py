"""A report in words, for a terminal and for a page: sentences, and tables of text whose first row has the heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latecomer.config.sizes import size_in_words
from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.advice import Advised
from latecomer.model.lateness.groups import Interval
from latecomer.model.lateness.sweep import WhatIf
from latecomer.model.zoned import written
from latecomer.observe.advise.report import Distribution, GroupDelays, OutputReport, Report

Table = list[list[str]]
DELAYS = (
    ("how old events are when they come", "arrival − event time"),
    ("how far they come behind the newest of their partition", "this alone sets the delay"),
)
"""The two delays, and what each of them is."""
P99 = "p99"
"""The column of a what-if table for which a terminal has no room."""
_ABSENT = "-"
_SHARES = (0.5, 0.99, 0.999)
_SHARES_SHOWN = ("p50", "p99", "p99.9")


def sentence(text: str) -> str:
    """A text that begins with a capital, for a page.

    >>> sentence("no elbow")
    'No elbow'
    """
    return text[:1].upper() + text[1:]


def measured(report: Report) -> str:
    """What was measured."""
    return f"{counted(report.events, 'event')} that arrived from {written(report.since)} to {written(report.until)}"


def about_sample(report: Report) -> Iterator[str]:
    """How precise a sample is."""
    if report.sample is not None:
        yield (
            f"a sample of {report.sample:.3g} of {report.of_events:,}; a share is right to within "
            f"{report.sampling_error or 0:.2%} (95 %)"
        )


def about(delays: Distribution) -> Iterator[str]:
    """What is to be said of a distribution besides its figures."""
    if delays.negative:
        yield f"{delays.negative:,} are negative, down to {shown_duration(delays.least)}: clocks that are ahead"
    bend = delays.elbow
    if bend is None:
        yield "no elbow: waiting longer pays evenly, or there is too little to tell"
    else:
        yield (
            f"elbow at {shown_duration(bend.delay)} ({shown_duration(bend.low)} to {shown_duration(bend.high)} are "
            f"as good), enough for {bend.completeness:.2%}; sharpness {bend.sharpness:.2f} of 1"
        )


def present_setting(each: Advised, report: Report) -> str:
    """What the pipeline file has in place of an advised setting."""
    if not each.changes:
        return "as it is"
    current = "not set" if each.current is None else format_duration(each.current)
    return f"now {current}" if report.kind == "log" else ""


def title_of(output: OutputReport, report: Report) -> str:
    """The name of an output; files have none."""
    return output.name if report.kind == "log" else "supposed windows"


def about_estimates(output: OutputReport) -> Iterator[str]:
    """How precise the panes and states of an output are, where they are not counted."""
    error = max((each.error for each in output.settings), default=0.0)
    if error:
        yield f"panes and states are estimated, to within {2 * error:.1%} (95 %)"


def precision(report: Report) -> str:
    return (
        f"percentiles are never too small, and too large by {report.precision:.1%} at most "
        f"({report.group_precision:.1%} for partitions and groups)"
    )


# Tables


def by_group(report: Report) -> Iterator[tuple[str, Table]]:
    """Both delays of partitions, then of the groups of each column of `by`, each with its title."""
    every = (*report.partitions, *report.groups)
    for column in dict.fromkeys(each.column for each in every):
        old, behind = ([f"{what}: {_SHARES_SHOWN[0]}", *_SHARES_SHOWN[1:]] for what in ("old", "behind"))
        rows = [_group(each) for each in every if each.column == column]
        yield f"by {column} ({len(rows):,})", [["", "events", *old, *behind, "most"], *rows]


def _group(group: GroupDelays) -> list[str]:
    both = (group.age.percentiles, group.behind.percentiles)
    shown = [percentiles.get(share) for percentiles in both for share in _SHARES]
    return [
        _value(group.value),
        f"{group.age.count:,}",
        *(_ABSENT if each is None else shown_duration(each) for each in shown),
        shown_duration(group.behind.most),
    ]


def what_ifs(output: OutputReport, settings: Sequence[WhatIf], report: Report) -> Table:
    """What settings would mean for an output."""
    lost = "dropped" if output.drops_too_late else "set aside"
    heads = ["delay", "lateness", "on time", "complete", lost, "published after", P99]
    rows = [_what_if(each, output, report.sampled) for each in settings]
    return [[*heads, "corrections/min", "upserts/day", "kept"], *rows]


def _what_if(each: WhatIf, output: OutputReport, of_sample: bool) -> list[str]:
    row = output.row(each, of_sample)
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


def findings(report: Report) -> Iterator[tuple[str, Table | str]]:
    """Who is late, what that does to numbers, and whose clock is ahead: titles, each with a table or a sentence."""
    delay = format_duration(report.late_delay)
    if report.groups:
        nobody = "no group is late more often than the others, as far as this history tells"
        yield (
            f"who is late (more than {delay} behind)",
            _late_groups(report) if report.late_groups else nobody,
        )
    if len(table := _biases(report)) > 1:
        yield f"bias, if what is late under a delay of {delay} were dropped", table
    if report.skews:
        yield "clocks that are ahead (events that come before they happen)", _skews(report)


def _late_groups(report: Report) -> Table:
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


def _biases(report: Report) -> Table:
    """The numbers that would change if late events were dropped."""
    rows = []
    for each in report.biases:
        if each.relative:
            name = (
                f"{each.output}: {each.aggregate} = {each.written}" if report.kind == "log" else each.written
            )
            group = "" if each.group is None else f", {each.group[0]} = {_value(each.group[1])}"
            numbers = _in_figures(each.with_all), _in_figures(each.without_late)
            change = f"{each.relative:+.3%}", _interval(each.interval, "{:+.3%}")
            rows.append([name + group, *numbers, *change])
    return [["", "with all", "without", "change", "95 %"], *rows]


def _skews(report: Report) -> Table:
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


def _in_figures(value: float) -> str:
    """A sum or a mean for people: whole where it is large, else with six digits.

    >>> _in_figures(500_069_812_345.0), _in_figures(50_004.512)
    ('500,069,812,345', '50,004.5')
    """
    return f"{value:,.0f}" if abs(value) >= 100_000 else f"{value:,.6g}"


def _value(value: str | None) -> str:
    return "(null)" if value is None else value


def _interval(found: Interval | None, form: str) -> str:
    return _ABSENT if found is None else f"{form.format(found.low)} … {form.format(found.high)}"


def _number(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
